"""Sessions of pytest that use the plug-in, on real worlds; the agents are scripted."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from itertools import takewhile
from pathlib import Path

import pytest

from rehearsal_room.cli.look.view import without_episode
from rehearsal_room.testing import live_world, settling
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY, ROOT
from tests.testing.aa_campaign import plugin_options

pytest_plugins = ["pytester"]

# A session in this process drops the modules that it was first to import: these stay.
USED = (live_world, settling)
HEAD = f"""
import pytest

from tests.testing.scripted_agents import scripted

WORLD = {str(LIBRARY)!r}
TASK = WORLD + ":pay-fine"
PAY = {{"member_id": 2, "amount_cents": 350, "method": "card"}}
good, poor, half = (scripted(WORLD, share) for share in (1.0, 0.0, 0.5))


async def wrong(task, env):
    await env.call("pay_fine", {{**PAY, "amount_cents": 100}})
    return "Paid."


async def needs_more(task, env, more):
    return ""


def plain(task, env):
    env.call("pay_fine", PAY)
    return "Anna Soll's fine of 3.50 is paid by card; she owes nothing now."
"""


def session(
    pytester: pytest.Pytester, text: str, *options: str, head: str = HEAD
) -> pytest.RunResult:
    """The result of a session in this process, in which warnings are errors."""
    pytester.makepyfile(test_agent=head + text)
    return pytester.runpytest_inprocess("-Werror", *plugin_options(), *options)


# What the mark says, what the test does, and the sentence that it fails with.
WRONG = [
    ("TASK, runs=0", "rehearse_run(good)", "runs=0: expected a number of episodes, at least 1"),
    ("TASK, at_least=1.2", "rehearse_run(good)", "at_least=1.2: expected a share between 0 and 1"),
    ("TASK, at_least=True", "rehearse_run(good)", "at_least=True: expected a share between 0"),
    ("TASK, margin=0.1", "rehearse_run(good)", "margin belongs to no_worse_than, which is not"),
    (
        "TASK, run=3",
        "rehearse_run(good)",
        "has no argument 'run'; it has runs, at_least, no_worse_",
    ),
    ("7", "rehearse_run(good)", "a scenario is named by a text, not by 7"),
    ("'nowhere'", "rehearse_run(good)", "scenario 'nowhere' not found: no folder has this path"),
    ("WORLD + ':x'", "rehearse_run(good)", "scenario 'library' has no task 'x'; it has 6 tasks"),
    ("", "rehearse_run(good)", "no scenario is named: write @pytest.mark.rehearse("),
    ("TASK, at_least=0.5", "pass", "and has none: call `rehearse_run(agent)`"),
    ("TASK", "rehearse_run(None)", "agent: 'None' is a NoneType, not a function"),
    (
        "TASK",
        "rehearse_run(needs_more)",
        "agent: 'needs_more' has the parameters (task, env, more); expected (task, env) or",
    ),
    (
        "TASK, at_least=0.5",
        "rehearse_run(good), rehearse_run(good)",
        "a claim is about one run of one agent; parametrize the test to play another one",
    ),
    (
        "TASK, no_worse_than='base'",
        "rehearse_run(good)",
        "is the folder of a run; `pytest --rehearse-save base` plays the test and saves its run",
    ),
]


def test_a_wrong_use_is_one_sentence(pytester: pytest.Pytester) -> None:
    """Without a traceback, and before anything is played where the mark shows it."""
    text = "\n".join(
        f"@pytest.mark.rehearse({mark})\ndef test_{index}(rehearse_run):\n    {body}\n"
        for index, (mark, body, _) in enumerate(WRONG)
    )
    result = session(pytester, text, "-q", "--no-header", "--show-capture=no")
    found = {
        int(name[1]): lines
        for title, lines in _failures(result.outlines)
        if (name := re.search(r" test_(\d+) _", title))
    }
    for index, (_, _, sentence) in enumerate(WRONG):
        (line,) = found[index]
        assert sentence in line


def _failures(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each failure of a session: its title, and what stands below it."""
    titles = [index for index, line in enumerate(lines) if line.startswith("___")]
    for index in titles:
        below = takewhile(lambda line: line[:3] not in ("___", "==="), lines[index + 1 :])
        yield lines[index], list(below)


@pytest.mark.parametrize("setting", ["rehearse_alpha=0", "rehearse_inconclusive=skip"])
def test_a_setting_that_is_refused(pytester: pytest.Pytester, setting: str) -> None:
    """The session ends with a sentence of its own."""
    result = session(pytester, "", "-o", setting)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {setting.replace('=', ' = ')}: expected *"])


