"""Alignment: prompts are computed again and compared with the log."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.core.token_bytes import decode_ids, encode_ids
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.policies.token_agent import EpisodeTokens
from rehearsal_room.harness.policies.tokenized import TokenizedPolicy
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.learner.config.settings import DataSettings
from rehearsal_room.learner.core.errors import AlignmentError, SampleError
from rehearsal_room.learner.data.alignment import Alignment
from rehearsal_room.learner.data.group_feed import groups_of_logs
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.data.trajectory_samples import PromptIds, rollout_of
from tests.support.run_context import library
from tests.support.tiny_model import write_tokenizer

HERMES = dialect_of("hermes")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    return ChatTokenizer.open(folder)


class _Summing:
    """Takes the oracle's steps, and summarizes when asked to."""

    name = "summing"

    def __init__(self, inner: Policy) -> None:
        self._inner = inner

    def agent(self, assignment: Assignment) -> Agent:
        return _SummingAgent(self._inner.agent(assignment))


class _SummingAgent:
    def __init__(self, inner: Agent) -> None:
        self._inner = inner

    async def reply(self, window: Window) -> Reply:
        return (
            Reply("So far so good.") if window.asks_for_summary else await self._inner.reply(window)
        )


async def run_oracle(
    folder: Path,
    chat: ChatTokenizer,
    history: str,
    dialect: str = "hermes",
    policy: Policy | None = None,
) -> Path:
    """The log of a run of the oracle, with tokens: two episodes of a task of seven turns."""
    scenario = library()
    pool, speech = LocalPool(), dialect_of(dialect)
    parts = RunParts(
        pool=pool,
        policy=policy or TokenizedPolicy(_Summing(OraclePolicy(speech)), chat),
        dialect=speech,
        history=parse_history(history, chat),
        format=FormatSettings(),
        limits=Limits(),
        judge=ScenarioJudges(pool, [scenario]),
    )
    plans = plan_of([(scenario, scenario.task("lend-two"))], episodes=2, group_size=2, seed=1)
    await run_session(folder, plans, parts, concurrency=2, meters=Meters())
    return folder


@pytest.fixture(scope="module")
async def logs(
    tmp_path_factory: pytest.TempPathFactory, chat: ChatTokenizer, anyio_backend: str
) -> dict[str, Path]:
    """One run for each history window, and one in another dialect."""
    folder = tmp_path_factory.mktemp("runs")
    found = {
        history: await run_oracle(folder / history.replace(":", "-"), chat, history)
        for history in ("full", "last:2", "last:2+2", "retrieve:1", "tokens:1500", "summary:1500")
    }
    found["native"] = await run_oracle(folder / "native", chat, "full", "native")
    return found


def read(folder: Path) -> tuple[Trajectory, dict[str, ScenarioSnapshot]]:
    with open_reader(folder) as reader:
        return next(reader.trajectories()), reader.scenarios()


def replacement_prompts(alignment: Alignment, folder: Path) -> PromptIds | None:
    trajectory, scenarios = read(folder)
    alignment.use_scenarios(scenarios)
    return alignment.replacement_prompts(trajectory, where="run")


def lists(prompts: PromptIds | None) -> list[list[int] | None]:
    assert prompts is not None
    return [None if ids is None else ids.tolist() for ids in prompts]


