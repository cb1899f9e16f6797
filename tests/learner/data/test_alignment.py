"""Alignment: what the agent was shown is computed again and held against the log."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from envpool.inprocess.pool import LocalPool
from harness.core.events import StepTaken
from harness.core.messages import Reply, Window
from harness.core.token_bytes import decode_ids, encode_ids
from harness.core.trajectory import Trajectory
from harness.dialects.format_rules import FormatSettings
from harness.dialects.registry import dialect_of
from harness.history.windows import parse_history
from harness.log.reader import open_reader
from harness.log.schema import ScenarioSnapshot
from harness.policies.base import Agent, Assignment, Policy
from harness.policies.oracle import OraclePolicy
from harness.policies.token_agent import EpisodeTokens
from harness.policies.tokenized import TokenisedPolicy
from harness.rollout.episode import Limits
from harness.rollout.meters import Meters
from harness.rollout.plan import plan_of
from harness.rollout.session import RunParts, run_session
from harness.tokenization.chat_tokenizer import ChatTokenizer
from judge.verdicts.code_judges import ScenarioJudges
from learner.config.settings import DataSettings
from learner.core.errors import AlignmentError, SampleError
from learner.data.alignment import Alignment
from learner.data.group_feed import groups_of_logs
from learner.data.grouping import Grouping
from learner.data.trajectory_samples import Shown, rollout_of
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
    """Does the oracle's steps, and sums up when it is asked to."""

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


async def played(
    folder: Path,
    chat: ChatTokenizer,
    history: str,
    dialect: str = "hermes",
    policy: Policy | None = None,
) -> Path:
    """The log of a run of the oracle, with tokens: a task of seven turns, by two."""
    scenario = library()
    pool, speech = LocalPool(), dialect_of(dialect)
    parts = RunParts(
        pool,
        policy or TokenisedPolicy(_Summing(OraclePolicy(speech)), chat),
        speech,
        parse_history(history, chat),
        FormatSettings(),
        Limits(),
        ScenarioJudges(pool, [scenario]),
    )
    plans = plan_of([(scenario, scenario.task("lend-two"))], episodes=2, group_size=2, seed=1)
    await run_session(folder, plans, parts, concurrency=2, meters=Meters())
    return folder


@pytest.fixture(scope="module")
async def logs(
    tmp_path_factory: pytest.TempPathFactory, chat: ChatTokenizer, anyio_backend: str
) -> dict[str, Path]:
    """One run for each history policy, and one in another dialect."""
    folder = tmp_path_factory.mktemp("runs")
    found = {
        history: await played(folder / history.replace(":", "-"), chat, history)
        for history in ("full", "last:2", "last:2+2", "retrieve:1", "tokens:1500", "summary:1500")
    }
    found["native"] = await played(folder / "native", chat, "full", "native")
    return found


def read(folder: Path) -> tuple[Trajectory, dict[str, ScenarioSnapshot]]:
    with open_reader(folder) as reader:
        return next(reader.trajectories()), reader.scenarios()


def shown(alignment: Alignment, folder: Path) -> Shown | None:
    trajectory, worlds = read(folder)
    alignment.know(worlds)
    return alignment.shown(trajectory, where="run")


def lists(prompts: Shown | None) -> list[list[int] | None]:
    assert prompts is not None
    return [None if ids is None else ids.tolist() for ids in prompts]


