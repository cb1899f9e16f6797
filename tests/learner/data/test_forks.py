"""The turns that a fork keeps are context: they are shown to the model, and never trained again."""

from pathlib import Path

import msgspec
import pytest

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.continuation.edits import EditedCall, EditedTurn, written_turns
from rehearsal_room.harness.continuation.forks import without_tokens
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    ForkedFrom,
    ForkEdit,
    HistorySummarized,
)
from rehearsal_room.harness.core.trajectory import Trajectory, assemble
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.policies.tokenized import TokenizedPolicy
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.learner.config.settings import DataSettings
from rehearsal_room.learner.core.errors import AlignmentError, SampleError
from rehearsal_room.learner.core.samples import Group, Rollout
from rehearsal_room.learner.data.alignment import Alignment
from rehearsal_room.learner.data.group_feed import groups_of_logs
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.data.trajectory_samples import rollout_of
from tests.learner.data.test_alignment import _Summing
from tests.support.episode_logs import started, story
from tests.support.run_context import library
from tests.support.tiny_model import write_tokenizer
from tests.support.token_logs import ended, judged, reply, step, summary

HERMES = dialect_of("hermes")
SOURCE = ForkedFrom("runs/source", "e000000", 3)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    return ChatTokenizer.open(folder)


async def run_oracle(
    folder: Path, chat: ChatTokenizer, history: str, beginning: Beginning | None = None
) -> list[Trajectory]:
    """A group of two oracles with tokens, each after the turns of `beginning`."""
    scenario, pool = library(), LocalPool()
    parts = RunParts(
        pool=pool,
        policy=TokenizedPolicy(_Summing(OraclePolicy(HERMES)), chat),
        dialect=HERMES,
        history=parse_history(history, chat),
        format=FormatSettings(),
        limits=Limits(),
        judge=ScenarioJudges(pool, [scenario]),
        beginning=beginning,
    )
    plans = plan_of([(scenario, scenario.task("lend-two"))], episodes=2, group_size=2, seed=1)
    await run_session(folder, plans, parts, concurrency=2, meters=Meters())
    with open_reader(folder) as reader:
        return list(reader.trajectories())


def groups_of(folder: Path, chat: ChatTokenizer, history: str) -> tuple[list[Group], Alignment]:
    """The groups of a run, every prompt of which was computed again."""
    alignment = Alignment(parse_history(history, chat), HERMES, chat)
    grouping = Grouping(DataSettings(keep_equal=True), aligner=alignment)
    return list(groups_of_logs([folder], grouping)), alignment


def beginning_of(source: Trajectory, *, with_tokens: bool) -> Beginning:
    """The first turns of an episode, as a fork keeps them."""
    kept = [
        event
        for event in source.replies()
        if (isinstance(event, HistorySummarized) and event.turn < SOURCE.turn)
        or event in source.steps[: SOURCE.turn]
    ]
    if not with_tokens:
        kept = [without_tokens(event) for event in kept]
    return Beginning(tuple(kept), source.started.start_digest, SOURCE)


def facts(rollout: Rollout) -> list[tuple[list[int], list[int], int, bool]]:
    return [
        (one.prompt.tolist(), one.tokens.tolist(), one.turn, one.is_summary)
        for one in rollout.samples
    ]


@pytest.mark.parametrize("with_tokens", [True, False], ids=["same model", "another model"])
@pytest.mark.parametrize("history", ["full", "last:2", "retrieve:1", "summary:1500"])
async def test_a_fork_trains_its_own_turns(
    tmp_path: Path, chat: ChatTokenizer, history: str, with_tokens: bool
) -> None:
    """The samples of a fork are those of its own turns, with the prompts that its source had
    there; all of them agree with the windows that are computed from its log alone."""
    (source, _) = await run_oracle(tmp_path / "source", chat, history)
    beginning = beginning_of(source, with_tokens=with_tokens)
    forks = await run_oracle(tmp_path / "fork", chat, history, beginning)
    assert [len(one.steps) for one in forks] == [len(source.steps)] * 2
    (group,), alignment = groups_of(tmp_path / "fork", chat, history)
    assert alignment.statistics() == {"checked": 2, "misaligned": 0}
    expected = [fact for fact in facts(rollout_of(source, where="x")) if fact[2] >= SOURCE.turn]
    assert expected
    assert [facts(rollout) for rollout in group.rollouts] == [expected, expected]