@pytest.mark.parametrize(
    "history", ["full", "last:2", "last:2+2", "retrieve:1", "tokens:1500", "summary:1500"]
)
async def test_a_log_of_the_same_windows_is_used_unchanged(
    history: str, logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Under every history window the prompts computed from the log equal the logged ones."""
    alignment = Alignment(parse_history(history, chat), HERMES, chat)
    assert replacement_prompts(alignment, logs[history]) is None
    was_cut = any(step.first_turn for step in read(logs[history])[0].steps)
    assert was_cut is (history != "full")
    assert alignment.statistics() == {"checked": 1, "misaligned": 0}


async def test_native_calls_are_part_of_the_window(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Prompts can also be computed again in a dialect with native calls."""
    alignment = Alignment(parse_history("full"), dialect_of("native"), chat)
    assert replacement_prompts(alignment, logs["native"]) is None


@pytest.mark.parametrize(
    ("history", "dialect", "message"),
    [
        (
            "last:2",
            "hermes",
            r"run: episode 'e000000' was run under the history window full \(fingerprint .*\), but"
            r" the training run uses last:2 \(fingerprint .*\); --misaligned trains it anyway",
        ),
        ("full", "native", r"was run in the dialect hermes, but the training run uses native; --m"),
    ],
)
async def test_another_history_policy_or_dialect_is_refused(
    history: str, dialect: str, message: str, logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """The error names both, and the flag that accepts the mismatch."""
    alignment = Alignment(parse_history(history), dialect_of(dialect), chat)
    with pytest.raises(AlignmentError, match=message):
        replacement_prompts(alignment, logs["full"])


async def test_misaligned_episodes_get_the_prompts_of_the_training_run(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """An episode was run on windows and is trained on full histories: it gets the prompts that a
    run of the same replies on full histories would have had, and keeps its sampled tokens."""
    alignment = Alignment(parse_history("full"), HERMES, chat, misaligned=True)
    (of_full, _), (of_windows, _) = read(logs["full"]), read(logs["last:2"])
    assert [step.reply.token_ids for step in of_full.steps] == [
        step.reply.token_ids for step in of_windows.steps
    ]
    assert lists(replacement_prompts(alignment, logs["last:2"])) == [
        decode_ids(prompt).tolist() for prompt in of_full.prompts()
    ]
    assert of_windows.prompts() != of_full.prompts()
    assert alignment.statistics() == {"checked": 0, "misaligned": 1}


async def test_misaligned_summaries_are_left_out(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Under windows without summaries a summary is not a sample; the steps are."""
    grouping = Grouping(
        DataSettings(keep_equal=True),
        aligner=Alignment(parse_history("full"), HERMES, chat, misaligned=True),
    )
    (group,) = groups_of_logs([logs["summary:1500"]], grouping)
    trajectory, _ = read(logs["summary:1500"])
    assert len(trajectory.summaries) > 0
    for rollout in group.rollouts:
        assert [one.turn for one in rollout.samples] == list(range(len(trajectory.steps)))
        assert not any(one.is_summary for one in rollout.samples)


async def test_missing_summaries_cannot_be_trained(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """The log does not have the summaries that the agent would have made."""
    alignment = Alignment(parse_history("summary:1500", chat), HERMES, chat, misaligned=True)
    with pytest.raises(AlignmentError, match="would have been asked for a summary, but the log"):
        replacement_prompts(alignment, logs["full"])


class _Spoiled:
    """A renderer whose prompts differ in one token, from the third prompt on."""

    def __init__(self, chat: ChatTokenizer) -> None:
        self._chat = chat
        self._num_prompts = 0

    def prompt(self, window: Window, own: Mapping[str, Sequence[int]]) -> list[int]:
        ids = self._chat.prompt(window, own)
        self._num_prompts += 1
        if self._num_prompts > 2:
            ids[5] += 1
        return ids


async def test_a_single_different_token_is_found(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """The error names the reply and the token; this finds a changed tokenizer or template."""
    alignment = Alignment(parse_history("full"), HERMES, _Spoiled(chat))
    with pytest.raises(
        AlignmentError,
        match=r"run: episode 'e000000', reply 2: prompt_ids: .* token 5 was (\d+) and is now \d+\.",
    ):
        replacement_prompts(alignment, logs["full"])


@pytest.mark.parametrize("history", ["full", "last:2"])
async def test_half_a_token_is_refused_when_samples_are_made(
    logs: dict[str, Path], chat: ChatTokenizer, history: str
) -> None:
    """Bytes that are not a whole number of ids are refused with turn and field, not with a
    traceback, under the same windows and, misaligned, under others."""
    trajectory, scenarios = read(logs["full"])
    first, second, *rest = trajectory.steps
    halves = [
        (_with_prompt(first, first.reply.prompt_ids + b"x"), "prompt_ids"),
        (_with_tokens(first, first.reply.token_ids + b"x"), "token_ids|logprobs"),
    ]
    for step, field in halves:
        broken = msgspec.structs.replace(trajectory, steps=(step, second, *rest))
        alignment = Alignment(parse_history(history), HERMES, chat, misaligned=True)
        alignment.use_scenarios(scenarios)
        with pytest.raises(SampleError, match=rf"run: episode 'e000000' .*, turn 0: ({field}): "):
            prompts = alignment.replacement_prompts(broken, where="run")
            rollout_of(broken, where="run", prompts=prompts)


async def test_a_missing_token_is_found(logs: dict[str, Path], chat: ChatTokenizer) -> None:
    """A prompt that is longer or shorter than the logged one is an error."""
    trajectory, scenarios = read(logs["full"])
    first, *rest = trajectory.steps
    cut = encode_ids(decode_ids(first.reply.prompt_ids)[:-1])
    steps = (_with_prompt(first, cut), *rest)
    alignment = Alignment(parse_history("full"), HERMES, chat)
    alignment.use_scenarios(scenarios)
    with pytest.raises(AlignmentError, match=r"reply 0: .* there were (\d+) tokens and are now \d"):
        alignment.replacement_prompts(msgspec.structs.replace(trajectory, steps=steps), where="run")


def _with_prompt(step: StepTaken, prompt: bytes) -> StepTaken:
    reply = msgspec.structs.replace(step.reply, prompt_ids=prompt)
    return msgspec.structs.replace(step, reply=reply)


def _with_tokens(step: StepTaken, tokens: bytes) -> StepTaken:
    reply = msgspec.structs.replace(step.reply, token_ids=tokens)
    return msgspec.structs.replace(step, reply=reply)


class _Spelling:
    """The oracle, but it samples letter by letter: other ids than the tokenizer's."""

    name = "spelling"

    def __init__(self, chat: ChatTokenizer) -> None:
        self._chat = chat
        self._oracle = OraclePolicy(HERMES)

    def agent(self, assignment: Assignment) -> Agent:
        return _SpellingAgent(self._oracle.agent(assignment), self._chat)


class _SpellingAgent:
    def __init__(self, inner: Agent, chat: ChatTokenizer) -> None:
        self._inner = inner
        self._chat = chat
        self._tokens = EpisodeTokens(chat)

    async def reply(self, window: Window) -> Reply:
        prompt = self._tokens.prompt(window)
        reply = await self._inner.reply(window)
        ids = [found for letter in reply.text for found in self._chat.encode(letter)]
        ids.append(self._chat.end_id)
        return self._tokens.attach_tokens(Reply(reply.text), prompt, ids, [-1.0] * len(ids))


async def test_prompts_contain_the_sampled_ids(tmp_path: Path, chat: ChatTokenizer) -> None:
    """Replies that were sampled in other pieces than the tokenizer's appear in later prompts with
    the sampled ids; tokenizing their text again would give other prompts."""
    trajectory, scenarios = read(
        await run_oracle(tmp_path / "run", chat, "full", policy=_Spelling(chat))
    )
    alignment = Alignment(parse_history("full"), HERMES, chat)
    alignment.use_scenarios(scenarios)
    assert alignment.replacement_prompts(trajectory, where="run") is None
    again = Alignment(parse_history("full"), HERMES, _TokenizingAgain(chat))
    again.use_scenarios(scenarios)
    with pytest.raises(AlignmentError, match="reply 1: prompt_ids"):
        again.replacement_prompts(trajectory, where="run")


class _TokenizingAgain:
    """A renderer that ignores the sampled ids."""

    def __init__(self, chat: ChatTokenizer) -> None:
        self._chat = chat

    def prompt(self, window: Window, own: Mapping[str, Sequence[int]]) -> list[int]:
        return self._chat.prompt(window, {})


async def test_a_share_of_episodes_is_computed_again(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Their names decide which ones; the fingerprint of every episode is checked."""
    trajectory, scenarios = read(logs["full"])

    def checked(share: float) -> int:
        alignment = Alignment(parse_history("full"), HERMES, chat, check_share=share)
        alignment.use_scenarios(scenarios)
        for number in range(40):
            one = msgspec.structs.replace(trajectory, episode=f"e{number}")
            assert alignment.replacement_prompts(one, where="run") is None
        return alignment.statistics()["checked"]

    assert (checked(0.0), checked(1.0)) == (0, 40)
    assert 10 <= checked(0.5) <= 30
    alignment = Alignment(parse_history("last:2"), HERMES, chat, check_share=0.0)
    with pytest.raises(AlignmentError):
        replacement_prompts(alignment, logs["full"])


async def test_a_log_without_its_scenario_is_refused(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Rules and tools of the scenario are part of the prompt."""
    trajectory, _ = read(logs["full"])
    alignment = Alignment(parse_history("full"), HERMES, chat)
    with pytest.raises(SampleError, match=r"run: episode 'e000000': the log does not contain its"):
        alignment.replacement_prompts(trajectory, where="run")
