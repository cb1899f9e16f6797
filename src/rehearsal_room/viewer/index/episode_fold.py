"""What the index knows of one episode: its row, folded from its records one by one."""

from typing import Any

import msgspec

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.core.mistakes import FailureKind
from rehearsal_room.harness.log.schema import NO_SCORE
from rehearsal_room.harness.outcomes.failure_kinds import kind_of_ending
from rehearsal_room.scenarios.checks import proved_wrong
from rehearsal_room.viewer.index.facts import (
    NO_USAGE,
    Ended,
    JudgedFact,
    ResultFact,
    Started,
    StepFact,
    SummaryFact,
    ToolCallFact,
    UsageFact,
    findings_of,
)
from rehearsal_room.viewer.index.moments import CALLS_S, POLICY_S, STEPS, WAITED_S, Moments
from rehearsal_room.viewer.index.name_sets import Names, NameSets
from rehearsal_room.viewer.index.tables import COLUMNS, MOMENTS_PER_SECOND, NAME_SETS

_encode = msgspec.json.encode
_FIRST_SET = min(list(COLUMNS).index(column) for column in NAME_SETS)
_NAMES = slice(_FIRST_SET, _FIRST_SET + len(NAME_SETS))  # the columns with sets of names


# What an episode shows that has no verdict yet.
_KIND_OF_ENDING = {str(ending): kind_of_ending(ending, None) for ending in Ending}


