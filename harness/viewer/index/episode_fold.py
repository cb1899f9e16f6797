"""What the index knows of one episode: its row, folded from its records one by one."""

from collections.abc import Callable
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
    Usage,
    findings_of,
)
from harness.viewer.index.moments import CALLS_S, POLICY_S, STEPS, WAITED_S, Moments
from harness.viewer.index.tables import COLUMNS, MOMENTS_PER_SECOND, NAME_SETS

_encode = msgspec.json.encode
Names = tuple[str, ...]
_FIRST_SET = min(list(COLUMNS).index(column) for column in NAME_SETS)
_NAMES = slice(_FIRST_SET, _FIRST_SET + len(NAME_SETS))  # the columns with sets of names


class EpisodeFold(msgspec.Struct, gc=False):
    """One attempt at an episode: the columns of its row, in their order, but with the sets of
    names themselves. `words` collects the text that is not in the index yet.

    A struct without garbage collection, since thousands are in memory and make no cycles.
    """

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
    ending: str | None = None
    error: str | None = None
    seconds: float = 0.0
    judge: str | None = None
    label: str | None = None
    reward: float | None = None
    unjudged: str | None = None
    turns: int = 0
    calls: int = 0
    errors: int = 0
    first_error_turn: int | None = None
    policy_s: float = 0.0
    calls_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    requests: int = 0
    cost_usd: float | None = None
    tags: Names = ()
    changed: Names = ()
    tools: Names = ()
    causes: Names = ()
    kinds: Names = ()
    weights: str = ""  # of the first reply; empty: not known
    num_texts: int = 0
    position: int = 0
    words: list[str] = []

    @classmethod
    def begin(
        cls, number: int, episode: str, attempt: int, at: float, event: Started
    ) -> "EpisodeFold":
        """The episode after its first record."""
        forked = event.forked_from
        return cls(
            number=number,
            episode=episode,
            attempt=attempt,
            scenario=event.scenario,
            task=event.task,
            grp=event.group,
            member=event.member,
            seed=event.seed,
            scenario_digest=event.scenario_digest,
            start_digest=event.start_digest,
            end_digest=event.start_digest,
            kept=event.kept,
            forked_from=None if forked is None else _encode(forked).decode(),
            started_at=at,
            last_at=at,
            tags=event.tags,
            words=[event.instruction, event.task],
        )

    @classmethod
    def of_row(cls, row: tuple[Any, ...], names: dict[int, Names]) -> "EpisodeFold":
        """The episode of a stored row; `names` are the sets of names by their ids."""
        sets = [names[number] for number in row[_NAMES]]
        return cls(*row[: _NAMES.start], *sets, *row[_NAMES.stop :])

    def row(self, id_of: Callable[[Names], int]) -> tuple[Any, ...]:
        """The row to store; `id_of` gives the id of a set of names."""
        values = msgspec.structs.astuple(self)
        return (*values[: _NAMES.start], *map(id_of, values[_NAMES]), *values[_NAMES.stop : -1])

    def add_turns(self, steps: list[tuple[float, Step]], moments: Moments) -> None:
        """Add turns that follow each other, with their times. Nearly all of a log is turns, so sums
        are taken in variables: an attribute costs twice as much."""
        words, kept, turns = self.words, self.kept, self.turns
        last_at, policy_s, calls_s = self.last_at, self.policy_s, self.calls_s
        for at, step in steps:
            reply, decision, user = step.reply, step.decision, step.user
            counts = moments[int(at * MOMENTS_PER_SECOND)]
            counts[STEPS] += 1
            if turns >= kept:  # the seconds of a kept turn passed in another episode
                counts[POLICY_S] += step.policy_s
                counts[CALLS_S] += step.calls_s
                waited = at - last_at - step.policy_s - step.calls_s - step.user_s
                if waited > 0:
                    counts[WAITED_S] += waited
            if reply.text:
                words.append(reply.text)
            if decision.type == "format_error":
                self._fail("format_error", turns)
                words.append(decision.reason)
            elif decision.calls:
                self._add_calls(decision.calls)
            if step.results:
                self._add_results(step.results, turns)
            if user is not None:
                words.append(user.text)
                self._add_calls(user.calls)
                self._add_results(user.results, turns)
            if reply.usage is not NO_USAGE:
                self._add_usage(reply.usage)
            if reply.weights and not self.weights:
                self.weights = reply.weights
            last_at = at
            policy_s += step.policy_s
            calls_s += step.calls_s
            turns += 1
        self.last_at, self.policy_s, self.calls_s = last_at, policy_s, calls_s
        self.turns = turns

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
            self._fail(ended.ending, self.turns)
        if ended.answer not in self.words[-1:]:  # it is mostly the text of the last reply
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

    def take_text(self) -> str:
        """The text that is not in the index yet; it counts as indexed from now on."""
        text = "\n".join(filter(None, self.words))
        self.words = []
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()  # without lone surrogates
        return text

    def _add_calls(self, calls: tuple[Call, ...]) -> None:
        self.calls += len(calls)
        words = self.words
        for call in calls:
            name = call.name
            if name not in self.tools:
                self.tools += (name,)
                words.append(name)
            if call.arguments:
                words.append(_encode(call.arguments).decode())

    def _add_results(self, results: tuple[Result, ...], turn: int) -> None:
        for result in results:
            self.words.append(result.text)
            if result.digest:
                self.end_digest = result.digest
            if result.error is not None:
                self._fail(result.error, turn)
            for change in result.changes:
                if change.table not in self.changed:
                    self.changed += (change.table,)

    def _add_usage(self, usage: Usage) -> None:
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += usage.cached_tokens
        self.completion_tokens += usage.completion_tokens

    def _fail(self, cause: str, turn: int) -> None:
        self.errors += 1
        if self.first_error_turn is None:
            self.first_error_turn = turn
        if cause not in self.causes:
            self.causes += (cause,)
