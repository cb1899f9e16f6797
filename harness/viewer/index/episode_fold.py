"""What the index knows of one episode: its row, folded from its records one by one."""

from typing import Any

import msgspec

from harness.core.events import Ending, Label
from harness.outcomes.failure_kinds import kinds_of_verdict
from harness.viewer.index.facts import (
    NO_USAGE,
    Call,
    Ended,
    Judged,
    Result,
    Started,
    Step,
    Summary,
    findings_of,
)
from harness.viewer.index.tables import COLUMNS, NAME_SETS

_encode = msgspec.json.encode
Names = tuple[str, ...]


class EpisodeFold:
    """One attempt at an episode. `words` collects the text that is not in the index yet."""

    __slots__ = (*COLUMNS, "words")

    number: int
    episode: str
    attempt: int
    scenario: str
    task: str
    grp: str
    member: int
    seed: int
    scenario_digest: str
    start_digest: str
    end_digest: str
    kept: int
    forked_from: str | None
    started_at: float
    last_at: float
    ending: str | None
    error: str | None
    seconds: float
    judge: str | None
    label: str | None
    reward: float | None
    unjudged: str | None
    turns: int
    calls: int
    errors: int
    first_error_turn: int | None
    policy_s: float
    calls_s: float
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    requests: int
    cost_usd: float | None
    tags: Names
    changed: Names
    tools: Names
    causes: Names
    kinds: Names
    weights: str  # of the first reply; empty: not known
    num_texts: int
    position: int
    words: list[str]

    def __init__(self) -> None:
        self.words: list[str] = []

    @classmethod
    def begin(
        cls, number: int, episode: str, attempt: int, at: float, event: Started
    ) -> "EpisodeFold":
        """The episode after its first record."""
        fold = cls()
        fold.number, fold.episode, fold.attempt = number, episode, attempt
        fold.scenario, fold.task = event.scenario, event.task
        fold.grp, fold.member, fold.seed = event.group, event.member, event.seed
        fold.scenario_digest = event.scenario_digest
        fold.start_digest = fold.end_digest = event.start_digest
        fold.kept = event.kept
        forked = event.forked_from
        fold.forked_from = None if forked is None else _encode(forked).decode()
        fold.started_at = fold.last_at = at
        fold.ending = fold.error = fold.judge = fold.label = fold.unjudged = None
        fold.reward = fold.first_error_turn = fold.cost_usd = None
        fold.seconds = fold.policy_s = fold.calls_s = 0.0
        fold.turns = fold.calls = fold.errors = fold.requests = 0
        fold.prompt_tokens = fold.cached_tokens = fold.completion_tokens = 0
        fold.tags = event.tags
        fold.changed = fold.tools = fold.causes = fold.kinds = ()
        fold.weights = ""
        fold.num_texts = fold.position = 0
        fold.words = [event.instruction, event.task]
        return fold

    @classmethod
    def of_row(cls, row: tuple[Any, ...], names: dict[int, Names]) -> "EpisodeFold":
        """The episode of a stored row; `names` are the sets of names by their ids."""
        fold = cls()
        for column, value in zip(COLUMNS, row, strict=True):
            setattr(fold, column, names[value] if column in NAME_SETS else value)
        return fold

    def row(self, id_of: Any) -> tuple[Any, ...]:
        """The row to store; `id_of` gives the id of a set of names."""
        return (
            self.number,
            self.episode,
            self.attempt,
            self.scenario,
            self.task,
            self.grp,
            self.member,
            self.seed,
            self.scenario_digest,
            self.start_digest,
            self.end_digest,
            self.kept,
            self.forked_from,
            self.started_at,
            self.last_at,
            self.ending,
            self.error,
            self.seconds,
            self.judge,
            self.label,
            self.reward,
            self.unjudged,
            self.turns,
            self.calls,
            self.errors,
            self.first_error_turn,
            self.policy_s,
            self.calls_s,
            self.prompt_tokens,
            self.cached_tokens,
            self.completion_tokens,
            self.requests,
            self.cost_usd,
            id_of(self.tags),
            id_of(self.changed),
            id_of(self.tools),
            id_of(self.causes),
            id_of(self.kinds),
            self.weights,
            self.num_texts,
            self.position,
        )

    def add_step(self, step: Step) -> None:
        """Add a turn."""
        reply, decision, user = step.reply, step.decision, step.user
        if reply.text:
            self.words.append(reply.text)
        if decision.type == "format_error":
            self._fail("format_error")
            self.words.append(decision.reason)
        if decision.calls or step.results:
            self._add_calls(decision.calls, step.results)
        if user is not None:
            self.words.append(user.text)
            self._add_calls(user.calls, user.results)
        if reply.usage is not NO_USAGE:
            self._add_usage(reply.usage)
        if reply.weights and not self.weights:
            self.weights = reply.weights
        self.policy_s += step.policy_s
        self.calls_s += step.calls_s
        self.turns += 1

    def add_summary(self, summary: Summary) -> None:
        """Add a summary of earlier turns."""
        self.words.append(summary.reply.text)
        self._add_usage(summary.reply.usage)
        self.policy_s += summary.policy_s

    def end(self, ended: Ended, *, has_state: bool) -> None:
        """Add the end."""
        self.ending, self.error, self.seconds = ended.ending, ended.error, ended.seconds
        self.turns = ended.num_steps
        if not has_state:
            self.end_digest = ""
        if ended.ending in ("policy_error", "world_error"):
            self._fail(ended.ending)
        self.words.append(ended.answer)
        if ended.error:
            self.words.append(ended.error)

    def judge_by(self, judged: Judged) -> None:
        """Add a verdict, which replaces the one before."""
        self.judge, self.label, self.reward = judged.judge, judged.label, judged.reward
        self.unjudged = judged.unjudged
        findings = () if judged.label == Label.COMPLETED else findings_of(judged.findings)
        if self.label != Label.COMPLETED and self.ending is not None:
            label = None if self.label is None else Label(self.label)
            self.kinds = kinds_of_verdict(Ending(self.ending), label, findings)
        else:
            self.kinds = ()
        words = self.words
        words += (judged.unjudged or "", judged.reasoning)
        for finding in findings:
            if not finding.passed:
                words += (finding.name, finding.expected, finding.found)
        for one in judged.judgements:
            words += (one.fault, one.reasoning)
            self.requests += one.requests
            self.cost_usd = None if one.cost_usd is None else (self.cost_usd or 0.0) + one.cost_usd

    def _add_calls(self, calls: tuple[Call, ...], results: tuple[Result, ...]) -> None:
        words = self.words
        for call in calls:
            name = call.name
            if name not in self.tools:
                self.tools += (name,)
            words += (name, _encode(call.arguments).decode())
        self.calls += len(calls)
        for result in results:
            words.append(result.text)
            if result.digest:
                self.end_digest = result.digest
            if result.error is not None:
                self._fail(result.error)
            for change in result.changes:
                if change.table not in self.changed:
                    self.changed += (change.table,)

    def _add_usage(self, usage: Any) -> None:
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += usage.cached_tokens
        self.completion_tokens += usage.completion_tokens

    def _fail(self, cause: str) -> None:
        self.errors += 1
        if self.first_error_turn is None:
            self.first_error_turn = self.turns
        if cause not in self.causes:
            self.causes += (cause,)
