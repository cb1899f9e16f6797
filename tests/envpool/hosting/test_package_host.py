"""Packages in our format, hosted from source texts, give the results of the loop's process."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.envpool.hosting.package_host import PackageHost
from rehearsal_room.envpool.hosting.package_verifiers import verify_package
from rehearsal_room.envpool.inprocess.verifiers import VerifierFault, Verifiers
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.errors import PackageError, UnknownScenario
from rehearsal_room.scenarios.format import Scenario, read
from tests.support.ledger_world import ledger
from tests.support.paths import LIBRARY

_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("book", {"account_id": 1, "amount": 5}),
    ("open_account", {"name": "safe"}),
    ("close_account", {"account_id": 1}),
    ("half", {"note": "x"}),
    ("broken", {}),
    ("bad_data", {}),
    ("end_early", {}),
    ("surrogate", {"refuse": True}),
    ("keep_failure", {}),
    ("chance", {}),
    ("get_account", {"account_id": 1}),
    ("book", {"account_id": "one"}),
    ("nothing", {}),
]


def _text(folder: Path, name: str = "tools.py") -> str:
    return (folder / name).read_text(encoding="utf-8")


def _detach_code(scenario: Scenario) -> tuple[Scenario, str]:
    """The scenario and the text of its tools. The files of its code are deleted."""
    source = _text(scenario.path)
    for name in ("tools.py", "verify.py"):
        (scenario.path / name).unlink()
    return scenario, source


def _live(host: PackageHost) -> LiveWorld:
    return LiveWorld(host.template.overlay(), host.module_state)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[HostedScenario, PackageHost]:
    """The ledger, hosted as in the loop's process and as in a worker."""
    scenario = ledger(tmp_path_factory.mktemp("package"))
    world = HostedScenario(scenario)
    return world, PackageHost(*_detach_code(scenario))


def test_a_package_is_hosted_from_texts(both: tuple[HostedScenario, PackageHost]) -> None:
    """Template and tools are those of the package; there are no faults and no notes."""
    world, host = both
    assert (host.template, host.tools) == (world.template, world.tools)
    assert (host.module_state, host.num_statements, host.seed_faults, host.notes) == (
        b"",
        0,
        (),
        (),
    )


@given(picked=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(_CALLS)), max_size=12))
def test_results_are_those_of_the_loops_process(
    both: tuple[HostedScenario, PackageHost], picked: list[tuple[int, tuple[str, dict[str, Any]]]]
) -> None:
    """Interleaved calls on three worlds give the results and states of the loop's process."""
    world, host = both
    leases = [world.lease() for _ in range(3)]
    lives = [_live(host) for _ in range(3)]
    for which, (name, arguments) in picked:
        expected = leases[which].call(name, arguments)
        assert host.call(lives[which], name, arguments) == expected
    assert [world.stored(live.overlay) for live in lives] == [lease.state() for lease in leases]
    counts = [sum(which == index for which, _ in picked) for index in range(3)]
    assert [live.num_calls for live in lives] == counts


def test_an_image_is_a_template(tmp_path: Path) -> None:
    """A host that gets the database of another worker uses it and does not run the SQL."""
    scenario = ledger(tmp_path)
    built = PackageHost(scenario, _text(scenario.path))
    from_image = PackageHost(scenario, _text(scenario.path), built.template.image)
    assert from_image.template == built.template
    name, arguments = _CALLS[0]
    assert from_image.call(_live(from_image), name, arguments) == built.call(
        _live(built), name, arguments
    )
    for host in (built, from_image):
        host.close()


_HOSTILE = '''
import sys, time, uuid
from datetime import datetime
from typing import Any
from scenarios.api import Db

class Trap(Exception):
    def __str__(self): raise SystemExit

class Text(str):
    def isascii(self): raise SystemExit

def now(db: Db) -> list[Any]:
    """Time and a random number."""
    time.sleep(3600)
    return [datetime.now().isoformat(), str(uuid.uuid4())]

def leave(db: Db) -> str:
    """Leave Python."""
    db.run("INSERT INTO journal VALUES ('lost')")
    sys.exit("bye")

def trap(db: Db) -> str:
    """Raise an exception without a readable message."""
    db.run("INSERT INTO journal VALUES ('lost')")
    raise Trap

def text(db: Db) -> str:
    """Return an instance of a subclass of str."""
    return Text("plain")
'''


