"""The turn that is to blame: known mistakes in a small world, and what must not be blamed."""

import json
import shlex
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import msgspec
import pytest

from rehearsal_room.harness.agents.agent_env import AgentEnv, TaskView
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.logged_runs.logged_run import run_settings
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import FixedRepliesAgent
from rehearsal_room.harness.policies.oracle import rest_replies
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.settings.policy import PolicySettings
from rehearsal_room.judge.blame.asking import blame_one
from rehearsal_room.judge.blame.forks import Origin
from rehearsal_room.judge.blame.report import Blame
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Call
from tests.judge.blame.campaign import FlakyOracle, Table, blamed, opened
from tests.support.budgets import repeats
from tests.support.cli import Rehearse, json_of
from tests.support.paths import LIBRARY

FIND = {"name": "find_member", "arguments": {"name": "Anna Soll"}}
PAY = {"name": "pay_fine", "arguments": {"member_id": 2, "amount_cents": 350, "method": "card"}}
BLOCK = {"name": "set_status", "arguments": {"member_id": 1, "status": "blocked"}}
UNBLOCK = {"name": "set_status", "arguments": {"member_id": 1, "status": "active"}}
BREAKS = """\
    if _member(db, 1)["status"] == "blocked":
        raise RuntimeError("broken")
"""
PAID = "Anna Soll's fine of 3.50 is paid by card; she owes nothing now."
Play = Callable[..., Path]


def pay(**changed: Any) -> dict[str, Any]:
    """The payment with other arguments."""
    return {"name": "pay_fine", "arguments": {**PAY["arguments"], **changed}}


@pytest.fixture
def play(rehearse: Rehearse, tmp_path: Path) -> Play:
    """Plays one episode with these calls and this answer; gives RUN/EPISODE."""

    def played(
        task: str, calls: list[dict[str, Any]], answer: str, *flags: object, world: Path = LIBRARY
    ) -> Path:
        line = {"scenario": "library", "task": task, "calls": calls, "answer": answer}
        (tmp_path / "script.jsonl").write_text(json.dumps(line))
        run = tmp_path / "run"
        asked = ("-p", "scripted", "--script", tmp_path / "script.jsonl", "-o", run, *flags)
        status, _, err = rehearse("run", f"{world}:{task}", *asked)
        assert status == 0, err
        return run / "e000000"

    return played


@pytest.fixture
def blame(rehearse: Rehearse, play: Play) -> Callable[..., Any]:
    """What is said of such an episode, by the oracle alone."""

    def blamed(task: str, calls: list[dict[str, Any]], answer: str, *flags: object) -> Any:
        return json_of(rehearse, "failures", "blame", play(task, calls, answer, *flags), "-n", 0)

    return blamed


Blamed = Callable[..., Any]


class CrashingPolicy(FlakyOracle):
    """The oracle, whose model is away in some of its episodes."""

    CHANCE = 0.5

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that plays on, or raises."""
        if (assignment.seed >> 7) % 2 and self.CHANCE:
            return self._oracle.agent(assignment)
        return AbsentAgent()


class SilentPolicy(CrashingPolicy):
    """A policy whose model is always away."""

    CHANCE = 0.0


class AbsentAgent:
    """An agent whose model is away."""

    async def reply(self, window: Window) -> Reply:
        """No reply."""
        raise PolicyError("the model is away")


class FixedPolicy(FlakyOracle):
    """Makes these calls and answers, wherever it begins."""

    def __init__(self, calls: Sequence[dict[str, Any]], answer: str) -> None:
        self._calls = msgspec.convert(calls, list[Call])
        self._answer = answer

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that makes the calls."""
        first = len(assignment.kept)
        replies = rest_replies(dialect_of("native"), self._calls, self._answer, first=first)
        return FixedRepliesAgent(replies)


def origin_of(episode: Path) -> Origin:
    """An episode of the library."""
    with open_reader(episode.parent) as reader:
        trajectory = reader.trajectory(episode.name)
    scenario = find(str(LIBRARY))
    return Origin(str(episode.parent), trajectory, scenario, scenario.task(trajectory.started.task))


def blamed_at(origin: Origin, own: FlakyOracle, folder: Path, *, tries: int = 8) -> Blame:
    """What is said of an episode whose forks a policy of this process plays."""
    settings = msgspec.structs.replace(
        run_settings(Path(origin.run)),
        policy=PolicySettings(name="local"),
        model=ModelSettings(name="own"),
    )
    ask = partial(blame_one, tries=tries, folder=folder / "forks", local_policy=lambda _: own)
    found: Blame = run(ask, origin, settings)
    return found