CLAIMS = """
@pytest.mark.rehearse(TASK, runs=20, at_least=0.6)
class TestPayFine:
    def test_good(self, rehearse_run):
        assert rehearse_run(good).pass_rate == 1.0

    @pytest.mark.rehearse(runs=6)
    def test_half(self, rehearse_run):
        assert rehearse_run(half, seed=2).episodes == 6

    def test_wrong(self, rehearse_run):
        rehearse_run(wrong)

def test_no_mark(rehearse_run):
    assert rehearse_run(good, WORLD, runs=3).episodes == 3
    assert rehearse_run(good, TASK).folder.name == "run-2"
    run = rehearse_run(plain, TASK)
    assert (run.policy, run.pass_rate) == ("own:plain", 1.0)
"""


@pytest.mark.parametrize(
    ("instead", "outcomes"),
    [
        ("xfail", {"passed": 2, "failed": 1, "inconclusive": 1}),
        ("fail", {"passed": 2, "failed": 2}),
        ("pass", {"passed": 3, "failed": 1}),
    ],
)
def test_three_outcomes(pytester: pytest.Pytester, instead: str, outcomes: dict[str, int]) -> None:
    """A claim holds, fails or is inconclusive, which is a result of its own, as configured. Nearer
    marks prevail, and all claims of the session share alpha."""
    result = session(pytester, CLAIMS, "-o", f"rehearse_inconclusive={instead}")
    assert result.parseoutcomes() == outcomes
    result.stdout.fnmatch_lines(
        ["*at_least=0.6 fails: 0 of 20 *; alpha 0.0167 (0.05 shared by 3 claims)"]
    )
    result.stdout.fnmatch_lines(["*at_least=0.6 is inconclusive: ? of 6 episodes completed, *"])
    assert "at_least=0.6 holds" not in result.stdout.str()


def test_a_failure_leads_to_the_episode(pytester: pytest.Pytester, rehearse: Rehearse) -> None:
    """It prints the changed rows of an episode, and commands that show it."""
    result = session(pytester, CLAIMS, "-k", "wrong or good", "-v", "--junitxml=junit.xml")
    result.stdout.fnmatch_lines(
        [
            "*TestPayFine::test_good: at_least=0.6 holds: 20 of 20 *; alpha 0.05",
        ]
    )
    result.stdout.fnmatch_lines(
        [
            "e000000, one of 20 episodes not completed: library:pay-fine, agent_error (answered)",
            "  goal missed: *",
            "rows that changed:",
            "*members 2 *fine_cents *350 *250",
            "rehearse view *#e000000",
            "rehearse show * e000000",
        ]
    )
    # pytest's summary repeats the whole message where CI is set
    (view,) = set(re.findall(r"^rehearse view (\S+)$", result.stdout.str(), re.MULTILINE))
    (folder,), place = without_episode([Path(view)])
    assert place.startswith("#/run/run-") and place.endswith("/episode/e000000")
    assert "pay_fine" in rehearse("show", folder, "e000000")[1]
    junit = (pytester.path / "junit.xml").read_text()
    assert '<property name="rehearse_verdict" value="fail"' in junit


def test_a_saved_base(pytester: pytest.Pytester) -> None:
    """A session saves the runs of its tests under a name; later ones compare with it, and name the
    tasks that were lost. A run folder is a base, too."""
    text = """
import os
@pytest.mark.rehearse(WORLD, no_worse_than="base")
def test_it(rehearse_run):
    rehearse_run(scripted(WORLD, float(os.environ["SHARE"])))
"""
    pytester.makeini("[pytest]\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHARE", "1")
        assert session(pytester, text, "--rehearse-save", "base").parseoutcomes() == {"passed": 1}
        patch.setenv("SHARE", "0")
        result = session(pytester, text)
        assert result.parseoutcomes() == {"failed": 1}
        result.stdout.fnmatch_lines(
            [
                "no_worse_than='base' fails: -100.0 points over 6 tasks, *; alpha 0.05",
                "A is better by 100.0 points *",
                "A does better (6): library:blocked, *",
                "*one of 6 episodes not completed: *",
            ]
        )
        (saved,) = pytester.path.glob(".rehearse/base/test_agent.py*test_it")
        text = text.replace('"base"', repr(str(saved)))
        assert session(pytester, text).parseoutcomes() == {"failed": 1}


