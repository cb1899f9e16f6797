"""The judge test kit: its episodes, the labels that they must get, and what it finds."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envpool.router import RoutingPool
from envpool.workers.pool import WorkerSettings
from harness.core.events import Ending, Judged, Label
from judge.code.code_judge import CodeJudge
from judge.code.proof import ruling_of
from judge.core.case import Case
from judge.core.errors import JudgeError
from judge.playback.attempts import is_equivalent
from judge.playback.playback import play
from judge.testkit.cases import (
    KitCase,
    KitReport,
    cases_of,
    idle_cases,
    kit_report,
    main,
    report_of,
)
from judge.testkit.endings import KINDS
from judge.verdicts.code_judges import ScenarioJudges
from scenarios.format import AwmSample, AwmVerifier, Task, read
from tests.support.hosted_records import HEAD, small
from tests.support.mini_world import library, variant
from tests.support.paths import LIBRARY

CASES = cases_of(LIBRARY)
# An edit after which the verifier takes any amount for the right one.
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


def named(name: str, cases: list[KitCase] = CASES) -> KitCase:
    """The case of this name."""
    (case,) = [case for case in cases if case.name == name]
    return case


def labels(report: KitReport) -> dict[str, dict[str, int]]:
    """The labels of each kind."""
    return {kind: count.labels for kind, count in report.kinds.items()}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_kit_as_it_is_used(case: KitCase) -> None:
    """Each case of the mini world gets a label that it may get."""
    case.check()


def test_what_the_kit_holds() -> None:
    """There are cases of every kind, their names tell them apart, their episodes bear these names,
    and the report counts them."""
    report = kit_report(CASES)
    assert (report.ok, report.scenarios, report.tasks, report.cases) == (True, ("library",), 6, 217)
    assert tuple(report.kinds) == KINDS
    assert len({case.name for case in CASES}) == len(CASES)
    assert [case.trajectory.episode for case in CASES] == [case.name for case in CASES]
    assert [case.name for case in CASES if " " in case.name] == []
    assert labels(report)["oracle"] == {"completed": 6}


@pytest.mark.parametrize(
    ("name", "tasks", "mutants"),
    [("shop_support", 35, 418), ("flight_desk", 36, 487), ("claims_desk", 29, 395)],
)
def test_the_bundled_worlds(name: str, tasks: int, mutants: int) -> None:
    """Every oracle is completed, nothing that is wrong is, a world that broke is never the agent's
    fault, and what is nobody's doing stays unjudged."""
    report = kit_report(cases_of(name))
    found = labels(report)
    assert report.surprises == ()
    assert found["oracle"] == {"completed": tasks}
    assert found["noop"] == {"agent_error": 2 * tasks}
    assert report.kinds["mutant"].cases == mutants
    assert "completed" not in found["mutant"] | found["near_miss"] | found["cut_off"]
    assert found["refused"] == {"completed": tasks, "agent_error": tasks}
    assert list(found["world_fault"]) == ["environment_error"]
    assert report.kinds["world_fault"].cases >= 4 * tasks
    assert found["malformed"] == {"agent_error": 2 * tasks}
    assert found["unjudged"] == {"unjudged": 4 * tasks}


def test_the_cases_are_the_same_again() -> None:
    """Equal seeds give equal cases, another seed gives other ones of the same kinds."""

    def facts(cases: list[KitCase]) -> list[Any]:
        return [(case.name, case.expected, case.why, case.trajectory) for case in cases]

    other = cases_of(LIBRARY, seed=1)
    assert facts(cases_of(read(LIBRARY))) == facts(CASES)
    assert facts(other) != facts(CASES)
    assert kit_report(other).ok


def test_a_verifier_that_looks_away(tmp_path: Path) -> None:
    """A verifier that accepts too much is found out, with the case, the mistake and the label."""
    lax = variant(tmp_path, verify=LAX)
    report = kit_report(cases_of(lax))
    assert not report.ok
    assert {surprise.found for surprise in report.surprises} == {Label.COMPLETED}
    first = report.surprises[0]
    assert first.fault.startswith(
        f"{first.case}: expected agent_error or partially_completed, found completed: it is the "
        "oracle with a mistake: call "
    )
    with pytest.raises(AssertionError) as caught:
        named(first.case, cases_of(lax)).check()
    assert str(caught.value) == first.fault