def blamed_by(episode: Path, own: FlakyOracle, folder: Path, *, tries: int = 8) -> Blame:
    """The same of an episode that is named."""
    return blamed_at(origin_of(episode), own, folder, tries=tries)


async def give_up(task: TaskView, env: AgentEnv) -> str:
    """An agent that looks once and says that all is done."""
    await env.call("find_member", FIND["arguments"])
    return PAID


def words(found: Any) -> list[str]:
    """What the oracle does before each turn."""
    return [state["oracle"] for state in found["states"]]


def test_only_the_answer_is_wrong(blame: Blamed) -> None:
    """No call is blamed; the answer is, and the solution's is shown in its place."""
    found = blame("overdue", [{"name": "list_overdue"}], "Loan 303 is overdue by 5 days.")
    assert (found["blamed"], found["lost_at"], words(found)) == (1, 1, ["goes_on", "goes_on"])
    assert (found["rescue"]["kind"], found["rescue"]["edit"]) == ("answer", "")
    assert found["rescue"]["instead"] == "answer: Loan 302 of Anna Soll is overdue by 11 days."


def test_an_early_mistake_that_was_put_right(blame: Blamed) -> None:
    """It is not blamed: after it, and after what put it right, the task could be completed."""
    found = blame("pay-fine", [FIND, BLOCK, UNBLOCK, pay(method="cash")], PAID)
    assert words(found) == ["goes_on", "goes_on", "puts_right", "goes_on", "lost"]
    assert (found["blamed"], found["wrong_since"], found["lost_at"]) == (3, 3, 3)
    rescue = found["rescue"]
    assert (rescue["kind"], rescue["size"]) == ("argument", 1)
    assert json.loads(rescue["edit"]) == {"turns": [{"calls": [PAY]}]}


def test_two_mistakes(blame: Blamed) -> None:
    """The one that made the task impossible is blamed, also where an earlier one stood, which could
    be put right. The edit that rescues puts that one right, too."""
    found = blame("pay-fine", [FIND, BLOCK, pay(method="cash")], PAID)
    assert words(found) == ["goes_on", "goes_on", "puts_right", "lost"]
    assert (found["blamed"], found["wrong_since"], found["lost_at"]) == (2, 1, 2)
    assert "since turn 2 could be put right" in found["why"]
    assert found["rescue"]["kind"] == "put_right"
    assert [one["calls"] for one in json.loads(found["rescue"]["edit"])["turns"]] == [
        [UNBLOCK],
        [PAY],
    ]


def test_of_two_that_cannot_be_put_right_the_first_is_blamed(blame: Blamed) -> None:
    """After it nothing could be won; what came later does not matter."""
    wrong = {"name": "renew_loan", "arguments": {"loan_id": 303, "days": 3}}
    found = blame("pay-fine", [pay(method="cash"), wrong], PAID)
    assert (found["blamed"], words(found)) == (0, ["goes_on", "lost", "lost"])


def test_a_mistake_that_was_never_put_right(blame: Blamed) -> None:
    """It could have been until the answer; the mistake is blamed and not the answer, nor the right
    calls after it."""
    found = blame("pay-fine", [FIND, BLOCK, PAY], PAID)
    assert words(found) == ["goes_on", "goes_on", "puts_right", "puts_right"]
    assert (found["blamed"], found["lost_at"]) == (1, 3)
    assert (found["rescue"]["kind"], found["rescue"]["edit"]) == ("drop", "")


def test_a_write_that_was_left_out(blame: Blamed) -> None:
    """It could be made until the answer, which is blamed; the missing call is shown."""
    found = blame("pay-fine", [FIND], PAID)
    assert (found["blamed"], words(found)) == (1, ["goes_on", "goes_on"])
    assert (found["rescue"]["kind"], found["rescue"]["size"]) == ("insert", 1)
    assert json.loads(found["rescue"]["edit"]) == {"turns": [{"calls": [PAY]}]}


def test_a_refused_call_is_blamed(blame: Blamed) -> None:
    """It changed nothing, so the task could still be completed; but it was never made rightly."""
    found = blame("pay-fine", [FIND, pay(amount_cents=35_000)], PAID)
    assert words(found) == ["goes_on", "goes_on", "puts_right"]
    assert (found["blamed"], found["lost_at"], found["rescue"]["kind"]) == (1, 2, "argument")


