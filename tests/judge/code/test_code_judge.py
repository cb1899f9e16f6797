"""The code judge: verifiers, evidence, labels, live and off-line."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
import pytest
from rich.console import Console

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.bus.local import LocalBus
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    Judged,
    Label,
    Record,
    StepTaken,
    encode,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, FormatError, Reply
from rehearsal_room.harness.core.trajectory import Trajectory, assemble
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import run_at_once
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.errors import VerifierError
from rehearsal_room.judge.core.evidence import FormatFault, episode_digest
from rehearsal_room.judge.core.live_judging import serve
from rehearsal_room.judge.core.rewards import SPARSE
from rehearsal_room.judge.core.verifier import Verifier
from rehearsal_room.judge.verdicts.summary import JudgingSummary, Unjudged, VerdictTally, render
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import read
from tests.support.cases import code_judge
from tests.support.decoded_records import decode_record
from tests.support.events import STARTED
from tests.support.mini_world import episode, library, oracle, records, variant
from tests.support.paths import LIBRARY

TASKS = [task.id for task in read(LIBRARY).tasks]


@pytest.fixture(scope="module")
def world() -> HostedScenario:
    """The mini world."""
    return library()


@pytest.fixture(scope="module")
def judge(world: HostedScenario) -> CodeJudge:
    """A judge of the mini world."""
    return code_judge(world)


def judged_in(folder: Path, task: str, **changed: object) -> Judged:
    """The verdict on the oracle's episode in another package."""
    world = HostedScenario(read(folder))
    return code_judge(world).verdict_at_once(oracle(world, task, **changed))


# Verifiers


def test_a_missing_verifier_names_file_and_task(tmp_path: Path) -> None:
    """A task without its function is a broken package."""
    folder = variant(tmp_path, verify=("def overdue(", "def over_due("))
    with pytest.raises(PackageError, match=r"verify\.py: task 'overdue': there is no function"):
        Verifier(read(folder))


def test_a_verifier_that_is_no_function(tmp_path: Path) -> None:
    """A name that cannot be called is a broken package."""
    folder = variant(tmp_path, verify=("def overdue(", "overdue = 1\n\n\ndef _overdue("))
    with pytest.raises(PackageError, match="'overdue' is a int, expected a function"):
        Verifier(read(folder))


def test_a_verify_file_that_cannot_run(tmp_path: Path) -> None:
    """The sentence names the file and the fault."""
    folder = variant(tmp_path, verify=("from scenarios.api", "from scenarios.nowhere"))
    with pytest.raises(PackageError, match=r"verify\.py: ModuleNotFoundError"):
        Verifier(read(folder))


def test_two_versions_of_a_package_keep_apart(tmp_path: Path, world: HostedScenario) -> None:
    """Loading another version of a package does not change a verifier that is loaded."""
    first = Verifier(world.scenario)
    Verifier(read(variant(tmp_path, verify=("fine_cents=0", "fine_cents=1"))))
    task = world.scenario.task("pay-fine")
    lease = world.lease()
    for call in task.oracle:
        lease.call(call.name, call.arguments)
    findings = first.run(task, *world.states(lease.state()), task.answer)
    assert [finding.passed for finding in findings] == [True, True, True]


