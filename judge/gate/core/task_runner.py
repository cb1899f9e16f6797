"""The gate's attempts at tasks, with the settings and the log that all of its checks share."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.policies.mutants import Mutant
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.gate.core.report import (
    GateFailure,
    MutantNote,
    TaskSoundness,
    WorldGateReport,
)
from rehearsal_room.judge.playback.attempts import (
    MAX_MUTANTS,
    is_equivalent,
    only_server_values_differ,
    why_equivalent,
)
from rehearsal_room.judge.playback.playback import Played, difference, format_call, play
from rehearsal_room.scenarios.checks import failed
from rehearsal_room.scenarios.format import Call, Task, Utterance
from rehearsal_room.scenarios.near_misses import NearMiss

PROBES = 40  # random calls a tool


class GateSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many mutants and probes the gate tries."""

    seed: int = 0
    max_mutants: int = MAX_MUTANTS
    probes: int = PROBES


DEFAULT_SETTINGS = GateSettings()


class GateLog:
    """What was found in one world so far."""

    def __init__(self, world: str) -> None:
        self.world = world
        self.failures: dict[GateFailure, None] = {}  # in order, without repetition
        self.succeeded: set[str] = set()  # tools
        self.wrote: set[str] = set()  # tools that changed rows
        self.broken: dict[str, tuple[Call, ToolResult]] = {}  # tool -> the first call that broke it
        self.probes = 0
        self.mutants = self.caught = self.left_out = 0
        self.near_misses = 0
        self.tried: Counter[tuple[str, str]] = Counter()  # task, kind -> mutants
        self.survivors: list[MutantNote] = []
        # Survivors that change a value that the instruction names.
        self.named: set[MutantNote] = set()
        self.equivalents: list[MutantNote] = []
        self.soundness: list[TaskSoundness] = []
        self.rejected: list[MutantNote] = []  # right answers that are not completed
        self.purposes: Counter[int] = (
            Counter()
        )  # requests that do not depend on each other -> tasks

    def fail(self, check: str, why: str, task: Task | None = None) -> None:
        """Record a defect of a task, or of the world."""
        self.failures[GateFailure(self.world, task.id if task else "", check, why)] = None

    def fail_all(self, check: str, why: str, tasks: Sequence[Task]) -> None:
        """Record one defect that several tasks share."""
        first, *others = (task.id for task in tasks)
        self.failures[GateFailure(self.world, first, check, why, tuple(others))] = None

    def record_call(self, call: Call, result: ToolResult) -> None:
        """Record the result of a call that fits its tool's schema."""
        if result.error is None:
            self.succeeded.add(call.name)
            if result.changes:
                self.wrote.add(call.name)
        elif result.error in ("internal", "timeout"):
            self.broken.setdefault(call.name, (call, result))

    def report(self, *, tasks: int, tools: Sequence[str], unused: Sequence[str]) -> WorldGateReport:
        """The report. `unused` are the tools that no oracle calls."""
        return WorldGateReport(
            worlds=1,
            tasks=tasks,
            tools=len(tools),
            failures=tuple(self.failures),
            mutants=self.mutants,
            mutants_caught=self.caught,
            mutants_left_out=self.left_out,
            probes=self.probes,
            names=(self.world,),
            unreached=tuple(f"{self.world}.{tool}" for tool in tools if tool not in self.succeeded),
            unused=tuple(f"{self.world}.{tool}" for tool in unused),
            survivors=tuple(self.survivors),
            equivalents=tuple(self.equivalents),
            equivalent=len(self.equivalents),
            many_purposes=sum(count for number, count in self.purposes.items() if number > 2),
            near_misses=self.near_misses,
            soundness=tuple(self.soundness),
            rejected=tuple(self.rejected),
        )


