"""The facts of one episode, assembled from its records."""

from collections.abc import Iterable

import msgspec

from rehearsal_room.harness.core.events import (
    AGENT,
    AgentOutput,
    AgentSpans,
    EpisodeEnded,
    EpisodeStarted,
    HistorySummarized,
    Judged,
    ModelAsked,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.token_bytes import ID_BYTES


class Trajectory(msgspec.Struct, frozen=True):
    """One attempt at an episode. `ended` is None while it is live, and when a crash cut it off."""

    episode: str
    attempt: int
    started: EpisodeStarted
    steps: tuple[StepTaken, ...]
    ended: EpisodeEnded | None
    judged: tuple[Judged, ...] = ()  # the latest verdict of each judge, the newest last
    summaries: tuple[HistorySummarized, ...] = ()
    asked: tuple[ModelAsked, ...] = ()  # what an agent of the user's own asked its model
    output: AgentOutput | None = None  # what it wrote; None: it is not known
    spans: AgentSpans | None = None  # that it sent; None: it sent none

    @property
    def asks_model(self) -> bool:
        """Whether an agent of the user's own played that has a model at its URL: what the model
        replied is in `asked`, and the steps are the agent's."""
        policy = self.started.policy
        return policy.startswith(AGENT) and "+" in policy

    @property
    def first_own_turn(self) -> int:
        """The first turn (from 0) that the agent played in this episode. Earlier turns are those of
        the episode from which it was forked, were written by hand for the fork, or were given by
        the task: context, which is not trained."""
        forked, edit = self.started.forked_from, self.started.edit
        kept = 0 if forked is None else forked.turn
        return max(self.started.given, kept + (0 if edit is None else edit.turns))

    @property
    def num_context(self) -> int:
        """How many of `replies()` come before `first_own_turn`."""
        first = self.first_own_turn
        return min(first, len(self.steps)) + sum(one.turn < first for one in self.summaries)

    def replies(self) -> list[StepTaken | HistorySummarized]:
        """The facts with a reply of the agent, in order: steps and summaries."""
        summaries = {summary.turn: summary for summary in self.summaries}
        replies: list[StepTaken | HistorySummarized] = []
        for turn, step in enumerate(self.steps):
            if turn in summaries:
                replies.append(summaries.pop(turn))
            replies.append(step)
        return [*replies, *summaries.values()]

    def prompts(self) -> list[bytes]:
        """The exact prompt tokens of each of `replies()` (see harness.core.token_bytes);
        empty bytes where the policy reported none."""
        replies = [event.reply for event in self.replies()]
        first = replies[0].prompt_ids if replies else b""
        return [first[: reply.prompt_shared * ID_BYTES] + reply.prompt_ids for reply in replies]


class Assembly:
    """Collects the records of one attempt at an episode, in order.

    Raises ValueError when the first record is not an EpisodeStarted.
    """

    __slots__ = (
        *("asked", "attempt", "ended", "episode", "judged", "output", "spans", "started"),
        *("steps", "summaries"),
    )

    def __init__(self, first: Record) -> None:
        if not isinstance(first.event, EpisodeStarted):
            raise ValueError(f"episode {first.episode} does not begin with its start")
        self.episode = first.episode
        self.attempt = first.attempt
        self.started = first.event
        self.steps: list[StepTaken] = []
        self.ended: EpisodeEnded | None = None
        self.judged: dict[str, Judged] = {}
        self.summaries: list[HistorySummarized] = []
        self.asked: list[ModelAsked] = []
        self.output: AgentOutput | None = None
        self.spans: AgentSpans | None = None

    def add(self, record: Record) -> None:
        """Add the attempt's next record."""
        event = record.event
        if isinstance(event, StepTaken):
            self.steps.append(event)
        elif isinstance(event, EpisodeEnded):
            self.ended = event
        elif isinstance(event, Judged):
            self.judged.pop(event.judge, None)
            self.judged[event.judge] = event
        elif isinstance(event, HistorySummarized):
            self.summaries.append(event)
        elif isinstance(event, ModelAsked):
            self.asked.append(event)
        elif isinstance(event, AgentOutput):
            self.output = event
        elif isinstance(event, AgentSpans):
            self.spans = event

    def trajectory(self) -> Trajectory:
        """The trajectory of the records added so far."""
        return Trajectory(
            self.episode,
            self.attempt,
            self.started,
            tuple(self.steps),
            self.ended,
            tuple(self.judged.values()),
            tuple(self.summaries),
            tuple(self.asked),
            self.output,
            self.spans,
        )


def assemble(records: Iterable[Record]) -> Trajectory:
    """The trajectory of one attempt's records, given in order.

    Raises ValueError when there is no record, or the first is not an EpisodeStarted.
    """
    assembly: Assembly | None = None
    for record in records:
        if assembly is None:
            assembly = Assembly(record)
        else:
            assembly.add(record)
    if assembly is None:
        raise ValueError("an episode without a record")
    return assembly.trajectory()