@pytest.mark.parametrize("kept", [0, SOURCE.turn])
async def test_turns_that_somebody_wrote_are_not_trained(
    tmp_path: Path, chat: ChatTokenizer, kept: int
) -> None:
    """They have no tokens and no log-probabilities, they give no sample, and the prompts after
    them, also those of another instruction, are those that are computed from the log."""
    (source, _) = await run_oracle(tmp_path / "source", chat, "full")
    turns = (EditedTurn("Let me see.", (EditedCall("no_such_tool", {}),)),)
    beginning = Beginning(
        source.steps[:kept],
        source.started.start_digest,
        msgspec.structs.replace(SOURCE, turn=kept),
        edit=ForkEdit(1, source.started.instruction),
        written=written_turns(turns, HERMES, first=kept),
        instruction="Another instruction.",
    )
    forks = await run_oracle(tmp_path / "fork", chat, "full", beginning)
    written = forks[0].steps[kept]
    assert (written.reply.token_ids, written.reply.logprobs) == (b"", b"")
    assert [one.error for one in written.results] == ["unknown_tool"]
    (group,), alignment = groups_of(tmp_path / "fork", chat, "full")
    assert alignment.statistics() == {"checked": 2, "misaligned": 0}
    own = list(range(kept + 1, len(forks[0].steps)))
    assert own
    assert [[one.turn for one in rollout.samples] for rollout in group.rollouts] == [own, own]


async def test_a_fork_under_other_windows(tmp_path: Path, chat: ChatTokenizer) -> None:
    """A fork may have another history window than its source: its own turns are aligned with that
    one, and a training run under the source's refuses them."""
    (source, _) = await run_oracle(tmp_path / "source", chat, "summary:1500")
    beginning = beginning_of(source, with_tokens=True)
    forks = await run_oracle(tmp_path / "fork", chat, "last:2", beginning)
    (group,), _ = groups_of(tmp_path / "fork", chat, "last:2")
    turns = [[sample.turn for sample in rollout.samples] for rollout in group.rollouts]
    assert turns == [list(range(SOURCE.turn, len(forks[0].steps)))] * 2
    with pytest.raises(AlignmentError, match="was run under the history window last:2"):
        groups_of(tmp_path / "fork", chat, "summary:1500")


def fork(turn: int, *events: object) -> Trajectory:
    start = msgspec.structs.replace(
        started(), kept=turn, forked_from=msgspec.structs.replace(SOURCE, turn=turn)
    )
    return assemble(story("e0", [start, *events]))  # type: ignore[list-item]  # events of any kind


def test_prompts_that_share_with_the_context() -> None:
    """A fork's prompts are logged against the first prompt of its context; the samples have them
    whole, whether they share more of it than the first of their own, or less."""
    trajectory = fork(
        1,
        step(reply([1, 2, 3, 4], [5])),
        summary(reply([1, 2, 7], [6], shared=2), turn=1),
        step(reply([1, 2, 3, 4, 8], [9], shared=4)),
        step(reply([1, 10], [11], shared=1)),
        ended(num_steps=3),
        judged(1.0, [0.0, 1.0, 1.0]),
    )
    rollout = rollout_of(trajectory, where="runs/x")
    assert facts(rollout) == [
        ([1, 2, 7], [6], 1, True),
        ([1, 2, 3, 4, 8], [9], 1, False),
        ([1, 10], [11], 2, False),
    ]
    assert [sample.reward for sample in rollout.samples] == [1.0, 1.0, 1.0]


def test_a_fork_without_a_reply_of_its_own() -> None:
    """A fork whose agent never replied has nothing to train, whatever it kept."""
    ending = EpisodeEnded(Ending.TOKEN_LIMIT, "", 1, None)
    trajectory = fork(1, step(reply()), ending, judged(0.0, [0.0]))
    grouping = Grouping()
    start = msgspec.structs.replace(trajectory.started, group_size=1)
    grouping.add(msgspec.structs.replace(trajectory, started=start), where="x")
    assert grouping.statistics().excluded["silent"] == 1


def test_forks_of_different_turns_are_not_compared() -> None:
    """The members of a group keep the same turns."""
    grouping = Grouping()
    one = fork(1, step(reply()), step(reply()), ended(num_steps=2), judged(0.0, [0.0, 0.0]))
    other = fork(2, step(reply()), step(reply()), ended(num_steps=2), judged(0.0, [0.0, 0.0]))
    grouping.add(one, where="x")
    with pytest.raises(SampleError, match="after turn 2 of runs/source/e000000"):
        grouping.add(other, where="x")