@pytest.mark.parametrize(
    "history", ["full", "last:2", "last:2+2", "retrieve:1", "tokens:1500", "summary:1500"]
)
async def test_a_log_of_the_same_windows_is_taken_as_it_is(
    history: str, logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Under every history policy the prompts computed from the log are the logged ones."""
    alignment = Alignment(parse_history(history, chat), HERMES, chat)
    assert shown(alignment, logs[history]) is None
    was_cut = any(step.first_turn for step in read(logs[history])[0].steps)
    assert was_cut is (history != "full")
    assert alignment.statistics() == {"checked": 1, "misaligned": 0}


async def test_native_calls_are_part_of_the_window(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Prompts are computed again in the dialect with calls of its own, too."""
    alignment = Alignment(parse_history("full"), dialect_of("native"), chat)
    assert shown(alignment, logs["native"]) is None


@pytest.mark.parametrize(
    ("history", "dialect", "message"),
    [
        (
            "last:2",
            "hermes",
            r"run: episode 'e000000' was run under the history policy full \(fingerprint .*\), and"
            r" last:2 is trained \(.*\); --misaligned trains it all the same",
        ),
        ("full", "native", r"was run in the dialect hermes, and native is trained; --misaligned"),
    ],
)
async def test_another_history_policy_or_dialect_is_refused(
    history: str, dialect: str, message: str, logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """The sentence names both, and what to do where that is wanted."""
    alignment = Alignment(parse_history(history), dialect_of(dialect), chat)
    with pytest.raises(AlignmentError, match=message):
        shown(alignment, logs["full"])


async def test_misaligned_episodes_get_the_prompts_of_the_training_run(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Run on windows and trained on full histories: the prompts are those that a run on full
    histories of the same replies would have had, and the sampled tokens stay."""
    alignment = Alignment(parse_history("full"), HERMES, chat, misaligned=True)
    (of_full, _), (of_windows, _) = read(logs["full"]), read(logs["last:2"])
    assert [step.reply.token_ids for step in of_full.steps] == [
        step.reply.token_ids for step in of_windows.steps
    ]
    assert lists(shown(alignment, logs["last:2"])) == [
        decode_ids(prompt).tolist() for prompt in of_full.prompts()
    ]
    assert of_windows.prompts() != of_full.prompts()
    assert alignment.statistics() == {"checked": 0, "misaligned": 1}


async def test_misaligned_summaries_are_left_out(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Under windows without summaries nobody asks for one: it is no sample, and the steps are."""
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


async def test_summaries_that_were_never_made_cannot_be_trained(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """What the agent would have summed up is in no log."""
    alignment = Alignment(parse_history("summary:1500", chat), HERMES, chat, misaligned=True)
    with pytest.raises(AlignmentError, match="would have been asked for a summary, and the log"):
        shown(alignment, logs["full"])


class _Spoiled:
    """A renderer whose prompts differ in one token from the third on."""

    def __init__(self, chat: ChatTokenizer) -> None:
        self._chat = chat
        self._num_prompts = 0

    def prompt(self, window: Window, own: Mapping[str, Sequence[int]]) -> list[int]:
        ids = self._chat.prompt(window, own)
        self._num_prompts += 1
        if self._num_prompts > 2:
            ids[5] += 1
        return ids


async def test_one_token_that_differs_is_found(logs: dict[str, Path], chat: ChatTokenizer) -> None:
    """The error names the reply and the token, as after a change of tokenizer or template."""
    alignment = Alignment(parse_history("full"), HERMES, _Spoiled(chat))
    with pytest.raises(
        AlignmentError,
        match=r"run: episode 'e000000', reply 2: prompt_ids: .* token 5 was (\d+) and is \d+\. Was",
    ):
        shown(alignment, logs["full"])


@pytest.mark.parametrize("history", ["full", "last:2"])
async def test_half_a_token_is_left_to_whoever_makes_samples(
    logs: dict[str, Path], chat: ChatTokenizer, history: str
) -> None:
    """Bytes that are no whole number of ids are refused with turn and field, not with a traceback,
    under the same windows and, misaligned, under others."""
    trajectory, worlds = read(logs["full"])
    first, second, *rest = trajectory.steps
    halves = [
        (_with_prompt(first, first.reply.prompt_ids + b"x"), "prompt_ids"),
        (_with_tokens(first, first.reply.token_ids + b"x"), "token_ids|logprobs"),
    ]
    for step, field in halves:
        broken = msgspec.structs.replace(trajectory, steps=(step, second, *rest))
        alignment = Alignment(parse_history(history), HERMES, chat, misaligned=True)
        alignment.know(worlds)
        with pytest.raises(SampleError, match=rf"run: episode 'e000000' .*, turn 0: ({field}): "):
            rollout_of(broken, where="run", shown=alignment.shown(broken, where="run"))


async def test_a_missing_token_is_found(logs: dict[str, Path], chat: ChatTokenizer) -> None:
    """So is a prompt that is longer or shorter than it was."""
    trajectory, worlds = read(logs["full"])
    first, *rest = trajectory.steps
    cut = encode_ids(decode_ids(first.reply.prompt_ids)[:-1])
    steps = (_with_prompt(first, cut), *rest)
    alignment = Alignment(parse_history("full"), HERMES, chat)
    alignment.know(worlds)
    with pytest.raises(AlignmentError, match=r"reply 0: .* there were (\d+) tokens and are \d+\."):
        alignment.shown(msgspec.structs.replace(trajectory, steps=steps), where="run")


def _with_prompt(step: StepTaken, prompt: bytes) -> StepTaken:
    reply = msgspec.structs.replace(step.reply, prompt_ids=prompt)
    return msgspec.structs.replace(step, reply=reply)


def _with_tokens(step: StepTaken, tokens: bytes) -> StepTaken:
    reply = msgspec.structs.replace(step.reply, token_ids=tokens)
    return msgspec.structs.replace(step, reply=reply)


class _Spelling:
    """The oracle, saying everything letter by letter: other ids than the tokenizer's own."""

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
        said = await self._inner.reply(window)
        ids = [found for letter in said.text for found in self._chat.encode(letter)]
        ids.append(self._chat.end_id)
        return self._tokens.borne(Reply(said.text), prompt, ids, [-1.0] * len(ids))


async def test_sampled_ids_stay_where_tokenising_again_differs(
    tmp_path: Path, chat: ChatTokenizer
) -> None:
    """Replies that were sampled in other pieces than the tokenizer's stand in later prompts as
    they were sampled; tokenised again, these prompts would be others."""
    trajectory, worlds = read(await played(tmp_path / "run", chat, "full", policy=_Spelling(chat)))
    alignment = Alignment(parse_history("full"), HERMES, chat)
    alignment.know(worlds)
    assert alignment.shown(trajectory, where="run") is None
    again = Alignment(parse_history("full"), HERMES, _TokenisingAgain(chat))
    again.know(worlds)
    with pytest.raises(AlignmentError, match="reply 1: prompt_ids"):
        again.shown(trajectory, where="run")


class _TokenisingAgain:
    """A renderer that does not know what was sampled."""

    def __init__(self, chat: ChatTokenizer) -> None:
        self._chat = chat

    def prompt(self, window: Window, own: Mapping[str, Sequence[int]]) -> list[int]:
        return self._chat.prompt(window, {})


async def test_a_share_of_episodes_is_computed_again(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Which ones follows from their names; the fingerprint of every one is looked at."""
    trajectory, worlds = read(logs["full"])

    def checked(share: float) -> int:
        alignment = Alignment(parse_history("full"), HERMES, chat, check=share)
        alignment.know(worlds)
        for number in range(40):
            one = msgspec.structs.replace(trajectory, episode=f"e{number}")
            assert alignment.shown(one, where="run") is None
        return alignment.statistics()["checked"]

    assert (checked(0.0), checked(1.0)) == (0, 40)
    assert 10 <= checked(0.5) <= 30
    alignment = Alignment(parse_history("last:2"), HERMES, chat, check=0.0)
    with pytest.raises(AlignmentError):
        shown(alignment, logs["full"])


async def test_a_log_without_its_world_is_refused(
    logs: dict[str, Path], chat: ChatTokenizer
) -> None:
    """Rules and tools of the world are part of the prompt."""
    trajectory, _ = read(logs["full"])
    alignment = Alignment(parse_history("full"), HERMES, chat)
    with pytest.raises(SampleError, match=r"run: episode 'e000000': the log does not hold its wor"):
        alignment.shown(trajectory, where="run")
