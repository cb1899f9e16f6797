"""Known defects that are injected into sound worlds, and the gate that must find them."""

import ast
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.workers.pool import WorkerSettings
from rehearsal_room.judge.gate.awm_record import check_record
from rehearsal_room.judge.gate.checks.code import module_state
from rehearsal_room.judge.gate.checks.policy_limits import contradictions
from rehearsal_room.judge.gate.checks.tasks import asks
from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.judge.gate.job_pool import CheckOutcome
from rehearsal_room.judge.gate.package import check_scenario
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import AwmSample, AwmVerifier, Scenario
from tests.devtools.defects.ast_edits import (
    at_start,
    edit_function,
    functions_of,
    reachable_functions,
    remove_statements,
)
from tests.devtools.defects.awm import AWM_DEFECTS
from tests.devtools.defects.catalogue import DEFECTS, inject, inject_all
from tests.devtools.defects.study import Kind, Missed, Study, render, study
from tests.devtools.defects.target import Defect, InjectedDefect, TargetPackage
from tests.judge.gate.test_awm_record import CODE, EVIDENCE, HAS, SEED
from tests.support.budgets import repeats
from tests.support.hosted_records import small
from tests.support.mini_world import variant
from tests.support.paths import LIBRARY

FAST = GateSettings(probes=15, max_mutants=150)
# In bundled worlds, which have ten times as many tasks; no verifier is injected there.
LARGE = GateSettings(probes=15, max_mutants=1)
# Kinds that are not tested in these worlds: every call of such a tool takes a second; it needs two
# processes; the limits of these worlds have no names; none of their tools takes a list; none would
# accept an unknown key.
ELSEWHERE = {
    *("tool_never_ends", "tool_depends_on_hashes", "policy_contradicts_the_tools"),
    *("tool_breaks_on_an_empty_list", "tool_accepts_an_unknown_key"),
}
KINDS = {defect.kind: defect for defect in DEFECTS}