def test_a_verifier_that_asks_too_much(tmp_path: Path) -> None:
    """A verifier that refuses its own oracle is told, with what it missed."""
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
    """A case takes the verdict of any judge and says what is wrong with it."""
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


def test_how_the_worlds_were_broken() -> None:
    """A fault is a call that was executed and failed; an episode that stopped there says so."""
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
    """Under AWM's profile a malformed step costs 1, and an episode that did not end by itself
    rewards no step."""
    judged = named(f"library/pay-fine/{name}").verdict()
    assert (judged.reward, judged.step_rewards[-1]) == (reward, last)
    assert len(judged.step_rewards) == len(named(f"library/pay-fine/{name}").trajectory.steps)


def test_what_code_proves_of_the_cases() -> None:
    """What the code leaves open in a case is never only what the case must not get, and where it
    must be completed, broken or the agent's fault by its form, the code proves just that."""
    world = library()
    judge = CodeJudge(lambda _: world)
    for case in CASES:
        made = judge.case(case.trajectory)
        assert isinstance(made, Case)
        ruling = ruling_of(made)
        if case.kind == "unjudged":
            continue
        assert ruling.label in case.expected, case
        if case.kind in ("oracle", "world_fault", "malformed"):
            assert ruling.allowed == case.expected, case
        if case.kind in ("mutant", "near_miss", "cut_off", "noop"):
            assert Label.COMPLETED not in ruling.allowed, case


def test_equivalents_are_no_cases() -> None:
    """An attempt that ends in the oracle's state with its answer is not among the wrong ones."""
    world = library()

    def played(case: KitCase, task: Task) -> Any:
        assert case.trajectory.ended is not None
        return play(world, task, _calls(case), case.trajectory.ended.answer)

    for case in CASES:
        if case.kind in ("mutant", "near_miss"):
            task = world.scenario.task(case.task)
            oracle = play(world, task, task.oracle, task.answer)
            assert not is_equivalent(played(case, task), oracle), case


def _calls(case: KitCase) -> list[Any]:
    return [call for step in case.trajectory.steps for call in step.decision.calls]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("verifier", "surprises"),
    [
        (AwmVerifier(code=HAS_NOTE % "tea"), []),
        (AwmVerifier(sql=EVIDENCE), []),
        (AwmVerifier(code=HAS_NOTE % "milk"), ["small/t0/noop/silent", "small/t0/noop/boast"]),
    ],
    ids=["sound", "unlabelled", "lax"],
)
async def test_the_cases_of_an_awm_record(verifier: AwmVerifier, surprises: list[str]) -> None:
    """Of a record there are the cases without a call. A court judges them; a task without a
    verifier that gives labels may be left unjudged, one that is done from the start is told."""
    scenario = small(HEAD + LIST_NOTES)
    assert scenario.awm is not None
    seed = (AwmSample("notes", ("INSERT INTO notes VALUES (1, 'milk')",)),)
    awm = msgspec.structs.replace(scenario.awm, samples=seed, verifiers={"t0": verifier})
    scenario = msgspec.structs.replace(scenario, awm=awm)
    async with RoutingPool(WorkerSettings(workers=1)) as pool:
        cases = idle_cases(await pool.host(scenario))
        court = ScenarioJudges(pool, [scenario])
        report = report_of([(case, await court.verdict(case.trajectory)) for case in cases])
    assert report.cases == 7
    assert [surprise.case for surprise in report.surprises] == surprises
    with pytest.raises(JudgeError, match="its verifier runs elsewhere"):
        cases[0].verdict()
    with pytest.raises(JudgeError, match="has no oracles"):
        cases_of(scenario)


def test_the_kit_in_a_terminal(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """`python -m judge.testkit.cases` writes a report; its status shows surprises and bad input."""
    assert main([str(LIBRARY)]) == 0
    written = capfdbinary.readouterr().out
    assert msgspec.json.decode(written, type=KitReport) == kit_report(CASES)
    lax = variant(tmp_path, verify=LAX)
    assert main([str(lax)]) == 1
    assert json.loads(capfdbinary.readouterr().out)["surprises"] != []
    assert main(["nowhere"]) == 2
    assert capfdbinary.readouterr().err.startswith(b"scenario 'nowhere' not found")