def test_half_a_write(blame: Blamed) -> None:
    """What is left of a number is found: who has paid 3.00 of 3.50 can pay 0.50 more."""
    found = blame("pay-fine", [pay(amount_cents=300)], PAID)
    assert words(found) == ["goes_on", "puts_right"] and found["states"][1]["calls_left"] == 1


def test_the_steps_that_are_left_are_a_part_of_the_state(blame: Blamed) -> None:
    """Four turns of which two are needed: the third look-up is blamed, which changed nothing."""
    found = blame("pay-fine", [FIND] * 9, PAID, "--max-steps", 4)
    assert found["ending"] == "step_limit"
    assert words(found) == ["goes_on", "goes_on", "goes_on", "lost"]
    assert found["blamed"] == 2 and "too few" in found["why"]
    assert (found["rescue"]["kind"], found["rescue"]["edit"]) == ("drop", "")


def test_a_mistake_that_there_is_no_step_left_to_put_right(blame: Blamed) -> None:
    """The mistake is blamed, not the look-ups after it that took the steps."""
    found = blame("pay-fine", [PAY, BLOCK, FIND, FIND, FIND], PAID, "--max-steps", 5)
    assert words(found) == ["goes_on", "goes_on", "puts_right", "puts_right", "lost"]
    assert (found["blamed"], found["lost_at"]) == (1, 3)


def test_another_dialect(blame: Blamed) -> None:
    """In AWM's protocol, whose first turn lists the tools, the turns are counted with it."""
    flags = ("--dialect", "awm", "--max-steps", 8)
    found = blame("pay-fine", [FIND, pay(method="cash")], PAID, *flags)
    assert (found["blamed"], found["rescue"]["kind"]) == (2, "argument")


def test_what_is_shown_can_be_done(rehearse: Rehearse, play: Play, tmp_path: Path) -> None:
    """The command that is printed completes the task; the forks that are kept are a run that
    replays, and has each chance that is reported."""
    episode = play("pay-fine", [FIND, BLOCK, pay(method="cash")], PAID)
    kept = tmp_path / "forks"
    asked = ("failures", "blame", episode, "-p", "oracle", "-n", 2, "-o", kept)
    found = json_of(rehearse, *asked)
    played = json_of(rehearse, *shlex.split(found["rescue"]["command"])[1:], "-o", tmp_path / "on")
    assert played["labels"] == {"completed": 1}
    chances = [(one["completed"], one["graded"]) for one in found["states"]]
    assert chances == [(2, 2), (2, 2), (0, 2), (0, 2)]
    assert found["states"][0]["chance"]["value"] == 1 > found["states"][0]["chance"]["lower"]
    assert rehearse("replay", kept)[0] == 0
    report = json.loads((kept / "report.json").read_text())
    assert report["episodes"] > 8 and report["labels"]["completed"] >= 4
    assert rehearse("show", kept, "e000000")[0] == 0
    status, _, err = rehearse(*asked)
    assert (status, "already exists" in err) == (2, True)
    assert rehearse("failures", "blame", episode, "-n", 0)[1].count("turn 3 is to blame") == 1


def test_episodes_without_blame(rehearse: Rehearse, play: Play, tmp_path: Path) -> None:
    """One sentence for each of them, and no folder is left."""
    good = play("pay-fine", [FIND, PAY], PAID)
    for given, said in (
        (good, "completed its task: no turn is to blame"),
        (f"{good.parent}/e000007", "e000007"),
        ("e000000", "is not an episode of a run"),
        (f"{good}@1", "is not an episode of a run"),
        (tmp_path / "none" / "e000000", "none"),
    ):
        status, out, err = rehearse("failures", "blame", given, "-o", tmp_path / "forks")
        assert (status, out) == (2, "") and said in err, err
        assert err.count("\n") == 1 and "Traceback" not in err
        assert not (tmp_path / "forks").exists()


