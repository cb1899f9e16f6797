"""The judge test kit: its episodes, the labels that they may get, and what it finds."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.workers.pool import WorkerSettings
from rehearsal_room.harness.core.events import Ending, Judged, Label
from rehearsal_room.judge.code.proof import code_verdict_of
from rehearsal_room.judge.code.runners import run_at_once
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.playback.attempts import is_equivalent
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.judge.testkit.cases import (
    CasesReport,
    VerifierCase,
    cases_of,
    check_cases,
    idle_cases,
    main,
    report_of,
)
from rehearsal_room.judge.testkit.endings import KINDS
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import AwmSample, AwmVerifier, Task, read
from tests.support.budgets import IS_LONG
from tests.support.cases import code_judge
from tests.support.hosted_records import HEAD, small
from tests.support.mini_world import library, variant
from tests.support.paths import LIBRARY

pytestmark = pytest.mark.usefixtures("kept_fork_servers")
CASES = cases_of(LIBRARY)
# An edit after which the verifier accepts any amount.
LAX = ("fine_cents=0", 'fine_cents=after.value("SELECT fine_cents FROM members WHERE id = 2")')
HAS_NOTE = """
import sqlite3
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    rows = sqlite3.connect(final_db_path).execute("SELECT text FROM notes").fetchall()
    return {"result": "complete" if ("%s",) in rows else "others"}
"""


EVIDENCE = "def verify_task(initial_db_path, final_db_path):\n    return {'rows': 1}\n"
LIST_NOTES = """
@app.get("/notes", operation_id="list_notes")
def list_notes():
    session = Session()
    found = [note.text for note in session.query(Note).order_by(Note.id)]
    session.close()
    return found
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def named(name: str, cases: list[VerifierCase] = CASES) -> VerifierCase:
    """The case with this name."""
    (case,) = [case for case in cases if case.name == name]
    return case


def labels(report: CasesReport) -> dict[str, dict[str, int]]:
    """The labels of each kind."""
    return {kind: count.labels for kind, count in report.kinds.items()}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_of_the_mini_world(case: VerifierCase) -> None:
    """Each case gets a label that it may get."""
    case.check()


def test_the_kit_has_cases_of_every_kind() -> None:
    """The cases have unique names, which are those of their episodes, and the report counts them by
    kind."""
    report = check_cases(CASES)
    assert (report.ok, report.scenarios, report.tasks, report.cases) == (True, ("library",), 6, 229)
    assert tuple(report.kinds) == KINDS
    assert len({case.name for case in CASES}) == len(CASES)
    assert [case.trajectory.episode for case in CASES] == [case.name for case in CASES]
    assert [case.name for case in CASES if " " in case.name] == []
    assert labels(report)["oracle"] == {"completed": 6}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tasks", "mutants"),
    [("shop_support", 53, 989), ("flight_desk", 54, 1284), ("claims_desk", 47, 1114)],
)
def test_the_bundled_worlds(name: str, tasks: int, mutants: int) -> None:
    """Every oracle is completed, no wrong attempt is, a broken world is never the agent's fault,
    and cancelled runs and dead models stay unjudged. `just test` takes every sixth task, and
    `just test-long` all of them."""
    scenario = find(name)
    assert len(scenario.tasks) == tasks
    if not IS_LONG:
        scenario = msgspec.structs.replace(scenario, tasks=scenario.tasks[::6])
        tasks, mutants = len(scenario.tasks), mutants // 12
    report = check_cases(cases_of(scenario))
    found = labels(report)
    assert report.unexpected == ()
    assert found["oracle"] == {"completed": tasks}
    assert found["noop"] == {"agent_error": 2 * tasks}
    num_mutants = report.kinds["mutant"].cases
    assert num_mutants == mutants if IS_LONG else num_mutants > mutants
    assert "completed" not in found["mutant"] | found["near_miss"] | found["cut_off"]
    assert found["refused"] == {"completed": tasks, "agent_error": tasks}
    assert list(found["world_fault"]) == ["environment_error"]
    assert report.kinds["world_fault"].cases >= 4 * tasks
    assert found["malformed"] == {"agent_error": 2 * tasks}
    assert found["unjudged"] == {"unjudged": 6 * tasks}


