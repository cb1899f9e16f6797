"""The cost of windows and of the feed for the learner: computed tokens, and CPU per batch.

    python -m benchmarks.learner_feed --episodes 1024 --runs 3

Tokens: one group at the shape of docs/performance.md (prefix of 6,000 tokens, 16 episodes of 15
steps, 200 sampled tokens per step, windows of 1,000 to 2,000 tokens after the prefix), packed by
the learner from real history windows. A figure is computed tokens ÷ tokens of one row per step.

CPU: a policy that answers at once, with replies that have tokens, runs episodes of 15 steps on the
bundled worlds; log, bus, windows and code judge are on. Then the same episodes go through the feed
into packed batches: as records of a live run, and from its log. A figure is CPU of the feed ÷ CPU
of the rollouts, both of one run:

    rendered    tokenizer and chat template turn windows into prompts, as in every training run
                (a tokenizer made here, which needs more tokens than a model's own)
    for free    prompts of 2,000 tokens, 1,200 of them shared, are ready-made: the cost of the feed
                relative to the cheapest possible rollouts
"""

import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import anyio
import msgspec
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from benchmarks.worlds import host_worlds, tasks
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.core.messages import Message, Reply, Window
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.policies.tokenized import TokenizedPolicy
from rehearsal_room.harness.rollout.gc_tuning import tune_garbage_collector
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.learner.config.settings import DataSettings
from rehearsal_room.learner.core.samples import Group, Ids, Rollout, Sample
from rehearsal_room.learner.data.group_feed import GroupResult, LiveFeed, groups_of_logs
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.packing.batch import Batch
from rehearsal_room.learner.packing.prefix_groups import batch_of, shared_token_ratio

_VOCAB = 151_936
_MEMBERS, _STEPS, _PREFIX, _SAMPLED = 16, 15, 6_000, 200
_SHOWN, _SHARED, _NUM_SAMPLED = 2_000, 1_200, 150  # tokens of the measured run's replies
_GROUPS = 8  # of one batch
_CHATML = """\
{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


class Shape(msgspec.Struct, frozen=True):
    """The size of the measurement."""

    episodes: int = 1024
    concurrency: int = 1024
    runs: int = 3

    @property
    def num_steps(self) -> int:
        """The steps of all episodes."""
        return self.episodes * _STEPS


def token_figures() -> list[Figure]:
    """Computed tokens ÷ tokens of rows, for several windows."""
    cases: list[tuple[str, str, bool, float | None]] = [
        ("last:3, sharing only", "last:3", False, None),
        ("last:3, and merged", "last:3", True, 1 / 4.5),
        ("last:3+3, and merged", "last:3+3", True, None),
        ("full, and merged", "full", True, None),
    ]
    found = []
    for name, history, merge, reach in cases:
        groups = [windowed(history, seed=seed) for seed in range(5)]
        ratios = [shared_token_ratio(pack_batch([group], merge=merge)) for group in groups]
        found.append(figure(f"tokens computed / rows, {name}", "", ratios, reach=reach))
    return found


def windowed(history: str, *, seed: int) -> Group:
    """A group at the reference shape. The length of a turn is drawn so that windows of three turns
    have 1,000 to 2,000 tokens."""
    random = np.random.default_rng(seed)
    head = _ids(random, _PREFIX)
    rollouts = [_rollout(history, head, member, random) for member in range(_MEMBERS)]
    return Group("g", "reference", "shape", tuple(rollouts))


def _rollout(history: str, head: Ids, member: int, random: np.random.Generator) -> Rollout:
    state = parse_history(history).new_state((), ())
    turns: list[Ids] = []
    samples = []
    for turn in range(_STEPS):
        shown = [turns[int(message.content)] for message in state.visible().messages]
        sampled = _ids(random, _SAMPLED)
        prompt = np.concatenate([head, *shown])
        logprobs = np.zeros(_SAMPLED, np.float32)
        samples.append(Sample(prompt, sampled, logprobs, 0.0, turn, "v1"))
        result = _ids(random, int(random.integers(133, 467)))
        turns.append(np.concatenate([sampled, result]))
        state.add((Message("assistant", str(turn)),))
    return Rollout(f"e{member}", member, float(member % 2), tuple(samples), "answered", "completed")


def _ids(random: np.random.Generator, count: int) -> Ids:
    return random.integers(0, _VOCAB, count, np.int32)


def pack_batch(groups: Iterable[Group], *, merge: bool = True) -> Batch:
    """A batch of groups, with a weight of one for every token."""
    listed = list(groups)
    ones = [[[1.0] * len(rollout.samples) for rollout in group.rollouts] for group in listed]
    return batch_of(listed, ones, ones, merge=merge)


class _Tokens:
    """Bytes of token ids, made once: slicing them costs the rollouts almost nothing."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.shared = encode_ids(_ids(random, _SHARED).tolist())
        self.pool = encode_ids(_ids(random, 100_000).tolist())
        self.logprobs = encode_logprobs([-0.5] * _NUM_SAMPLED)

    def reply(self, reply: Reply, number: int, turn: int) -> Reply:
        """The reply with a prompt that shares its beginning with all others and then differs from
        every other one."""
        own = 4 * (_SHOWN - _SHARED)
        begin = 4 * (number * 7 % 60_000)
        rest = self.pool[begin : begin + own]
        return msgspec.structs.replace(
            reply,
            prompt_ids=rest if turn else self.shared + rest,
            prompt_shared=_SHARED if turn else 0,
            token_ids=self.pool[begin + own : begin + own + 4 * _NUM_SAMPLED],
            logprobs=self.logprobs,
            weights="v1",
        )