def test_time_and_randomness_follow_from_the_world(tmp_path: Path) -> None:
    """Tools see the world's time and random numbers: equal in equal calls, new in the next one."""
    scenario = ledger(tmp_path, tools_py=_HOSTILE)
    host = PackageHost(scenario, _text(scenario.path))
    first, second = (
        [host.call(live, "now", {}).text for _ in range(2)] for live in map(_live, [host] * 2)
    )
    assert first == second
    assert first[0][:24] == '["2026-03-14T10:30:00.00' and len(set(first)) == 2
    host.close()


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        (
            "leave",
            "leave failed with an internal error: RuntimeError: it raised SystemExit",
            "internal",
        ),
        (
            "trap",
            "trap failed with an internal error: RuntimeError: "
            "the text of its Exception is not available",
            "internal",
        ),
        ("text", "plain", None),
    ],
)
def test_hostile_exceptions_and_results_are_contained(
    name: str, text: str, error: str | None, tmp_path: Path
) -> None:
    """No exception of a tool leaves its call, and a failed call has changed nothing."""
    scenario = ledger(tmp_path, tools_py=_HOSTILE)
    host = PackageHost(scenario, _text(scenario.path))
    live = _live(host)
    result = host.call(live, name, {})
    assert (result.text, result.error, result.changes) == (text, error, ())
    assert type(result.text) is str
    assert live.overlay.pages == {}
    host.close()


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ("", "no function has a first parameter annotated Db"),
        ("import sys\nsys.exit(1)", "tools.py: SystemExit"),
        ("def broken(", "SyntaxError"),
        (
            "import threading\ngate = threading.Lock()\ngate.acquire()\n"
            "threading.Thread(target=lambda: gate.acquire(timeout=5), name='idler').start()\n",
            "no function has a first parameter annotated Db",
        ),
        (
            "import threading\nfrom scenarios.api import Db\ngate = threading.Lock()\n"
            "gate.acquire()\n"
            "threading.Thread(target=lambda: gate.acquire(timeout=1), name='idler').start()\n"
            "def tool(db: Db) -> int:\n    'A tool.'\n    return 1\n",
            "tools.py: the code left threads running: idler",
        ),
    ],
)
def test_code_that_cannot_be_hosted(tools: str, why: str, tmp_path: Path) -> None:
    """Code that does not load, or leaves a thread running, is refused with file and reason."""
    with pytest.raises(ToolsetError, match=why):
        PackageHost(ledger(tmp_path), tools)


def test_findings_are_those_of_the_verifier() -> None:
    """A verifier in a worker has the findings that it has in the loop's process."""
    scenario = read(LIBRARY)
    world = HostedScenario(scenario)
    host = PackageHost(scenario, _text(LIBRARY))
    verifiers = Verifiers(scenario)
    for task in scenario.tasks:
        lease, live = world.lease(), _live(host)
        for call in task.oracle:
            lease.call(call.name, call.arguments)
            host.call(live, call.name, call.arguments)
        expected = verifiers.run(task, *world.states(lease.state()), task.answer)
        image, source = host.template.image, _text(LIBRARY, "verify.py")
        found = verify_package(scenario, source, image, live.overlay, task.id, task.answer)
        assert found == expected
    with pytest.raises(UnknownScenario, match="no task 'none'"):
        verify_package(scenario, source, image, host.template.overlay(), "none", "")
    world.close()
    host.close()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise SystemExit", "verifier 'open' of scenario 'ledger' raised SystemExit"),
        ("raise KeyboardInterrupt", "the verifier of task 'open' raised KeyboardInterrupt"),
        ("raise Trap", "verifier 'open' of scenario 'ledger' raised Exception"),
        ("return [Trap()]", "in its list, expected a Finding"),
        ("1 / 0", "raised ZeroDivisionError: division by zero"),
        ("return []", r"returned \[\], expected a list of findings"),
    ],
)
def test_a_verifier_that_fails(body: str, why: str, tmp_path: Path) -> None:
    """Whatever a verifier raises is a VerifierFault."""
    scenario = ledger(tmp_path)
    trap = "class Trap(Exception):\n    def __str__(self): raise SystemExit\n"
    names = "\n".join(
        f"def {task.verifier}(before, after, answer): {body}" for task in scenario.tasks
    )
    with pytest.raises(VerifierFault, match=why):
        _verify_start(scenario, trap + names)


def test_a_verify_py_that_does_not_load(tmp_path: Path) -> None:
    """A broken verify.py is an error of the package, raised when a verifier is needed."""
    scenario = ledger(tmp_path)
    with pytest.raises(PackageError, match=r"verify\.py: NameError"):
        _verify_start(scenario, "nonsense")


def _verify_start(scenario: Scenario, source: str) -> tuple[Finding, ...]:
    """The findings of this verify.py on the start state."""
    world = HostedScenario(scenario)
    try:
        image, start = world.template.image, world.template.overlay()
        return verify_package(scenario, source, image, start, "open", "")
    finally:
        world.close()