def test_the_cases_are_deterministic() -> None:
    """Equal seeds give equal cases, another seed gives other cases of the same kinds."""

    def facts(cases: list[VerifierCase]) -> list[Any]:
        return [(case.name, case.expected, case.why, case.trajectory) for case in cases]

    other = cases_of(LIBRARY, seed=1)
    assert facts(cases_of(read(LIBRARY))) == facts(CASES)
    assert facts(other) != facts(CASES)
    assert check_cases(other).ok


def test_a_verifier_that_is_too_lenient(tmp_path: Path) -> None:
    """A verifier that accepts too much is reported with the case, the mistake and the label."""
    lax = variant(tmp_path, verify=LAX)
    report = check_cases(cases_of(lax))
    assert not report.ok
    assert {one.found for one in report.unexpected} == {Label.COMPLETED}
    first = report.unexpected[0]
    assert first.fault.startswith(
        f"{first.case}: expected agent_error or partially_completed, found completed: it is the "
        "oracle with a mistake: call "
    )
    with pytest.raises(AssertionError) as caught:
        named(first.case, cases_of(lax)).check()
    assert str(caught.value) == first.fault


def test_a_verifier_that_is_too_strict(tmp_path: Path) -> None:
    """A verifier that rejects its own oracle is reported with what it found missing."""
    strict = variant(tmp_path, verify=("fine_cents=0", "fine_cents=1"))
    with pytest.raises(AssertionError) as caught:
        named("library/pay-fine/oracle/as-written", cases_of(strict)).check()
    assert str(caught.value).startswith(
        "library/pay-fine/oracle/as-written: expected completed, found "
    )
    assert "expected fine_cents=1" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "label", "fault"),
    [
        ("world_fault/locked-stopped", Label.ENVIRONMENT_ERROR, None),
        ("world_fault/locked-stopped", Label.AGENT_ERROR, "found agent_error"),
        ("world_fault/raises-ignored", Label.COMPLETED, "found completed"),
        ("malformed/at-the-end", Label.COMPLETED, "expected agent_error, found completed"),
        ("unjudged/no-model", None, None),
        ("unjudged/no-model", Label.AGENT_ERROR, "expected unjudged, found agent_error"),
        ("noop/silent", None, "expected agent_error, found unjudged (the endpoint is down)"),
    ],
)
def test_any_judge_can_be_checked(name: str, label: Label | None, fault: str | None) -> None:
    """A case accepts the verdict of any judge and describes what is wrong with it."""
    case = named(f"library/pay-fine/{name}")
    why = None if label else "the endpoint is down"
    judged = Judged(judge="llm:x", label=label, reward=None, unjudged=why)
    if fault is None:
        case.check(judged)
        return
    with pytest.raises(AssertionError) as caught:
        case.check(judged)
    assert str(caught.value).startswith(f"{case.name}: ")
    assert fault in str(caught.value)


def test_the_faults_of_the_worlds() -> None:
    """A fault is a call that was executed and failed; an episode that stopped there has the
    error."""
    faults = {
        "raises": ("internal", "KeyError: 'a column that is not there'"),
        "timeout": ("timeout", "took too long and was stopped."),
        "locked": ("internal", "OperationalError: database table is locked"),
    }
    for fault, (error, text) in faults.items():
        stopped = named(f"library/pay-fine/world_fault/{fault}-stopped").trajectory
        ignored = named(f"library/pay-fine/world_fault/{fault}-ignored").trajectory
        assert stopped.ended is not None and ignored.ended is not None
        assert stopped.ended.ending is Ending.WORLD_ERROR and stopped.ended.state is not None
        assert (stopped.ended.error or "").startswith("the world failed in a call of ")
        for trajectory in (stopped, ignored):
            (failed,) = [r for step in trajectory.steps for r in step.results if r.error]
            assert (failed.error, failed.changes) == (error, ())
            assert failed.text.endswith(text)
        assert stopped.steps[-1].results[0].error == error
        assert ignored.ended.ending is Ending.ANSWERED