class CyclingPolicy:
    """Repeats the oracle's calls and answers at the last step; with token data, if `tokens` is
    given."""

    name = "cycling"

    def __init__(self, dialect: Dialect, steps: int, tokens: _Tokens | None) -> None:
        self._dialect = dialect
        self._steps = steps
        self._tokens = tokens
        self._texts: dict[tuple[str, str], list[Reply]] = {}
        self._num_replies = 0

    def agent(self, assignment: Assignment) -> Agent:
        """An agent for one episode."""
        task, key = assignment.task, (assignment.scenario.digest, assignment.task.id)
        if key not in self._texts:
            last = self._steps - 1
            calls = [task.oracle[turn % len(task.oracle)] for turn in range(last)]
            replies = [
                self._dialect.write((call,), "", turn=turn) for turn, call in enumerate(calls)
            ]
            self._texts[key] = [*replies, self._dialect.write((), task.answer, turn=last)]
        return _Cycling(self, self._texts[key])

    def with_tokens(self, reply: Reply, turn: int) -> Reply:
        """The reply with token data of its own."""
        if self._tokens is None:
            return reply
        self._num_replies += 1
        return self._tokens.reply(reply, self._num_replies, turn)


class _Cycling:
    __slots__ = ("_policy", "_texts", "_turn")

    def __init__(self, policy: CyclingPolicy, texts: list[Reply]) -> None:
        self._policy = policy
        self._texts = texts
        self._turn = -1

    async def reply(self, window: Window) -> Reply:
        """The next call, or the answer."""
        self._turn += 1
        return self._policy.with_tokens(self._texts[self._turn], self._turn)


def feed_figures(shape: Shape) -> list[Figure]:
    """CPU of the feed ÷ CPU of the rollouts."""
    tune_garbage_collector()
    with tempfile.TemporaryDirectory() as name:
        chat = _chat_tokens(Path(name))
    dialect = dialect_of("hermes")
    rendered: Policy = TokenizedPolicy(CyclingPolicy(dialect, _STEPS, None), chat)
    for_free: Policy = CyclingPolicy(dialect, _STEPS, _Tokens())
    return [
        *_ratios("rendered", rendered, dialect, shape, reach=0.1),
        *_ratios("for free", for_free, dialect, shape),
    ]


