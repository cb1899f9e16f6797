"""Histories that the agent folds itself, and summaries whose limit is drawn for each group."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.continuation.resumed_turns import KeptTurns
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, StepTaken
from rehearsal_room.harness.core.folding import FOLD, FOLDED
from rehearsal_room.harness.core.messages import AgentCall, Message, Reply, Window
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.registry import NAMES, dialect_of
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.summary import SummaryRange
from rehearsal_room.harness.history.windows import (
    parse_history,
    window_of_episode,
    window_of_group,
)
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.replay.run import replay
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.agent import require_agent_formats
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.format import Call
from tests.support.immediate import finished
from tests.support.run_context import (
    DONE,
    LOOK,
    MALFORMED,
    MemorySink,
    Move,
    MovesPolicy,
    calls,
    library,
    make_run_context,
    pay,
    plans,
    watchdog_running,
)

NOTE = "So far: one fine is open."
FOLDING = calls("fold", summary=NOTE)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Folding:
    """Takes the oracle's steps, folds its history before every third of them, and summarises when
    it is asked to."""

    def __init__(self, dialect: Dialect) -> None:
        self.name = "folding"
        self._dialect = dialect
        self._oracle = OraclePolicy(dialect)

    def agent(self, assignment: Assignment) -> Agent:
        steps = [one for one in assignment.kept if isinstance(one, StepTaken)]
        kept = tuple(one for one in assignment.kept if one not in steps or not one.folds)
        inner = self._oracle.agent(msgspec.structs.replace(assignment, kept=kept))
        folds = FOLD in assignment.briefing.tools
        return _FoldingAgent(inner, self._dialect, folds, len(steps))


class _FoldingAgent:
    def __init__(self, inner: Agent, dialect: Dialect, folds: bool, turn: int) -> None:
        self._inner, self._dialect, self._folds, self._turn = inner, dialect, folds, turn

    async def reply(self, window: Window) -> Reply:
        if window.asks_for_summary:
            return Reply(NOTE)
        self._turn += 1
        if self._folds and self._turn % 3 == 0:
            return self._dialect.write((Call("fold", {"summary": NOTE}),), "", turn=self._turn - 1)
        return await self._inner.reply(window)


async def played(
    folder: Path,
    policy: Policy,
    history: HistoryWindow,
    *,
    dialect: str = "native",
    groups: int = 1,
    size: int = 1,
    task: str = "lend-two",
    beginning: Beginning | None = None,
) -> list[Trajectory]:
    """Episodes of a task of the library, judged by code."""
    scenario = library()
    with closing(LocalPool()) as pool:
        parts = RunParts(
            pool=pool,
            policy=policy,
            dialect=dialect_of(dialect),
            history=history,
            format=FormatSettings(),
            limits=Limits(),
            judge=ScenarioJudges(pool, [scenario]),
            beginning=beginning,
        )
        tasks = [(scenario, scenario.task(task))]
        plan = plan_of(tasks, episodes=groups * size, group_size=size, seed=1)
        await run_session(folder, plan, parts, concurrency=4, meters=Meters())
    with open_reader(folder) as reader:
        return list(reader.trajectories())


def replays(folder: Path) -> bool:
    with open_reader(folder) as reader, closing(LocalPool()) as pool:
        report = finished(replay(reader, pool, lambda name, package: library()))
    return (report.divergences, report.cut_off, report.windows_unchecked) == ((), 0, 0)


async def shown_to(*moves: Move) -> tuple[list[StepTaken], list[Window], EpisodeEnded]:
    """The steps and windows of an episode whose agent may fold."""
    sink, policy = MemorySink(), MovesPolicy(*moves)
    context = make_run_context(policy, sink, history=parse_history("fold"))
    (plan,) = plans()
    async with watchdog_running(context):
        await run_episode(plan, context)
    events = sink.events(plan.episode)
    steps = [one for one in events if isinstance(one, StepTaken)]
    return steps, policy.agents[plan.episode].windows, sink.ended(plan.episode)


async def test_the_agent_folds_its_history() -> None:
    """From a fold on the agent sees the task, the turn in which it folded, and what comes after. It
    is a step like any other, and the world is not asked."""
    steps, windows, ended = await shown_to(LOOK, LOOK, FOLDING, LOOK, FOLDING, DONE)
    head = windows[0].messages
    assert all(window.messages[: len(head)] == head for window in windows)
    assert all(FOLD in window.tools for window in windows)
    assert [window.first_turn for window in windows] == [0, 0, 0, 2, 2, 4]
    turn = windows[3].messages[len(head) :]
    assert turn == (Message("assistant", "", FOLDING.calls), Message("tool", FOLDED, call_id="x0"))
    assert windows[4].messages[: len(head) + 2] == windows[3].messages
    assert len(windows[5].messages) == len(head) + 2
    assert [step.folds for step in steps] == [False, False, True, False, True, False]
    assert [result.digest for result in steps[2].results] == [""]
    assert (ended.ending, ended.num_steps) == (Ending.ANSWERED, 6)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"summary": ""}, {"summary": " \n"}, {"summary": None}, {"summary": "a", "more": 1}],
    ids=str,
)
async def test_a_fold_of_nothing_folds_nothing(arguments: dict[str, object]) -> None:
    """A fold without a summary is a failed call, as of any tool: it hides nothing, breaks no format
    rule and has no reward."""
    empty = Reply("", (AgentCall("fold", arguments, "x0"),), "tool_calls")
    steps, windows, ended = await shown_to(LOOK, empty, DONE)
    assert [window.first_turn for window in windows] == [0, 0, 0]
    assert len(windows[2].messages) == len(windows[0].messages) + 4
    assert [result.error for result in steps[1].results] == ["arguments"]
    assert (steps[1].folds, steps[1].reward, ended.ending) == (False, None, Ending.ANSWERED)


@pytest.mark.parametrize("dialect", NAMES)
async def test_folded_episodes_replay(tmp_path: Path, dialect: str) -> None:
    """In every dialect the agent finds the tool, its task is completed, and a replay finds the same
    windows and results."""
    made = await played(
        tmp_path, Folding(dialect_of(dialect)), parse_history("fold"), dialect=dialect, size=2
    )
    for one in made:
        assert one.started.history == "fold" and one.judged[-1].reward == 1.0
        assert sum(step.folds for step in one.steps) >= 2
        assert max(step.first_turn for step in one.steps) >= 4
    assert replays(tmp_path)


async def test_a_resumed_episode_sees_what_it_folded(tmp_path: Path) -> None:
    """Episodes that go on after any of their turns take the same steps under the same windows as
    undisturbed, whether the agent folds or is asked for summaries under a drawn limit."""
    native = dialect_of("native")
    for name in ("fold", "summary:800-900"):
        history = parse_history(name, seed=3)
        [whole] = await played(tmp_path / name, Folding(native), history)
        for number in range(1, len(whole.replies()), 2):
            kept = tuple(whole.replies()[:number])
            beginning = Beginning(kept, whole.started.start_digest)
            folder = tmp_path / f"{name}-{number}"
            [again] = await played(folder, Folding(native), history, beginning=beginning)
            assert again.started.history == whole.started.history
            assert [(one.reply, one.first_turn) for one in again.replies()] == [
                (one.reply, one.first_turn) for one in whole.replies()
            ]
            assert replays(folder)


async def test_a_fork_under_another_window_keeps_the_folds(tmp_path: Path) -> None:
    """The turns of an episode that folded can be kept by one that cannot fold: it is shown all."""
    native = dialect_of("native")
    [whole] = await played(tmp_path / "fold", Folding(native), parse_history("fold"))
    kept = tuple(whole.replies()[:4])
    beginning = Beginning(kept, whole.started.start_digest)
    [fork] = await played(
        tmp_path / "full", Folding(native), parse_history("full"), beginning=beginning
    )
    assert fork.judged[-1].reward == 1.0
    assert {step.first_turn for step in fork.steps[4:]} == {0}
    assert not any(step.folds for step in fork.steps[4:])


WRONG = calls("pay_fine", member_id=2, amount_cents=1, method="shells")  # an error


@pytest.mark.parametrize(
    ("honest", "folded"),
    [
        ([LOOK, DONE], [LOOK, calls("fold", summary="I paid the fine of Anna Soll."), DONE]),
        ([WRONG, DONE], [WRONG, calls("fold", summary="No call has failed."), DONE]),
        ([pay(100), DONE], [pay(100), calls("fold", summary="I paid all."), DONE]),
        ([MALFORMED], [FOLDING, MALFORMED]),
        ([DONE], [FOLDING, FOLDING, DONE]),
    ],
    ids=["a lie", "an error", "a wrong act", "a malformed reply", "nothing but folds"],
)
async def test_nothing_is_gained_by_folding(
    tmp_path: Path, honest: Sequence[Move], folded: Sequence[Move]
) -> None:
    """An error that is folded away, a lie in the summary, folds in place of work: the verdict is
    that of the same episode without the fold, whose step has no other reward than the rest."""
    history = parse_history("fold")
    [without] = await played(tmp_path / "a", MovesPolicy(*honest), history, task="pay-fine")
    [with_it] = await played(tmp_path / "b", MovesPolicy(*folded), history, task="pay-fine")
    one, other = without.judged[-1], with_it.judged[-1]
    assert (one.label, one.reward) == (other.label, other.reward)
    assert max(other.step_rewards) <= max(0.0, *one.step_rewards) < 1
    assert sum(other.step_rewards) <= sum(one.step_rewards)
    assert (without.ended and without.ended.ending) == (with_it.ended and with_it.ended.ending)


async def test_a_world_with_a_tool_of_that_name(tmp_path: Path) -> None:
    """Where the world has a tool `fold` of its own, no episode begins, and the error says why."""
    scenario = library()
    with closing(LocalPool()) as pool:
        world = pool.hosted(scenario)
        tools = (*world.tools, msgspec.structs.replace(world.tools[0], name="fold"))
        world.tools = tools  # type: ignore[misc]
        sink, policy = MemorySink(), MovesPolicy(DONE)
        context = make_run_context(policy, sink, history=parse_history("fold"), pool=pool)
        (plan,) = plans()
        async with watchdog_running(context):
            await run_episode(plan, context)
    ended = sink.ended(plan.episode)
    assert ended.ending is Ending.WORLD_ERROR
    assert ended.error == (
        "world library has a tool 'fold' of its own: choose another history window than 'fold'"
    )


async def test_a_group_shares_its_drawn_limit(tmp_path: Path) -> None:
    """All members of a group have the same limit, groups have others, all from the range; the log
    has it, a replay of the log needs nothing else, and another seed draws others."""
    history = parse_history("summary:800-900", seed=3)
    made = await played(tmp_path, Folding(dialect_of("native")), history, groups=6, size=3)
    by_group: dict[str, set[tuple[str, str]]] = {}
    for one in made:
        shown = (one.started.history, one.started.fingerprint)
        by_group.setdefault(one.started.group, set()).add(shown)
        own = window_of_episode(history, *shown)
        assert own is not None and (own.spec, own.fingerprint) == shown
    assert len(by_group) == 6 and all(len(one) == 1 for one in by_group.values())
    limits = [int(spec.partition(":")[2]) for one in by_group.values() for spec, _ in one]
    assert len(set(limits)) > 1 and all(800 <= limit <= 900 for limit in limits)
    assert len({len(one.summaries) for one in made}) > 1  # the limit changes what is shown
    assert replays(tmp_path)
    others = parse_history("summary:800-900", seed=4)
    assert [window_of_group(others, name).spec for name in by_group] != [
        window_of_group(history, name).spec for name in by_group
    ]


async def test_an_interrupted_episode_keeps_its_limit(tmp_path: Path) -> None:
    """What an interrupted episode was shown can be gone on from under the same range and seed, and
    under no other limit."""
    history = parse_history("summary:800-900", seed=3)
    [one] = await played(tmp_path, Folding(dialect_of("native")), history)
    with open_reader(tmp_path) as reader:
        digest = one.started.scenario_digest
        for seed, expected in ((3, True), (4, False)):
            again = parse_history("summary:800-900", seed=seed)
            kept = KeptTurns(reader, dialect_of("native"), again)
            found = await kept.of(one.episode, digest, attempt=2)
            assert (found is not None) is expected


def test_draws_fill_the_range() -> None:
    """Both ends are drawn, and every limit about equally often."""
    history = parse_history("summary:10-13", seed=5)
    assert isinstance(history, SummaryRange)
    drawn = [history.drawn(f"g{number:06d}").num_tokens for number in range(4000)]
    assert all(900 < drawn.count(limit) < 1100 for limit in (10, 11, 12, 13))
    fixed = parse_history("last:3")
    assert window_of_group(fixed, "g000000") is fixed


@pytest.mark.parametrize("shown", ["summary:799", "summary:901", "last:3", "summary:800-900", ""])
def test_an_episode_of_another_window_is_not_taken(shown: str) -> None:
    """Only limits of the range belong to it; and only with the fingerprint that they have."""
    history = parse_history("summary:800-900")
    assert window_of_episode(history, shown, "0" * 16) is None
    if shown.startswith("summary:") and "-" not in shown:
        assert window_of_episode(history, shown, parse_history(shown).fingerprint) is None
    assert window_of_episode(parse_history("summary:300"), "summary:400", "0" * 16) is None


@pytest.mark.parametrize("text", ["summary:5-5", "summary:6-5"])
def test_an_empty_range_is_refused(text: str) -> None:
    """A range has two numbers, the second the greater one."""
    with pytest.raises(SettingsError, match="the second number must be the greater one"):
        parse_history(text)


@pytest.mark.parametrize("history", ["fold", "summary:5-9"])
def test_own_agents_do_not_fold(history: str) -> None:
    """An agent of the user's own has its own conversation."""
    with pytest.raises(SettingsError, match="cannot be asked for summaries, and folds by itself"):
        require_agent_formats("native", history)