FIXTURES = """
@pytest.mark.rehearse(TASK)
def test_world(rehearse_world):
    assert "pay_fine" in [tool.name for tool in rehearse_world.tools]
    assert "Anna Soll" in rehearse_world.task.instruction
    assert rehearse_world.call("pay_fine", {**PAY, "amount_cents": 9_999}).error == "refused"
    assert rehearse_world.call("pay_fine", PAY).error is None
    episode = rehearse_world.finish("Anna Soll's fine of 3.50 is paid by card; she owes nothing.")
    assert (episode.label, episode.folder.name) == ("completed", "run")
    assert ("members", (2,)) in [(one.table, one.key) for one in episode.changes]

@pytest.mark.parametrize("rehearse_world", [TASK, WORLD], indirect=True)
def test_a_world_that_is_left(rehearse_world):
    rehearse_world.call("pay_fine", PAY)

@pytest.mark.rehearse(TASK)
def test_episode(rehearse_episode):
    episode = rehearse_episode(wrong)
    assert (episode.label, episode.answer) == ("agent_error", "Paid.")
    assert episode.verdict.findings and episode.trajectory.steps
    (one,) = [change for change in episode.changes if change.table == "members"]
    assert (one.before["fine_cents"], one.after["fine_cents"]) == (350, 250)
    assert rehearse_episode(good).label == "completed"
"""
ASYNC = """
@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

@pytest.mark.anyio
@pytest.mark.rehearse(TASK, runs=20, at_least=0.8)
async def test_async(rehearse_world, rehearse_episode, rehearse_run):
    assert (await rehearse_episode.aplay(good)).label == "completed"
    assert (await rehearse_world.acall("pay_fine", PAY)).error is None
    assert (await rehearse_world.afinish("Paid.")).trajectory.steps
    assert (await rehearse_run.aplay(good)).episodes == 20

@pytest.mark.anyio
async def test_the_plain_form(rehearse_run):
    rehearse_run(good, TASK)
"""


def test_the_fixtures(pytester: pytest.Pytester) -> None:
    """A world that the test acts in, and an episode of an agent, in plain tests, without a plug-in
    for async ones."""
    result = session(pytester, FIXTURES, "-p", "no:anyio")
    assert result.parseoutcomes() == {"passed": 4}


def test_the_fixtures_in_async_tests(pytester: pytest.Pytester) -> None:
    """They are awaited on the test's own event loop; on trio's, and where the plain form would
    block the loop, one sentence says what to do."""
    result = session(pytester, ASYNC)
    assert result.parseoutcomes() == {"passed": 1, "failed": 3}
    result.stdout.fnmatch_lines(
        ["episodes run on asyncio, and this test runs on another event loop"]
    )
    result.stdout.fnmatch_lines(
        ["<rehearse_run [[]0 played]>: in an async test, await its method `aplay`"]
    )


@pytest.mark.slow  # each starts interpreters that import everything
@pytest.mark.parametrize(
    ("options", "text", "outcomes"),
    [
        (["-n", "2"], CLAIMS + FIXTURES, {"passed": 6, "failed": 1, "inconclusive": 1}),
        (["-p", "no:xdist"], CLAIMS, {"passed": 2, "failed": 1, "inconclusive": 1}),
    ],
    ids=["xdist", "no xdist"],
)
def test_sessions_of_their_own(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    text: str,
    outcomes: dict[str, int],
) -> None:
    """With and without pytest-xdist: each worker counts the claims of the whole session."""
    pytester.makepyfile(test_agent=HEAD + text)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    result = pytester.runpytest_subprocess("-Werror", *plugin_options(), *options)
    assert result.parseoutcomes() == outcomes
    result.stdout.fnmatch_lines(["*inconclusive: * (0.05 shared by 3 claims)"])


LIGHT = """
import sys

def test_nothing_of_ours():
    names = {name for name in sys.modules if name.startswith("rehearsal_room.")}
    assert names <= {"rehearsal_room.testing", "rehearsal_room.testing.plugin"}
    for name in ("msgspec", "anyio", "numpy", "scipy", "rich"):
        assert name not in sys.modules
"""


@pytest.mark.parametrize("wanted", [True, False])
def test_other_sessions_stay_light(tmp_path: Path, wanted: bool) -> None:
    """A session that does not use the plug-in imports nothing of the project but that module, and
    none of its libraries; `-p no:rehearse` leaves it out."""
    (tmp_path / "test_light.py").write_text(LIGHT)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = plugin_options() if wanted else ()
    others = [
        one for name in ("anyio", "hypothesispytest", "xdist") for one in ("-p", f"no:{name}")
    ]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path)),
            *(*options, *others, *(() if wanted else ("-p", "no:rehearse"))),
            str(tmp_path / "test_light.py"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_entry_point() -> None:
    """pytest finds the plug-in by the package's metadata, under the name `rehearse`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"rehearse": "rehearsal_room.testing.plugin"}
    for found in metadata.entry_points(group="pytest11", name="rehearse"):
        assert found.value == "rehearsal_room.testing.plugin"