def _ratios(
    name: str, policy: Policy, dialect: Dialect, shape: Shape, *, reach: float | None = None
) -> list[Figure]:
    pool = LocalPool()
    judge = ScenarioJudges(pool, [world.scenario for world in host_worlds(pool).values()])
    parts = RunParts(
        pool=pool,
        policy=policy,
        dialect=dialect,
        history=parse_history("last:3"),
        format=FormatSettings(),
        limits=Limits(),
        judge=judge,
    )
    live, logged, spent, lengths = [], [], [], []
    for run in range(shape.runs + 1):
        with tempfile.TemporaryDirectory() as path:
            folder = Path(path)
            cpu = _run_episodes(folder, parts, shape, seed=run)
            from_log = _cpu(partial(_from_log, folder), shape)
            from_run = _cpu(partial(_from_run, _records(folder)), shape)
        if run:  # the first run includes one-time preparation
            live.append(from_run.seconds / cpu)
            logged.append(from_log.seconds / cpu)
            spent.append(cpu / shape.num_steps * 1e6)
            lengths.append(from_run.num_row_tokens / shape.num_steps)
    pool.close()
    return [
        figure(f"feed / rollouts, tokens {name}, during the run", "", live, reach=reach),
        figure(f"feed / rollouts, tokens {name}, from the log", "", logged, reach=reach),
        figure(f"CPU per step of rollouts, tokens {name}", "µs", spent),
        figure(f"tokens per step, {name}", "", lengths),
    ]


def _chat_tokens(folder: Path) -> ChatTokenizer:
    """A tokenizer of 8,000 tokens, trained on the texts of the bundled worlds, with ChatML."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=8_000,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [text for scenario, task in tasks() for text in (scenario.rules, task.instruction)]
    texts += [path.read_text() for scenario, _ in tasks() for path in scenario.path.glob("*.py")]
    tokenizer.train_from_iterator(dict.fromkeys(texts), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(_CHATML)
    return ChatTokenizer.open(folder)


def _run_episodes(folder: Path, parts: RunParts, shape: Shape, *, seed: int) -> float:
    """Run the episodes, with their log in the folder; returns CPU seconds."""
    plans = plan_of(tasks(), episodes=shape.episodes, group_size=_MEMBERS, seed=seed)
    meters = Meters()
    run = partial(run_session, concurrency=shape.concurrency, meters=meters)
    anyio.run(partial(run, folder, list(plans), parts), backend_options={"use_uvloop": True})
    return meters.cpu_s


def _grouping() -> Grouping:
    return Grouping(DataSettings(keep_equal=True))  # the policy gets the same reward every time


def _records(folder: Path) -> list[Record]:
    with open_reader(folder) as reader:
        return [record for _, record in reader.records_after(0, 10_000_000)]


class _Packer:
    """Packs groups into batches as they arrive."""

    def __init__(self) -> None:
        self._waiting: list[Group] = []
        self.seconds = 0.0  # of CPU
        self.num_steps = 0
        self.num_row_tokens = 0

    def __call__(self, result: GroupResult) -> None:
        if isinstance(result, Group):
            self._waiting.append(result)
        if len(self._waiting) == _GROUPS:
            self.flush()

    def flush(self) -> None:
        """Pack the remaining groups."""
        batch = pack_batch(self._waiting)
        self.num_steps += batch.num_steps
        self.num_row_tokens += batch.num_row_tokens
        self._waiting.clear()


def _from_run(records: list[Record], pack: _Packer) -> None:
    feed = LiveFeed(_grouping(), pack, where="run")
    for record in records:
        feed.add(record)


def _from_log(folder: Path, pack: _Packer) -> None:
    for group in groups_of_logs([folder], _grouping()):
        pack(group)


def _cpu(work: Callable[[_Packer], None], shape: Shape) -> _Packer:
    """Measure the CPU of the work, and check that it packed every step."""
    pack = _Packer()
    start = time.process_time()
    work(pack)
    pack.flush()
    pack.seconds = time.process_time() - start
    if pack.num_steps != shape.num_steps:
        raise SystemExit(f"{pack.num_steps:,} steps were packed, not {shape.num_steps:,}")
    return pack


@benchmark(__doc__)
@count_option("--episodes", 1024, "Episodes of each run.")
@count_option("--concurrency", 1024, "Episodes live at once.")
@runs_option(3)
def main(episodes: int, concurrency: int, runs: int) -> list[Figure]:
    """The command line."""
    return [*token_figures(), *feed_figures(Shape(episodes, concurrency, runs))]


if __name__ == "__main__":
    main()