def test_an_oracle_without_a_verdict_does_not_blame(
    rehearse: Rehearse, tmp_path: Path, play: Play
) -> None:
    """Where the world breaks under the oracle, nobody knows whether the state was lost: no turn is
    blamed, and the sentence says why."""
    package = copytree(LIBRARY, tmp_path / "library")
    for file, old, new in (
        ("tools.py", "    fine = _member(db", f"{BREAKS}    fine = _member(db"),
        (
            "tools.py",
            '    _member(db, member_id)\n    db.run("UPDATE',
            f'{BREAKS}    db.run("UPDATE',
        ),
        ("verify.py", 'check.untouched("members", 1)', 'check.allow("members", "status")'),
    ):
        text = (package / file).read_text()
        assert old in text
        (package / file).write_text(text.replace(old, new))
    episode = play("pay-fine", [FIND, BLOCK], PAID, world=package)
    found = json_of(rehearse, "failures", "blame", episode, "-n", 0)
    assert words(found) == ["goes_on", "goes_on", "unknown"]
    assert (found["blamed"], found["lost_at"], found["rescue"]) == (None, 1, None)
    assert "what is left after turn 2 is not known: the world failed" in found["why"]
    assert "the world broke in" in found["notes"][0]


def test_an_agent_of_ones_own(rehearse: Rehearse, tmp_path: Path) -> None:
    """It cannot begin in the middle, so somebody else must play the forks, or nobody."""
    run = tmp_path / "run"
    asked = ("--agent", f"{__name__}:give_up", "-o", run)
    status, _, err = rehearse("run", f"{LIBRARY}:pay-fine", *asked)
    assert status == 0, err
    episode = run / "e000000"
    status, _, err = rehearse("failures", "blame", episode)
    assert (status, "by an agent of your own" in err, err.count("\n")) == (2, True, 1), err
    for more in (("-n", 0), ("-p", "oracle", "-n", 1)):
        found = json_of(rehearse, "failures", "blame", episode, *more)
        assert (found["blamed"], found["rescue"]["kind"]) == (1, "insert")
    words_of = shlex.split(found["rescue"]["command"])[1:]
    assert json_of(rehearse, *words_of, "-o", tmp_path / "on")["labels"] == {"completed": 1}


def test_no_verdict(rehearse: Rehearse, play: Play) -> None:
    """An episode that nobody judged says so; judged, it is blamed, though its run had no judge."""
    episode = play("pay-fine", [FIND], PAID, "--judge", "none")
    status, _, err = rehearse("failures", "blame", episode)
    assert (status, "has no verdict" in err and "rehearse judge" in err) == (2, True), err
    assert rehearse("judge", episode.parent)[0] == 0
    assert json_of(rehearse, "failures", "blame", episode, "-n", 0)["blamed"] == 1


def test_planted_errors_do_not_blame(blame: Blamed) -> None:
    """A run whose judge lies on purpose, for an experiment: the forks are judged without lies."""
    calls = [FIND, BLOCK, pay(method="cash")]
    found = blame("pay-fine", calls, PAID, "--judge-errors", "0/1")
    assert (found["blamed"], words(found)) == (2, ["goes_on", "goes_on", "puts_right", "lost"])


def test_a_planted_verdict_neither_blames_nor_clears(
    rehearse: Rehearse, play: Play, blame: Blamed
) -> None:
    """What code said counts: right work that is called wrong has no turn to blame, and wrong work
    that is called completed has one."""
    episode = play("pay-fine", [FIND, PAY], PAID, "--judge-errors", "0/1")
    status, _, err = rehearse("failures", "blame", episode, "-n", 0)
    assert status == 2 and "completed its task: no turn is to blame" in err
    rmtree(episode.parent)
    found = blame("pay-fine", [FIND, pay(method="cash")], PAID, "--judge-errors", "1/0")
    assert (found["blamed"], found["label"]) == (1, "agent_error")


def test_a_model_that_is_not_there(rehearse: Rehearse, play: Play, tmp_path: Path) -> None:
    """One sentence before anything is played."""
    episode = play("pay-fine", [FIND], PAID)
    asked = ("-m", "m", "--base-url", "http://127.0.0.1:9/v1", "-o", tmp_path / "forks")
    status, out, err = rehearse("failures", "blame", episode, *asked)
    assert status == 2 and out == "" and "http://127.0.0.1:9" in err and "Traceback" not in err
    assert not (tmp_path / "forks").exists()