@pytest.mark.parametrize(
    ("name", "reward", "last"),
    [
        ("oracle/as-written", 1.0, 1.0),
        ("malformed/at-the-end", 0.0, -1.0),
        ("world_fault/raises-stopped", 0.0, 0.0),
        ("cut_off/step_limit-unanswered", 0.1, 0.0),
    ],
)
def test_the_rewards_of_the_cases(name: str, reward: float, last: float) -> None:
    """Under AWM's profile a malformed step gets -1, and an episode that did not end by itself gives
    its steps no reward."""
    judged = named(f"library/pay-fine/{name}").verdict()
    assert (judged.reward, judged.step_rewards[-1]) == (reward, last)
    assert len(judged.step_rewards) == len(named(f"library/pay-fine/{name}").trajectory.steps)


def test_what_code_proves_of_the_cases() -> None:
    """The code verdict has an expected label; where a case must be completed, a broken world or a
    malformed reply, it proves exactly that."""
    world = library()
    judge = code_judge(world)
    for case in CASES:
        made = run_at_once(judge.case(case.trajectory))
        assert isinstance(made, Case)
        code = code_verdict_of(made)
        if case.kind == "unjudged":
            continue
        assert code.label in case.expected, case
        if case.kind in ("oracle", "world_fault", "malformed"):
            assert code.allowed == case.expected, case
        if case.kind in ("mutant", "near_miss", "cut_off", "noop"):
            assert Label.COMPLETED not in code.allowed, case


def test_equivalent_attempts_are_not_cases() -> None:
    """An attempt that ends in the oracle's state with its answer is not a wrong attempt."""
    world = library()

    def played(case: VerifierCase, task: Task) -> Any:
        assert case.trajectory.ended is not None
        return play(world, task, _calls(case), case.trajectory.ended.answer)

    for case in CASES:
        if case.kind in ("mutant", "near_miss"):
            task = world.scenario.task(case.task)
            oracle = play(world, task, task.oracle, task.answer)
            assert not is_equivalent(played(case, task), oracle), case


def _calls(case: VerifierCase) -> list[Any]:
    return [call for step in case.trajectory.steps for call in step.decision.calls]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("verifier", "unexpected"),
    [
        (AwmVerifier(code=HAS_NOTE % "tea"), []),
        (AwmVerifier(sql=EVIDENCE), []),
        (AwmVerifier(code=HAS_NOTE % "milk"), ["small/t0/noop/silent", "small/t0/noop/claim"]),
    ],
    ids=["sound", "unlabelled", "lax"],
)
async def test_the_cases_of_an_awm_record(verifier: AwmVerifier, unexpected: list[str]) -> None:
    """A record has the cases without a call, which ScenarioJudges judge. A task without a verifier
    that gives labels may be left unjudged; one that is done from the start is reported."""
    scenario = small(HEAD + LIST_NOTES)
    assert scenario.awm is not None
    seed = (AwmSample("notes", ("INSERT INTO notes VALUES (1, 'milk')",)),)
    awm = msgspec.structs.replace(scenario.awm, samples=seed, verifiers={"t0": verifier})
    scenario = msgspec.structs.replace(scenario, awm=awm)
    async with RoutingPool(WorkerSettings(workers=1)) as pool:
        cases = idle_cases(await pool.host(scenario))
        judge = ScenarioJudges(pool, [scenario])
        report = report_of([(case, await judge.verdict(case.trajectory)) for case in cases])
    assert report.cases == 8
    assert [one.case for one in report.unexpected] == unexpected
    with pytest.raises(JudgeError, match="its verifier runs in a worker"):
        cases[0].verdict()
    with pytest.raises(JudgeError, match="has no oracles"):
        cases_of(scenario)


def test_the_command_line(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """`python -m rehearsal_room.judge.testkit.cases` writes a report; its status shows wrong
    labels and bad input."""
    assert main([str(LIBRARY)]) == 0
    written = capfdbinary.readouterr().out
    assert msgspec.json.decode(written, type=CasesReport) == check_cases(CASES)
    lax = variant(tmp_path, verify=LAX)
    assert main([str(lax)]) == 1
    assert json.loads(capfdbinary.readouterr().out)["unexpected"] != []
    assert main(["nowhere"]) == 2
    assert capfdbinary.readouterr().err.startswith(b"scenario 'nowhere' not found")