class EpisodeFold(msgspec.Struct, gc=False):
    """One attempt at an episode: the columns of its row, in their order, but with the sets of
    names themselves. `words` and `results` collect the text that is not in the index yet, and
    `failed_calls` the calls that failed since then, as tool and error.

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
    forked_from: str  # JSON; empty: it is not a fork
    started_at: float
    last_at: float
    ending: str | None = None
    error: str = ""
    seconds: float = 0.0
    judge: str | None = None
    label: str | None = None
    reward: float | None = None
    share: float = -1.0  # there is none
    unjudged: str = ""
    turns: int = 0
    calls: int = 0
    errors: int = 0
    first_error_turn: int = -1  # there is none
    policy_s: float = 0.0
    calls_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    requests: int = 0
    cost_usd: float = -1.0  # it is not known
    tags: Names = ()
    changed: Names = ()
    tools: Names = ()
    causes: Names = ()
    kinds: Names = ()
    weights: str = ""  # of the first reply; empty: not known
    num_texts: int = 0
    position: int = 0
    mistake_turn: int = -1  # of the first mistake; there is none
    is_diagnosed: int = 1  # 0: it is over, and its mistakes are to be found in its steps
    broken_guards: int = 0  # of the latest verdict
    words: list[str] = []
    results: list[str] = []  # words of tools
    failed_calls: list[tuple[str, str]] = []

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
            forked_from="" if forked is None else _encode(forked).decode(),
            started_at=at,
            last_at=at,
            tags=event.tags,
            words=[event.instruction, event.task],
        )

    @classmethod
    def of_row(cls, row: tuple[Any, ...], ids: NameSets) -> "EpisodeFold":
        """The episode of a stored row."""
        sets = [ids.by_id[number] for number in row[_NAMES]]
        return cls(*row[: _NAMES.start], *sets, *row[_NAMES.stop :])

    def row(self, ids: NameSets) -> tuple[Any, ...]:
        """The row to store."""
        values = msgspec.structs.astuple(self)
        sets = map(ids.__getitem__, values[_NAMES])
        return (*values[: _NAMES.start], *sets, *values[_NAMES.stop : len(COLUMNS)])

    def add_turns(self, steps: list[tuple[float, StepFact]], moments: Moments) -> None:
        """Add turns that follow each other, with their times. Nearly all of a log is turns, so sums
        are taken in variables: an attribute costs twice as much."""
        words, said, arguments, has_failed = self.words, self.results, [], False
        kept, turns, last_at, num_calls = self.kept, self.turns, self.last_at, self.calls
        policy_s, calls_s = self.policy_s, self.calls_s
        tools, changed, end_digest = self.tools, self.changed, self.end_digest
        for at, step in steps:
            reply, decision, user = step.reply, step.decision, step.user
            calls, results = decision.calls, step.results
            counts = moments[int(at * MOMENTS_PER_SECOND)]
            counts[STEPS] += 1
            if turns >= kept:  # the seconds of a resumed turn passed in another episode
                counts[POLICY_S] += step.policy_s
                counts[CALLS_S] += step.calls_s
                waited = at - last_at - step.policy_s - step.calls_s - step.user_s
                if waited > 0:
                    counts[WAITED_S] += waited
            if reply.text:
                words.append(reply.text)
            if decision.reason is not None:  # only a format error has one
                self._fail("format_error", turns)
                words.append(decision.reason)
            if user is not None:
                words.append(user.text)
                calls, results = calls + user.calls, results + user.results
            for call in calls:
                num_calls += 1
                if call.name not in tools:
                    tools += (call.name,)
                    words.append(call.name)
                arguments.append(call.arguments)
            for result in results:
                said.append(result.text)
                if result.digest:
                    end_digest = result.digest
                if result.error is not None:
                    self._fail(result.error, turns)
                    has_failed = True
                for change in result.changes:
                    if change.table not in changed:
                        changed += (change.table,)
            if has_failed:
                has_failed = False
                self._add_failed_calls(calls, results)
            if reply.usage is not NO_USAGE:
                self._add_usage(reply.usage)
            if reply.weights and not self.weights:
                self.weights = reply.weights
            last_at = at
            policy_s += step.policy_s
            calls_s += step.calls_s
            turns += 1
        if arguments:
            words.append(_encode(arguments).decode())
        self.turns, self.last_at, self.calls = turns, last_at, num_calls
        self.policy_s, self.calls_s = policy_s, calls_s
        self.tools, self.changed, self.end_digest = tools, changed, end_digest

    def add_summary(self, summary: SummaryFact) -> None:
        """Add a summary of earlier turns."""
        self.words.append(summary.reply.text)
        self._add_usage(summary.reply.usage)
        self.policy_s += summary.policy_s

    def end(self, ended: Ended, *, has_state: bool) -> None:
        """Add the end."""
        self.ending, self.error, self.seconds = ended.ending, ended.error or "", ended.seconds
        self.turns = ended.num_steps
        kind = _KIND_OF_ENDING.get(ended.ending, FailureKind.UNJUDGED)
        if kind is FailureKind.WORLD_FAILURE:  # a call may show it
            self.is_diagnosed = 0
        else:
            self.add_diagnosis((str(kind),), max(0, ended.num_steps - 1))
        if not has_state:
            self.end_digest = ""
        if ended.ending in ("policy_error", "model_refused", "agent_failed", "world_error"):
            self._fail(ended.ending, self.turns)
        if ended.answer not in self.words[-2:]:  # it is mostly the text of the last reply
            self.words.append(ended.answer)
        if ended.error:
            self.words.append(ended.error)

    def judge_by(self, judged: JudgedFact) -> None:
        """Add a verdict, which replaces the one before."""
        self.judge, self.label, self.reward = judged.judge, judged.label, judged.reward
        self.share = -1.0 if judged.share is None else judged.share
        self.unjudged = judged.unjudged or ""
        if self.unjudged == NO_SCORE:
            self.judge = None
        findings = () if judged.label == Label.COMPLETED else findings_of(judged.findings)
        if judged.diagnosis is None:
            self.kinds, self.mistake_turn, self.is_diagnosed = (), -1, 0
        else:
            mistakes = judged.diagnosis.mistakes
            kinds = dict.fromkeys([one.kind for one in mistakes])
            self.add_diagnosis(tuple(kinds), min([one.turn for one in mistakes], default=-1))
        self.broken_guards = sum(one.kind == "guard" for one in proved_wrong(findings))
        words = self.words
        words += (self.unjudged, judged.reasoning)
        for finding in findings:
            if not finding.passed:
                words += (finding.name, finding.expected, finding.found)
        for one in (*judged.judgements, *judged.asked):
            words += (one.fault, one.reasoning)
            self.requests += one.requests
            self.cost_usd = -1.0 if one.cost_usd is None else max(self.cost_usd, 0.0) + one.cost_usd

    def add_diagnosis(self, kinds: Names, turn: int) -> None:
        """Add the kinds of its mistakes, and the turn of the first one (-1: there is none)."""
        self.kinds, self.mistake_turn, self.is_diagnosed = kinds, turn, 1

    def take_texts(self) -> tuple[str, str]:
        """The text that is not in the index yet, and that of tools' results; both count as indexed
        from now on."""
        texts = _joined(self.words), _joined(self.results)
        self.words, self.results = [], []
        return texts

    def _add_usage(self, usage: UsageFact) -> None:
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += usage.cached_tokens
        self.completion_tokens += usage.completion_tokens

    def _add_failed_calls(
        self, calls: tuple[ToolCallFact, ...], results: tuple[ResultFact, ...]
    ) -> None:
        for call, result in zip(calls, results, strict=False):
            if result.error is not None:
                self.failed_calls.append((call.name, result.error))

    def _fail(self, cause: str, turn: int) -> None:
        self.errors += 1
        if self.first_error_turn < 0:
            self.first_error_turn = turn
        if cause not in self.causes:
            self.causes += (cause,)


def _joined(words: list[str]) -> str:
    text = "\n".join(filter(None, words))
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # without lone surrogates
    return text