def test_a_dialogue_is_refused(rehearse: Rehearse, tmp_path: Path) -> None:
    """What was said to a user cannot be taken back; the sentence says so."""
    run = tmp_path / "run"
    asked = ("claims_desk", "--dialogue", "-n", 200, "-p", "noop", "-o", run)
    assert rehearse("run", *asked)[0] == 0
    with open_reader(run) as reader:
        episode = next(one.episode for one in reader.trajectories() if one.started.is_dialogue)
    status, _, err = rehearse("failures", "blame", run / episode)
    assert (status, "is a dialogue" in err, err.count("\n")) == (2, True, 1), err


def test_a_run_that_goes_on_is_refused(rehearse: Rehearse, play: Play) -> None:
    """An episode of which only the beginning is in the log has not ended."""
    episode = play("pay-fine", [FIND], PAID)
    with closing(sqlite3.connect(episode.parent / LOG_NAME)) as log, log:
        log.execute("DELETE FROM events WHERE kind IN ('ended', 'judged')")
    status, _, err = rehearse("failures", "blame", episode)
    assert (status, "has not ended" in err, err.count("\n")) == (2, True, 1), err


@pytest.mark.parametrize("own", [CrashingPolicy, SilentPolicy])
def test_what_a_policy_breaks_is_no_failure(
    play: Play, tmp_path: Path, own: type[CrashingPolicy]
) -> None:
    """Forks whose policy raised have no verdict: they count as neither, and are named. The world is
    not blamed, and the oracle still finds the turn."""
    episode = play("pay-fine", [FIND, pay(method="cash")], PAID)
    found = blamed_by(episode, own(), tmp_path)
    (start, second, _) = found.states
    if own is SilentPolicy:
        assert {(one.chance, one.graded, one.ungraded) for one in found.states} == {(None, 0, 8)}
    else:
        for state in (start, second):
            assert state.chance is not None and state.chance.value == 1.0
            assert 0 < state.graded < 8 and state.graded + state.ungraded == 8
    assert "no verdict and are not counted: the model is away" in found.notes[0]
    assert found.blamed == 1


def test_a_world_without_chance_and_a_policy_with(play: Play, tmp_path: Path) -> None:
    """The world gives the same each time, so what varies is the policy: its chance before the
    mistake is its own, and none is left after it."""
    episode = play("pay-fine", [FIND, pay(method="cash")], PAID)
    found = blamed_by(episode, FlakyOracle(), tmp_path, tries=64)
    (start, second, last) = found.states
    for state in (start, second):
        assert state.chance is not None
        assert state.chance.lower <= FlakyOracle.CHANCE <= state.chance.upper
        assert 0 < state.completed < 64
    assert last.chance is not None and last.chance.upper < 0.06 and last.completed == 0
    assert blamed_by(episode, FlakyOracle(), tmp_path / "again", tries=64).states == found.states


def test_without_a_solution_the_forks_alone_tell(play: Play, tmp_path: Path) -> None:
    """Of a task whose solution does not work, the last turn before which a fork completed it is
    named, and it is said that no oracle took part."""
    episode = play("pay-fine", [FIND, pay(method="cash")], PAID)
    origin = origin_of(episode)
    broken = msgspec.structs.replace(origin.task, oracle=origin.task.oracle[:1])
    scenario = msgspec.structs.replace(origin.scenario, tasks=(broken,))
    origin = msgspec.structs.replace(origin, task=broken, scenario=scenario)
    own = FixedPolicy((PAY,), PAID)
    found = blamed_at(origin, own, tmp_path, tries=2)
    assert [(one.completed, one.oracle) for one in found.states] == [
        (2, "unknown"),
        (2, "unknown"),
        (0, "unknown"),
    ]
    assert (found.blamed, found.wrong_since, found.rescue) == (1, None, None)
    assert "the oracle says nothing" in found.notes[0]
    nothing = blamed_at(origin, FixedPolicy((), "No."), tmp_path / "none", tries=2)
    assert nothing.blamed is None and "no fork of any state" in nothing.why


def test_a_share_of_the_mutants() -> None:
    """The wrong turn of each mutant is named, and an edit rescues it; of the oracle's episodes no
    state is lost. `just blame` has thousands."""
    table, world = Table(), "flight_desk"
    opened_world = opened(world)
    for case in blamed(world, opened_world, "mutant", repeats(short=6, long=80), 7):
        table.add(case)
    for case in blamed(world, opened_world, "oracle", 2, 7):
        table.add(case)
    assert table.missed == [] and table.total.total() >= 4
    assert table.rescued == table.total == table.named
    assert (table.clean, table.clean_blamed) == (2, 0)