def write_package(target: TargetPackage, injected: InjectedDefect, folder: Path) -> Path:
    """A copy of the package with the defect."""
    for name, text in {**target.texts, **injected.files}.items():
        if text is not None:
            (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def library() -> TargetPackage:
    """The mini world, read and played."""
    return TargetPackage(LIBRARY)


def test_there_are_many_kinds() -> None:
    """Each kind has a unique name and a sentence about what is wrong."""
    names = [defect.kind for defect in DEFECTS]
    assert len(names) >= 75
    assert len(set(names)) == len(names)
    assert [defect.kind for defect in DEFECTS if not defect.summary.endswith(".")] == []
    assert len({defect.kind for defect in AWM_DEFECTS}) >= 10


# The kinds that a check should find, in the first of these worlds to which they apply.
WORLDS = ("flight_desk", "claims_desk")
# `just test` tries every third kind, `just test-long` all of them.
FOUND = [kind for kind, defect in KINDS.items() if not defect.beyond and kind not in ELSEWHERE][
    :: repeats(short=3, long=1)
]


@pytest.mark.parametrize("kind", FOUND)
def test_the_gate_finds_an_injected_defect(
    kind: str, library: TargetPackage, tmp_path: Path
) -> None:
    """A defect in the mini world (or, where it does not apply there, in a bundled one) makes the
    gate fail it, or list what is out of reach."""
    defect, target, settings = KINDS[kind], library, FAST
    injected = inject(defect, target)
    for name in WORLDS:
        if injected is None:
            target, settings = TargetPackage(find(name).path), LARGE
            injected = inject(defect, target)
    assert injected is not None, "it applies to none of the worlds here"
    report = check_scenario(write_package(target, injected, tmp_path), settings)
    listed = (*report.unreached, *(f"{note.world}.{note.task}" for note in report.survivors))
    is_listed = f"{target.scenario.name}.{injected.where}" in listed
    assert report.failures or (is_listed and (defect.listed or kind.startswith("verifier_")))


def test_a_tool_that_breaks_on_an_empty_list(tmp_path: Path) -> None:
    """A tool that takes a list is called with an empty one."""
    tool = (
        "def get_members(db: Db, member_ids: list[int]) -> list[dict[str, Any]]:\n"
        '    """Members by id."""\n'
        "    return [_member(db, member_id) for member_id in member_ids]\n\n\n"
    )
    target = TargetPackage(variant(tmp_path, tools=("def search_books", f"{tool}def search_books")))
    injected = inject(KINDS["tool_breaks_on_an_empty_list"], target)
    assert injected is not None
    (tmp_path / "injected").mkdir()
    report = check_scenario(write_package(target, injected, tmp_path / "injected"), FAST)
    assert [(one.check, one.why.partition(" breaks")[0]) for one in report.failures] == [
        ("tool", "get_members(member_ids=[])")
    ]


@pytest.mark.slow
def test_injections_are_deterministic(library: TargetPackage) -> None:
    """Equal seeds inject the same defect; the package itself is unchanged."""
    before = dict(library.texts)
    for defect in DEFECTS:
        assert inject(defect, library, seed=3) == inject(defect, library, seed=3)
    assert library.texts == before


def test_every_injection_is_a_complete_package_with_one_defect(tmp_path: Path) -> None:
    """Files without the defect are those of the sound package, byte by byte."""
    found = inject_all([LIBRARY], tmp_path, defects=[KINDS["verifier_accepts_all"]])
    assert [(one.kind, one.world, one.folder.name) for one in found] == [
        ("verifier_accepts_all", "library", "verifier_accepts_all__library")
    ]
    other = {
        path.name
        for path in LIBRARY.iterdir()
        if path.is_file() and path.read_bytes() != (found[0].folder / path.name).read_bytes()
    }
    assert other == {"verify.py"}


def in_this_process(
    sources: Sequence[str], find: Callable[[str], Scenario], *others: object
) -> Iterator[CheckOutcome]:
    """Worlds that are checked one after the other, without processes."""
    for source in sources:
        scenario = find(source)
        yield CheckOutcome(scenario.name, check_scenario(scenario, FAST))


def test_a_study_counts_by_kind(
    library: TargetPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caught and missed defects are counted; sound worlds that fail are named and get no
    defects."""
    kinds = ("seed_row_twice", "tool_refuses_always", "oracle_is_refused")
    bad = tmp_path / "bad"
    bad.mkdir()
    injected = inject(KINDS["oracle_is_refused"], library)
    assert injected is not None
    write_package(library, injected, bad)
    none = Defect("nothing_wrong", "Nothing is changed.", lambda target, rng: _same(target))
    chosen = (*(KINDS[kind] for kind in kinds), none)
    monkeypatch.setattr("tests.devtools.defects.study.check_worlds", in_this_process)
    found = study([LIBRARY, bad], tmp_path / "injected", defects=chosen)
    assert (found.worlds, found.false_alarms) == (2, ("bad",))
    assert [(kind.kind, kind.injected, kind.caught) for kind in found.kinds] == [
        *((kind, 1, 1) for kind in kinds),
        ("nothing_wrong", 1, 0),
    ]
    assert found.kinds[-1].missed == (Missed("library", "here"),)
    assert found.counts(beyond=True) == (4, 3)


def _same(target: TargetPackage) -> InjectedDefect:
    text = target.texts["policy.md"]
    return InjectedDefect({"policy.md": f"{text}\n"}, "here")


def test_a_study_is_printed_as_a_table() -> None:
    """Kinds, totals with and without what no check can find, and the missed defects."""
    missed = (Missed("shop", "pay_fine"),)
    kinds = (
        Kind("one", "It is wrong.", 3, 3, (), ""),
        Kind("other", "It is wrong too.", 1, 0, missed, "it is not written anywhere"),
    )
    console = Console(width=120)
    with console.capture() as capture:
        render(Study(5, (), kinds), console)
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert lines == [
        "defect what is wrong injected caught",
        "one It is wrong. 3 3",
        "other * It is wrong too. 1 0",
        "all: 3 of 4, 75.0%",
        "without *, which a package alone cannot show: 3 of 3, 100.0%",
        "false alarms: 0 of 5, 0.0%",
        "missed: other in shop pay_fine",
    ]


CODE_TEXT = '''"""A module."""

LIMIT = 3

def _one(db, key):
    """One row."""
    if key is None:
        raise KeyError
    return db.one("SELECT 1", key)

def get(db, key):
    return _one(db, key)
'''


def test_code_is_edited_by_its_tree() -> None:
    """Statements are inserted after the docstring and removed at any depth, and helpers found."""
    inserted = edit_function(CODE_TEXT, "_one", at_start("key = key or 1"), head="import math")
    assert inserted.splitlines() == [
        '"""A module."""',
        "LIMIT = 3",
        "import math",
        "",
        "def _one(db, key):",
        '    """One row."""',
        "    key = key or 1",
        "    if key is None:",
        "        raise KeyError",
        "    return db.one('SELECT 1', key)",
        "",
        "def get(db, key):",
        "    return _one(db, key)",
    ]
    removed = edit_function(
        CODE_TEXT, "_one", remove_statements(lambda one: isinstance(one, ast.Raise))
    )
    assert "    if key is None:\n        pass\n" in removed
    assert reachable_functions(functions_of(CODE_TEXT), ["get"]) == ["_one", "get"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("_FOUND = []\ndef f():\n    _FOUND.append(1)\n", ["_FOUND"]),
        ("_ROWS: dict = {}\ndef f(k):\n    _ROWS[k] = 1\n", ["_ROWS"]),
        ("COUNT = 0\ndef f():\n    global COUNT\n    COUNT += 1\n", ["COUNT"]),
        ("rows = []\ndef f():\n    rows = []\n    rows.append(1)\n", []),
        ("WORDS = {'a': 1}\ndef f(k):\n    return WORDS[k]\n", []),
    ],
)
def test_module_state_is_found(text: str, names: list[str]) -> None:
    """It is a module variable that a function modifies; local variables do not count."""
    found = [fault.split(": ")[1].split()[0] for fault in module_state("tools.py", text)]
    assert found == names


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        ("An absence has 10 days at most, with a notice of 3 days.", []),
        ("An absence has 31 days at most.", ["MOST_ABSENT_DAYS"]),
        ("An absence has at least 10 and at most 31 days.", []),
        ("A guest may bring 31 friends.", []),
    ],
)
def test_a_policy_that_contradicts_the_tools(policy: str, found: list[str]) -> None:
    """A limit that the policy does not state, while it states another number of its unit, is a
    contradiction; a rule that only the policy has is not."""
    faults = contradictions(policy, "MOST_ABSENT_DAYS = 10\n")
    assert [fault.split(" that ")[1].split()[0] for fault in faults] == found


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("Lend Emma to Ben. When is it due?", True),
        ("Charge his card, and tell me the total.", True),
        ("Could you see which order is late, and cancel it?", False),
        ("Cancel order 7. Tell me what you did.", False),
    ],
)
def test_instructions_that_ask_a_question(instruction: str, expected: bool) -> None:
    """A question about a fact needs an answer; a request in the form of a question does not."""
    assert asks(instruction) is expected


def record() -> Scenario:
    """A sound world of notes, as an AWM record."""
    scenario = small(CODE)
    assert scenario.awm is not None
    verifier = AwmVerifier(sql=EVIDENCE, code=HAS % "tea")
    awm = msgspec.structs.replace(
        scenario.awm, samples=(AwmSample("notes", SEED),), verifiers={"t0": verifier}
    )
    return msgspec.structs.replace(scenario, awm=awm)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def pool() -> AsyncIterator[RoutingPool]:
    async with RoutingPool(WorkerSettings(workers=1)) as pool:
        yield pool


@pytest.mark.slow
async def test_the_gate_finds_the_defects_of_awm_records(pool: RoutingPool) -> None:
    """Failing inserts, endpoints that answer 500, verifiers that always complete or cannot run are
    reported by the right check; the sound record passes."""
    settings = GateSettings(probes=8)
    assert (await check_record(record(), pool, settings)).report.failures == ()
    found = {}
    for defect in AWM_DEFECTS:
        scenario = defect.inject_into(record())
        if scenario is not None:
            report = (await check_record(scenario, pool, settings)).report
            found[defect.kind] = sorted({failure.check for failure in report.failures})
            pool.drop(scenario)
    assert found == {
        "insert_fails": ["seed"],
        "insert_escapes_a_quote": ["seed"],
        "endpoint_fails": ["tool"],
        "endpoint_fails_on_some_texts": ["constraint"],
        "code_cannot_be_hosted": ["package"],
        "verifier_always_completes": ["noop"],
        "target_is_there_already": ["noop"],
        "verifier_raises": ["verifier"],
        "verifier_is_not_there": ["verifier"],
        "verifier_does_not_parse": ["verifier"],
    }
