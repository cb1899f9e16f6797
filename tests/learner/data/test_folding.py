"""Folds and summaries in training: shown as they were, each sampled token once.

`REHEARSE_TOKENIZER` names a model folder whose tokenizer and chat template are tried, too.
"""

import os
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.token_bytes import decode_ids, encode_ids
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.tokenized import TokenizedPolicy
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.tokenization.template_check import check_template
from rehearsal_room.learner.config.settings import DataSettings
from rehearsal_room.learner.core.errors import AlignmentError, SampleError
from rehearsal_room.learner.core.samples import Group
from rehearsal_room.learner.data.alignment import Alignment
from rehearsal_room.learner.data.batch_queue import TakenBatch
from rehearsal_room.learner.data.group_feed import groups_of_logs
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.data.trajectory_samples import rollout_of
from rehearsal_room.learner.loop.loop import episode_metrics
from rehearsal_room.learner.packing.prefix_groups import batch_of
from tests.harness.history.test_fold import Folding, played
from tests.support.tiny_model import write_tokenizer

HERMES, NATIVE = dialect_of("hermes"), dialect_of("native")
REAL = os.environ.get("REHEARSE_TOKENIZER", "")
RANGE = "summary:850-1100"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["tiny", *filter(None, [REAL])])
def chat(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    if request.param != "tiny":
        return ChatTokenizer.open(Path(request.param))
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    return ChatTokenizer.open(folder)


async def run(
    folder: Path, chat: ChatTokenizer, history: str, dialect: Dialect = HERMES
) -> list[Trajectory]:
    """Three groups of two episodes with tokens."""
    return await played(
        folder,
        TokenizedPolicy(Folding(dialect), chat),
        parse_history(history, seed=3),
        dialect=dialect.name,
        groups=3,
        size=2,
    )


def groups_of(
    folder: Path, chat: ChatTokenizer, history: str, dialect: Dialect = HERMES
) -> tuple[list[Group], Alignment]:
    alignment = Alignment(parse_history(history), dialect, chat)
    grouping = Grouping(DataSettings(keep_equal=True), aligner=alignment)
    found = groups_of_logs([folder], grouping)
    return [one for one in found if isinstance(one, Group)], alignment


@pytest.mark.parametrize("dialect", [HERMES, NATIVE], ids=["hermes", "native"])
@pytest.mark.parametrize("history", ["fold", RANGE])
async def test_what_was_shown_is_trained_and_each_token_once(
    tmp_path: Path, chat: ChatTokenizer, history: str, dialect: Dialect
) -> None:
    """Every row's prompt is bit for bit what the policy was given, and what the log's windows give
    again; each sampled token, those of folds and summaries included, is trained in one row."""
    try:
        check_template(chat, dialect, model="model")
    except SettingsError as exc:
        pytest.skip(str(exc))
    logged = {one.episode: one for one in await run(tmp_path, chat, history, dialect)}
    groups, alignment = groups_of(tmp_path, chat, history, dialect)
    assert alignment.statistics() == {"checked": 6, "misaligned": 0}
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert len(rollouts) == 6
    sampled: Counter[int] = Counter()
    for rollout in rollouts:
        trajectory = logged[rollout.episode]
        replies = trajectory.replies()
        assert [encode_ids(one.prompt) for one in rollout.samples] == trajectory.prompts()
        assert [encode_ids(one.tokens) for one in rollout.samples] == [
            event.reply.token_ids for event in replies
        ]
        assert rollout.folds == sum(isinstance(one, StepTaken) and one.folds for one in replies)
        for event in replies:
            sampled.update(decode_ids(event.reply.token_ids))
    numbers = [[[1.0] * len(one.samples) for one in group.rollouts] for group in groups]
    batch = batch_of(groups, numbers, numbers)
    trained: Counter[int] = Counter()
    for prefix_group in batch.prefix_groups:
        for suffix in prefix_group.suffixes:
            trained.update(suffix.tokens[suffix.trained].tolist())
    assert trained == sampled
    found = episode_metrics(TakenBatch(tuple(groups), end=3))
    if history == "fold":
        assert found["folds"] == sum(one.folds for one in rollouts) / 6 >= 2
        assert "summaries" not in found
    else:
        summaries = sum(len(one.summaries) for one in logged.values())
        assert found["summaries"] == summaries / 6 > 0 and "folds" not in found


async def test_the_sampled_summary_stands_in_the_next_prompts(
    tmp_path: Path, chat: ChatTokenizer
) -> None:
    """After a fold the prompt has the fold's own tokens as they were sampled, and nothing of the
    turns before it."""
    [one, *_] = await run(tmp_path, chat, "fold")
    prompts = [list(decode_ids(ids)) for ids in one.prompts()]
    tokens = [list(decode_ids(step.reply.token_ids)) for step in one.steps]
    fold = next(number for number, step in enumerate(one.steps) if step.folds)
    after = prompts[fold + 1]
    assert _holds(after, tokens[fold][:-1])
    assert len(after) < len(prompts[fold]) + len(tokens[fold])
    assert not any(_holds(after, before[:-1]) for before in tokens[:fold])
    assert _holds(prompts[fold], tokens[fold - 1][:-1])


def _holds(ids: list[int], part: list[int]) -> bool:
    return any(ids[at : at + len(part)] == part for at in range(len(ids) - len(part) + 1))


async def test_other_windows_are_refused(tmp_path: Path, chat: ChatTokenizer) -> None:
    """A run under a range is trained under that range, or one that has its limits; not under
    another, nor under `fold`, and a run that folded not under `full`."""
    drawn, folded = tmp_path / "drawn", tmp_path / "fold"
    await run(drawn, chat, RANGE)
    await run(folded, chat, "fold")
    assert len(groups_of(drawn, chat, "summary:500-5000")[0]) == 3
    for folder, history in (
        (drawn, "summary:2000-3000"),
        (drawn, "fold"),
        (drawn, "full"),
        (folded, "full"),
        (folded, RANGE),
    ):
        with pytest.raises(AlignmentError, match="was run under the history window"):
            groups_of(folder, chat, history)


async def test_a_tampered_limit_is_found(tmp_path: Path, chat: ChatTokenizer) -> None:
    """A log that states another limit of the range than the one that was used does not give the
    prompts that it has."""
    made = await run(tmp_path, chat, RANGE)
    with open_reader(tmp_path) as reader:
        scenarios = reader.scenarios()
    alignment = Alignment(parse_history("summary:500-5000"), HERMES, chat)
    alignment.use_scenarios(scenarios)
    other = parse_history("summary:5000")
    started = msgspec.structs.replace(
        made[0].started, history=other.spec, fingerprint=other.fingerprint
    )
    tampered = msgspec.structs.replace(made[0], started=started)
    with pytest.raises(AlignmentError, match=r"prompt_ids: the logged prompt differs"):
        alignment.replacement_prompts(tampered, where="log")
    assert alignment.replacement_prompts(made[0], where="log") is None


async def test_members_of_a_group_have_one_limit(tmp_path: Path, chat: ChatTokenizer) -> None:
    """Episodes of one group under two limits are not compared: an error names both."""
    made = await run(tmp_path, chat, RANGE)
    first, second = (one for one in made if one.started.group == "g000000")
    other = parse_history("summary:1")
    grouping = Grouping(DataSettings(keep_equal=True))
    started = msgspec.structs.replace(
        second.started, history=other.spec, fingerprint=other.fingerprint
    )
    tampered = msgspec.structs.replace(second, started=started)
    assert rollout_of(tampered, where="log").samples
    grouping.add(first, where="log")
    with pytest.raises(SampleError, match="under summary:1") as caught:
        grouping.add(tampered, where="log")
    assert first.started.history in str(caught.value)