WRONG = {
    "raises": ("raise KeyError('x')", "raised KeyError: 'x'"),
    "nothing": ("return None", "returned None, expected a list of findings"),
    "empty": ("return []", r"returned \[\], expected a list of findings"),
    "text": ("return 'passed'", "returned a str, expected a list of findings"),
    "strings": ("return ['passed']", "returned 'passed' in its list, expected a Finding"),
    "types": (
        "return [Finding('a', 1, 'b', 'c', 'goal')]",
        "returned Finding.* in its list, expected a Finding whose 'passed' is a bool, found",
    ),
    "numbers": (
        "return [Finding('a', True, 1, 'c', 'goal')]",
        "returned Finding.* in its list, expected a Finding whose 'expected' is a str",
    ),
    "kind": (
        "return [Finding('a', True, 'b', 'c', 'x')]",
        "returned Finding.* in its list, expected a Finding whose 'kind' is one of 'goal', 'guard'",
    ),
    "writes": ("return after.all('DELETE FROM loans RETURNING id')", "raised ReadOnlyError"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_verifier_that_fails(wrong: str, tmp_path: Path) -> None:
    """It raises or gives something else than findings: VerifierError names the verifier and the
    fault, and the episode is left unjudged with that reason."""
    body, why = WRONG[wrong]
    old = 'check = Check(before, after, answer)\n    check.answer_has("302")'
    world = HostedScenario(read(variant(tmp_path, verify=(old, f"{body}\n    {old}"))))
    trajectory = oracle(world, "overdue")
    task = world.scenario.task("overdue")
    assert trajectory.ended is not None and trajectory.ended.state is not None
    with pytest.raises(VerifierError, match=f"verifier 'overdue' of scenario 'library' {why}"):
        Verifier(world.scenario).run(task, *world.states(trajectory.ended.state), "302, 11")
    judged = code_judge(world).verdict_at_once(trajectory)
    assert (judged.label, judged.reward, judged.step_rewards) == (None, None, ())
    assert judged.unjudged is not None and "verifier 'overdue'" in judged.unjudged


# Labels


@pytest.mark.parametrize("task", TASKS)
def test_the_oracle_completes_its_task(task: str, world: HostedScenario, judge: CodeJudge) -> None:
    """All findings pass and the agent ended the episode itself: completed, 1 for every step."""
    trajectory = oracle(world, task)
    judged = judge.verdict_at_once(trajectory)
    assert (judged.judge, judged.label, judged.reward) == ("code", Label.COMPLETED, 1.0)
    assert judged.step_rewards == (1.0,) * len(trajectory.steps)
    assert judged.findings and all(finding.passed for finding in judged.findings)


@pytest.mark.parametrize("task", TASKS)
def test_doing_nothing_is_the_agents_error(
    task: str, world: HostedScenario, judge: CodeJudge
) -> None:
    """No task is completed, or completed in part, by doing and saying nothing."""
    assert judge.verdict_at_once(episode(world, task)).label is Label.AGENT_ERROR


def test_half_of_the_work_is_partial(world: HostedScenario, judge: CodeJudge) -> None:
    """Guards hold and a goal is met that was not met from the start."""
    task = world.scenario.task("lend-two")
    judged = judge.verdict_at_once(oracle(world, "lend-two", calls=task.oracle[:-1]))
    assert (judged.label, judged.reward) == (Label.PARTIALLY_COMPLETED, 0.1)


def test_a_broken_guard_is_the_agents_error(world: HostedScenario, judge: CodeJudge) -> None:
    """Reaching the goal does not make up for harm elsewhere."""
    task = world.scenario.task("pay-fine")
    harm = ("set_status", {"member_id": 1, "status": "left"})
    judged = judge.verdict_at_once(oracle(world, "pay-fine", calls=[*task.oracle, harm]))
    assert judged.label is Label.AGENT_ERROR
    assert [finding.name for finding in judged.findings if not finding.passed] == [
        "members 1 untouched",
        "nothing else changed",
    ]


def test_a_goal_met_from_the_start_earns_nothing(tmp_path: Path) -> None:
    """A goal that already holds for doing nothing does not make an episode partial."""
    old = '    check.updated("loans", 303'
    new = f'    check.goal("Emma is there", True, "there", "there")\n{old}'
    folder = variant(tmp_path, verify=(old, new))
    assert judged_in(folder, "renew-emma").label is Label.COMPLETED
    assert judged_in(folder, "renew-emma", calls=()).label is Label.AGENT_ERROR


@pytest.mark.parametrize("ending", [Ending.STEP_LIMIT, Ending.TOKEN_LIMIT, Ending.TIME_LIMIT])
def test_a_truncated_episode_is_at_most_partial(
    ending: Ending, world: HostedScenario, judge: CodeJudge
) -> None:
    """All is done and every finding passes, but a limit cut it off."""
    judged = judge.verdict_at_once(oracle(world, "pay-fine", answer="", ending=ending))
    assert all(finding.passed for finding in judged.findings)
    assert (judged.label, judged.reward) == (Label.PARTIALLY_COMPLETED, 0.1)
    assert judged.step_rewards == (0.0, 0.0)


def test_a_format_error_is_the_agents_error(world: HostedScenario, judge: CodeJudge) -> None:
    """Whatever was reached before, an episode that ended so is not a partial success."""
    trajectory = oracle(
        world, "pay-fine", answer="", ending=Ending.FORMAT_ERROR, step_rewards={1: -1.0}
    )
    judged = judge.verdict_at_once(trajectory)
    assert (judged.label, judged.reward) == (Label.AGENT_ERROR, 0.0)
    assert judged.step_rewards == (0.0, -1.0)


@pytest.mark.parametrize("cause", ["internal", "timeout"])
def test_a_broken_tool_is_the_worlds_error(
    cause: str, world: HostedScenario, judge: CodeJudge
) -> None:
    """A call that broke is held against the world, however the episode ended."""
    broken = msgspec.convert({"text": "oh", "error": cause}, ToolResult)
    for ending in Ending:
        judged = judge.verdict_at_once(oracle(world, "pay-fine", results=[broken], ending=ending))
        assert (judged.label, judged.reward) == (Label.ENVIRONMENT_ERROR, 0.0)


@pytest.mark.parametrize("cause", ["unknown_tool", "arguments", "refused"])
def test_a_refused_call_is_not_the_worlds_error(
    cause: str, world: HostedScenario, judge: CodeJudge
) -> None:
    """Calls that the agent got wrong are the agent's."""
    refused = msgspec.convert({"text": "no", "error": cause}, ToolResult)
    judged = judge.verdict_at_once(oracle(world, "pay-fine", results=[refused]))
    assert judged.label is Label.AGENT_ERROR


def test_success_in_spite_of_a_broken_tool(world: HostedScenario, judge: CodeJudge) -> None:
    """The agent reached the goal nevertheless: completed."""
    task = world.scenario.task("overdue")
    broken = ToolResult("oh", "internal")
    calls = [*task.oracle, ("list_overdue", {})]
    judged = judge.verdict_at_once(oracle(world, "overdue", calls=calls, results=[broken]))
    assert judged.label is Label.COMPLETED


def test_a_world_without_a_state(world: HostedScenario, judge: CodeJudge) -> None:
    """The world failed when its final state is not known."""
    for ending in (Ending.ANSWERED, Ending.WORLD_ERROR):
        judged = judge.verdict_at_once(oracle(world, "pay-fine", stateless=True, ending=ending))
        assert (judged.label, judged.findings) == (Label.ENVIRONMENT_ERROR, ())


@pytest.mark.parametrize(
    ("ending", "error", "why"),
    [
        (Ending.POLICY_ERROR, "503", "the model could not answer: 503"),
        (Ending.CANCELLED, None, "the episode was cancelled"),
    ],
)
def test_what_is_nobodys_doing_is_left_unjudged(
    ending: Ending, error: str | None, why: str, world: HostedScenario, judge: CodeJudge
) -> None:
    """A dead model server and a cancelled run give no label and no reward, which is not a zero."""
    judged = judge.verdict_at_once(oracle(world, "pay-fine", ending=ending, error=error))
    assert (judged.label, judged.reward, judged.unjudged) == (None, None, why)


def test_an_unknown_task_is_left_unjudged(world: HostedScenario, judge: CodeJudge) -> None:
    """A log of another version of the package may name a task that is gone."""
    judged = judge.verdict_at_once(episode(world, "gone"))
    assert judged.unjudged == "scenario 'library' has no task 'gone'"


def test_a_state_of_another_template_is_left_unjudged(
    tmp_path: Path, world: HostedScenario, judge: CodeJudge
) -> None:
    """Pages that belong to other seed data cannot be read with these."""
    other = HostedScenario(read(variant(tmp_path, data=("4200", "4300"))))
    judged = judge.verdict_at_once(oracle(other, "pay-fine"))
    assert judged.label is None
    assert judged.unjudged is not None and "belongs to template" in judged.unjudged


def test_an_episode_that_is_not_over(world: HostedScenario, judge: CodeJudge) -> None:
    """Judging a live episode is a caller's mistake."""
    live = msgspec.structs.replace(oracle(world, "overdue"), ended=None)
    with pytest.raises(ValueError, match="episode e1 is not over"):
        judge.verdict_at_once(live)


def test_the_profile_sets_the_rewards(world: HostedScenario) -> None:
    """With `sparse`, half of the work is worth nothing."""
    task = world.scenario.task("lend-two")
    judged = code_judge(world, SPARSE).verdict_at_once(
        oracle(world, "lend-two", calls=task.oracle[:-1])
    )
    assert (judged.label, judged.reward) == (Label.PARTIALLY_COMPLETED, 0.0)


# Evidence


def test_the_evidence_is_whole(world: HostedScenario, judge: CodeJudge) -> None:
    """Net changes, findings, failed calls by cause, format faults, ending and answer."""
    calls = [
        ("renew_loan", {"loan_id": 303, "days": 3}),
        ("renew_loan", {"loan_id": 303, "days": 7}),
        ("renew_loan", {"loan_id": 304, "days": 7}),
        ("renew_loan", {"loan_id": 303, "days": 29}),
        ("renew_lone", {}),
    ]
    trajectory = episode(
        world, "renew-emma", calls, "Done", step_rewards={4: -1.0}, error="no such tool"
    )
    case = run_at_once(judge.case(trajectory))
    assert isinstance(case, Case)
    judged, evidence = case.code, case.evidence
    assert judged.label is Label.COMPLETED
    assert [
        (c.table, c.key, c.before and c.before["due_on"], c.after and c.after["due_on"])
        for c in evidence.changes
    ] == [("loans", (303,), "2026-03-22", "2026-04-01")]
    assert evidence.tool_errors == {"refused": 1, "arguments": 1, "unknown_tool": 1}
    assert evidence.format_faults == (FormatFault(4, "no such tool"),)
    assert evidence.findings == judged.findings
    assert (evidence.ending, evidence.answer) == (Ending.ANSWERED, "Done")
    assert not evidence.world_failed


def test_a_reply_that_could_not_be_read_is_a_format_fault(
    world: HostedScenario, judge: CodeJudge
) -> None:
    """The decision's own reason is kept."""
    trajectory = oracle(world, "overdue", ending=Ending.FORMAT_ERROR)
    bad = msgspec.structs.replace(trajectory.steps[0], decision=FormatError("no closing tag"))
    case = run_at_once(judge.case(msgspec.structs.replace(trajectory, steps=(bad,))))
    assert isinstance(case, Case)
    assert case.evidence.format_faults == (FormatFault(0, "no closing tag"),)


def test_the_digest_covers_words_calls_results_and_ending(world: HostedScenario) -> None:
    """Times, names and token counts do not matter; words, calls, results and ending do."""
    one = oracle(world, "pay-fine")
    assert one.ended is not None
    slow = msgspec.structs.replace(
        one,
        episode="e2",
        attempt=4,
        steps=tuple(msgspec.structs.replace(step, policy_s=3.0) for step in one.steps),
        ended=msgspec.structs.replace(one.ended, seconds=9.0),
        judged=(Judged("code", None, None),),
    )
    assert episode_digest(slow) == episode_digest(one)
    other_reply = msgspec.structs.replace(
        one, steps=(*one.steps[:-1], msgspec.structs.replace(one.steps[-1], reply=Reply("Hm")))
    )
    other_decision = msgspec.structs.replace(
        one,
        steps=(*one.steps[:-1], msgspec.structs.replace(one.steps[-1], decision=Answer("x"))),
    )
    others = [
        other_reply,
        other_decision,
        oracle(world, "pay-fine", answer="other"),
        oracle(world, "pay-fine", ending=Ending.STEP_LIMIT),
        oracle(world, "pay-fine", step_rewards={0: -1.0}),
        oracle(world, "pay-fine", stateless=True),
        oracle(world, "pay-fine", results=[ToolResult("ok")]),
        oracle(world, "renew-emma"),
    ]
    assert len({episode_digest(trajectory) for trajectory in [one, *others]}) == 9


# Live and off-line


class Feed:
    """A subscription that plays records in batches, then ends."""

    def __init__(self, news: Sequence[Record], batch: int) -> None:
        self._batches = deque(news[i : i + batch] for i in range(0, len(news), batch))

    async def receive(self) -> Sequence[Record]:
        await anyio.lowlevel.checkpoint()
        if not self._batches:
            raise anyio.EndOfStream
        return self._batches.popleft()


def interleaved(trajectories: Sequence[Trajectory]) -> list[Record]:
    """The records of episodes that run side by side."""
    queues = [deque(records(trajectory)) for trajectory in trajectories]
    news = []
    while any(queues):
        news += [queue.popleft() for queue in queues if queue]
    return news


def varied(world: HostedScenario) -> list[Trajectory]:
    """Episodes of all kinds of endings and labels."""
    broken = ToolResult("oh", "internal")
    episodes = [oracle(world, task, name=f"oracle-{task}") for task in TASKS]
    episodes += [episode(world, task, name=f"noop-{task}") for task in TASKS]
    episodes += [
        oracle(world, "pay-fine", ending=ending, error="why", name=f"end-{ending}")
        for ending in Ending
    ]
    episodes.append(oracle(world, "pay-fine", results=[broken], name="broken"))
    return episodes


@pytest.mark.parametrize("batch", [1, 7, 1000])
async def test_live_and_off_line_agree(batch: int, world: HostedScenario) -> None:
    """Verdicts on the bus's records equal those on records that went through the log."""
    live: dict[tuple[str, int], Judged] = {}

    async def record(name: str, attempt: int, judged: Judged) -> None:
        await anyio.lowlevel.checkpoint()
        live[name, attempt] = judged

    episodes = varied(world)
    await serve(Feed(interleaved(episodes), batch), code_judge(world), record)
    stored = [
        assemble(decode_record(encode(record)) for record in records(trajectory))
        for trajectory in episodes
    ]
    off_line = {
        (trajectory.episode, trajectory.attempt): code_judge(library()).verdict_at_once(trajectory)
        for trajectory in stored
    }
    assert live == off_line
    assert len(live) == len(episodes)


async def test_its_own_verdicts_do_not_disturb_the_service(world: HostedScenario) -> None:
    """Verdicts and the end of other attempts come over the same bus."""
    given: list[tuple[str, int, Label | None]] = []

    async def record(name: str, attempt: int, judged: Judged) -> None:
        given.append((name, attempt, judged.label))

    first = msgspec.structs.replace(oracle(world, "overdue"), attempt=1)
    second = msgspec.structs.replace(episode(world, "overdue"), attempt=2)
    cut_off = records(first)[:2]
    verdict = Record("e1", 1, 9, 0.0, Judged("code", Label.COMPLETED, 1.0))
    news = [*cut_off, *records(second), verdict, *records(first)[2:], verdict]
    await serve(Feed(news, 3), code_judge(world), record)
    assert given == [("e1", 2, Label.AGENT_ERROR), ("e1", 1, Label.COMPLETED)]


async def test_a_plain_subscriber_of_the_bus(world: HostedScenario) -> None:
    """On a bus that publishes faster than the judge judges, every episode gets its verdict, and
    verdicts that go out over the same bus are not judged again."""
    bus = LocalBus()
    given: list[str] = []

    async def record(name: str, attempt: int, judged: Judged) -> None:
        given.append(name)
        verdicts.append(Record(name, attempt, 99, 0.0, judged))

    verdicts: list[Record] = []
    episodes = varied(world)
    async with bus.subscribe(depth=8) as subscription, anyio.create_task_group() as group:
        group.start_soon(serve, subscription, code_judge(world), record)
        for news in interleaved(episodes):
            await bus.publish(news)
            while verdicts:
                await bus.publish(verdicts.pop())
        bus.close()
    assert sorted(given) == sorted(trajectory.episode for trajectory in episodes)


@pytest.mark.parametrize("missed", [1, 2])
async def test_an_episode_whose_beginning_was_missed(missed: int, world: HostedScenario) -> None:
    """The judge raises an error instead of judging half an episode."""

    async def record(name: str, attempt: int, judged: Judged) -> None:
        raise AssertionError("there is nothing to judge")

    news = records(oracle(world, "overdue"))[missed:]
    with pytest.raises(ValueError, match="episode e1 does not begin with its start"):
        await serve(Feed(news, 10), code_judge(world), record)


def test_the_summary_counts(world: HostedScenario, judge: CodeJudge) -> None:
    """Labels, episodes left unjudged with their reason, and earlier verdicts that differ."""
    done = oracle(world, "overdue", name="a")
    idle = episode(world, "overdue", name="b")
    dead = episode(world, "overdue", ending=Ending.POLICY_ERROR, error="503", name="c")
    agreed = Judged("code", Label.COMPLETED, 1.0)
    other = Judged("llm", Label.PARTIALLY_COMPLETED, 0.1)
    silent = Judged("llm", None, None)
    trajectories = [
        msgspec.structs.replace(done, judged=(agreed, silent)),
        msgspec.structs.replace(done, judged=(agreed, other)),
        idle,
        dead,
    ]
    tally = VerdictTally()
    for trajectory in trajectories:
        tally.add(trajectory, judge.verdict_at_once(trajectory))
    assert tally.summary() == JudgingSummary(
        episodes=4,
        labels={
            Label.COMPLETED: 2,
            Label.PARTIALLY_COMPLETED: 0,
            Label.AGENT_ERROR: 1,
            Label.ENVIRONMENT_ERROR: 0,
        },
        unjudged=1,
        disagreements=1,
        model_calls=0,
        cost_usd=0.0,
        mean_reward=2 / 3,
        unjudged_episodes=(Unjudged("c", "the model could not answer: 503"),),
        judge="code",
        usd_per_1024_episodes=0.0,
        judged_now=4,
    )
    empty = VerdictTally().summary()
    assert (empty.episodes, empty.mean_reward) == (0, None)


def test_the_unjudged_are_listed_by_name(world: HostedScenario) -> None:
    """Which verdict was there first, as the judge's server is slow or quick, changes nothing."""
    nothing = Judged("llm", None, None, unjudged="why")
    tally = VerdictTally()
    for name in ("b", "c", "a"):
        tally.add(oracle(world, "overdue", name=name), nothing)
    names = [left.episode for left in tally.summary().unjudged_episodes]
    assert names == ["a", "b", "c"]


def test_why_there_is_no_verdict_is_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    """What a server or a verifier said cannot command the terminal or pass for a line of the
    report."""
    verdict = Judged("code", None, None, unjudged="it said \x1b[31m[b]\n  completed 9\u202e")
    tally = VerdictTally()
    tally.add(assemble(records(oracle(library(), "overdue"))), verdict)
    render(tally.summary(), Console())
    [last] = capsys.readouterr().out.splitlines()[-1:]
    assert last == r"  unjudged e1: it said \x1b[31m[b] completed 9\u202e"


def test_findings_survive_the_log(world: HostedScenario, judge: CodeJudge) -> None:
    """A verdict is equal after its trip through the log."""
    judged = judge.verdict_at_once(oracle(world, "overdue"))
    record = Record("e1", 1, 5, 0.0, judged)
    assert decode_record(encode(record)) == record
    assert isinstance(judged.findings[0], Finding)
    assert isinstance(records(oracle(world, "overdue"))[-1].event, EpisodeEnded)


def test_an_argument_that_no_log_can_hold_has_a_digest() -> None:
    """Half a surrogate pair and an integer beyond 64 bits do not stop the judge, and the digest is
    that of the episode as its log holds it."""
    call = AgentCall("find", {"text": "\ud800", "number": 2**70}, "c0-0")
    kept = AgentCall("find", {"text": "?", "number": str(2**70)}, "c0-0")
    live, logged = (
        Trajectory("e", 1, STARTED, (StepTaken(Reply(), Act((asked,))),), None)
        for asked in (call, kept)
    )

    assert episode_digest(live) == episode_digest(logged)