class TaskRunner:
    """Plays attempts at the tasks of one world, and judges them."""

    def __init__(self, world: BlockingWorld, judge: CodeJudge, log: GateLog) -> None:
        self.world = world
        self.judge = judge
        self.log = log

    def play(
        self,
        task: Task,
        calls: Sequence[Call],
        answer: str,
        utterances: Sequence[Utterance] | None = None,
        *,
        oracle: Played | None = None,
    ) -> Played:
        """The calls on a fresh lease, then the answer; `utterances` are said to the user of a
        dialogue (None: the task's own). The first calls are not made again where they are those of
        `oracle`. All results are recorded."""
        return self._recorded(play(self.world, task, calls, answer, utterances, known=oracle))

    def play_oracle(self, task: Task) -> Played:
        """The task's oracle, with the world before each call, from which mutants go on."""
        return self._recorded(play(self.world, task, task.oracle, task.answer, keep=True))

    def _recorded(self, played: Played) -> Played:
        for call, result in zip(played.calls, played.results, strict=True):
            self.log.record_call(call, result)
        return played

    def verdict(self, task: Task, played: Played, after: str) -> Judged:
        """The code judge's verdict. Where it has no label, that is recorded as the verifier's
        defect."""
        judged = self.judge.verdict_at_once(played.trajectory)
        if judged.label is None:
            self.log.fail("verifier", f"after {after}: {judged.unjudged}", task)
        return judged

    def try_mutant(self, task: Task, oracle: Played, mutant: Mutant) -> None:
        """Play one mistake, and record whether the verifier noticed it."""
        log = self.log
        played = self.play(task, mutant.calls, mutant.answer, mutant.utterances, oracle=oracle)
        judged = self.verdict(task, played, f"a mutant ({mutant.note})")
        # With a threshold below 1 a task is completed without a part of it: the share shows that.
        label = judged.label if (judged.share or 1.0) == 1.0 else None
        if is_equivalent(played, oracle):
            why = why_equivalent(played, oracle)
            note = MutantNote(log.world, task.id, mutant.kind, mutant.note, why)
            log.equivalents.append(note)
            return
        if label is Label.COMPLETED and only_server_values_differ(
            played, oracle, self.world.scenario
        ):
            why = f"only the server's own times and keys differ: {difference(played, oracle)}"
            note = MutantNote(log.world, task.id, mutant.kind, mutant.note, why)
            log.equivalents.append(note)
            return
        log.mutants += 1
        log.tried[task.id, mutant.kind] += 1
        if label is Label.COMPLETED:
            why = difference(played, oracle)
            note = MutantNote(log.world, task.id, mutant.kind, mutant.note, why)
            log.survivors.append(note)
            if mutant.kind == "changed" and changes_what_is_named(task, mutant):
                log.named.add(note)
        else:
            log.caught += 1

    def try_near_miss(self, miss: NearMiss) -> None:
        """Play one wrong turn, and record a fault where it gets another label than its author
        expects. A call that a tool refuses is part of the wrong turn; one that fits no tool is a
        mistake of the file."""
        task = self.world.scenario.task(miss.task)
        played = self.play(task, miss.calls, miss.answer)
        self.log.near_misses += 1
        for call, result in zip(played.calls, played.results, strict=True):
            if result.error in ("unknown_tool", "arguments"):
                why = f"{format_call(call)} fails ({result.error}): {result.text}"
                self.log.fail("near_miss", f"{miss.why}: {why}", task)
                return
        judged = self.verdict(task, played, f"a near miss ({miss.why})")
        if judged.label is not None and judged.label != miss.label:
            missed = "; ".join(finding.name for finding in failed(judged.findings)) or "none"
            why = f"expected {miss.label}, got {judged.label}; failed findings: {missed}"
            self.log.fail("near_miss", f"{miss.why}: {why}", task)


def changes_what_is_named(task: Task, mutant: Mutant) -> bool:
    """Whether a mutant replaces a value of the oracle (a number or a word) that the instruction
    names: then the agent had no choice."""
    changed = [
        value
        for one, other in zip(task.oracle, mutant.calls, strict=True)
        for name, value in one.arguments.items()
        if other.arguments.get(name) != value
    ]
    text = task.instruction.casefold()
    return any(
        re.search(rf"(?<![\w.-]){re.escape(form)}(?![\w-])", text) for form in _forms(changed)
    )


def _forms(values: list[Any]) -> Iterator[str]:
    """How an instruction may write values: "fraud_check" also as "fraud check"."""
    for value in values:
        if isinstance(value, int | str) and not isinstance(value, bool) and value != "":
            yield str(value).casefold()
            yield str(value).casefold().replace("_", " ")
