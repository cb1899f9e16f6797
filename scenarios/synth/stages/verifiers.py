"""The stage that proves a task: the author writes a verifier, and a solver must satisfy it.

A verifier is valid when
- it runs on the unchanged world and does not accept it (otherwise the task is already done),
- it accepts what a solver did, and returns the same result a second time,
- this solution changed rows if the task is a change, and none otherwise,
- it accepts neither the solution's answer without the calls, nor the solution's mutants; those of a
  decline also do a part of the request, or it for another record, or refuse for another rule.

An invalid verifier goes back to the author with the evidence; the author may fix the verifier or
rewrite the task. The evidence has the solver's calls and not its answer: an author who reads that
asks for details that a solver volunteered. The accepted solution becomes the task's oracle, without
refused calls. Its answer stays whole; only where it is an answer that mutants alter, and a mutant
survives in a sentence that the verifier does not need, the answer loses such sentences. Mutants
alter only values of the answer that the verifier names, where it names some.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Call, difficulty_of
from rehearsal_room.scenarios.synth.core.answer_parsing import UnreadableAnswer, code_of, json_of
from rehearsal_room.scenarios.synth.core.attempts import CheckedAnswer, request_seed
from rehearsal_room.scenarios.synth.core.code_rules import literals_of, verifier_faults
from rehearsal_room.scenarios.synth.core.package_files import package_texts, unproven, write_package
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.protocols import (
    DraftHost,
    HostedDraft,
    JudgedRun,
    MutantResult,
    Temptation,
    Unhostable,
)
from rehearsal_room.scenarios.synth.core.signatures import described
from rehearsal_room.scenarios.synth.core.world_drafts import (
    ProvenTask,
    TaskDraft,
    TaskPlan,
    WorldDraft,
)
from rehearsal_room.scenarios.synth.stages.common import DraftStage, Sizes, call_line

MIN_CAUGHT = 0.98  # share of the mutants, as in the gate
_SHOWN_CALLS = 30
_QUOTED = 40  # characters of an answer by which a finding that quotes it is known
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class _Rewrite(msgspec.Struct):
    instruction: str


class ProvingStage(DraftStage):
    """Proving one task of a world whose tools are written."""

    name = "verify"

    def __init__(
        self,
        draft: WorldDraft,
        prompts: Prompts,
        sizes: Sizes,
        host: DraftHost,
        folder: Path,
        task: TaskDraft,
        *,
        seed: int,
    ) -> None:
        super().__init__(draft, prompts, sizes, host, folder)
        self._task = task
        self._seed = seed
        self._solutions: list[JudgedRun] = []  # of solvers, for the task in its present wording
        self._num_solved = 0

    def _fields(self) -> Mapping[str, object]:
        return {
            **super()._fields(),
            "code": described(self._draft.code, self._draft.tools).strip(),
            "task": self._task.id,
            "kind": self._task.kind,
            "instruction": self._task.instruction,
            "function": self._task.function,
        }

    async def check(self, text: str) -> CheckedAnswer[ProvenTask]:
        """Check a verifier, and with it the task."""
        self._apply_rewrite(text)
        try:
            source = code_of(text)
        except UnreadableAnswer as exc:
            return CheckedAnswer(None, (str(exc),))
        if faults := verifier_faults(source, self._task.function):
            return CheckedAnswer(None, tuple(faults))
        draft = msgspec.structs.replace(self._draft, proven=(unproven(self._task, source),))
        try:
            async with self._host.host(write_package(self._folder, package_texts(draft))) as hosted:
                return await self._prove_verifier(hosted, source)
        except Unhostable as exc:
            return CheckedAnswer(None, (exc.reason,))

    def _apply_rewrite(self, text: str) -> None:
        """Use the instruction in the answer, if there is one."""
        try:
            instruction = " ".join(json_of(text, _Rewrite).instruction.split())
        except UnreadableAnswer:
            return
        if instruction and instruction != self._task.instruction:
            self._task = msgspec.structs.replace(self._task, instruction=instruction)
            self._solutions.clear()

    async def _prove_verifier(self, hosted: HostedDraft, source: str) -> CheckedAnswer[ProvenTask]:
        unchanged = await hosted.run(self._task.id, (), "")
        if unchanged.fault:
            return CheckedAnswer(None, (f"on the untouched world: {unchanged.fault}",))
        if unchanged.completed:
            return CheckedAnswer(
                None,
                (
                    "the untouched world with an empty answer is accepted: either the task is done "
                    "before anybody has moved, or the verifier asks for too little",
                ),
            )
        solution, faults = await self._solution(hosted)
        if solution is None:
            return CheckedAnswer(None, faults)
        faults = await self._flaws(hosted, solution)
        if faults:
            return CheckedAnswer(None, faults)
        return await self._judge_by_mutants(hosted, source, solution)

    async def _solution(self, hosted: HostedDraft) -> tuple[JudgedRun | None, tuple[str, ...]]:
        """An accepted run, an earlier or a new one; otherwise None and the evidence."""
        for earlier in self._solutions:
            again = await hosted.run(self._task.id, earlier.calls, earlier.answer)
            if again.completed:
                return await _without_refused_calls(hosted, self._task.id, again), ()
        self._num_solved += 1
        drawn = request_seed(self._seed, self._idea.key, self._task.id, self._num_solved)
        found = await hosted.solve(self._task.id, seed=drawn)
        if not found.unfinished:
            self._solutions.append(found)
        if not found.completed:
            return None, (_evidence(found),)
        return await _without_refused_calls(hosted, self._task.id, found), ()

    async def _flaws(self, hosted: HostedDraft, solution: JudgedRun) -> tuple[str, ...]:
        """The faults of an accepted solution, or of the verifier that accepts it."""
        again = await hosted.run(self._task.id, solution.calls, solution.answer)
        if (again.digest, again.findings) != (solution.digest, solution.findings):
            return ("the same calls end otherwise, or are judged otherwise, when made again",)
        kind = self._task.kind
        if kind == "change" and not solution.changes:
            return (
                "nothing was changed and it is accepted, though it is a change\n"
                + _transcript(solution),
            )
        if kind != "change" and solution.changes:
            tables = ", ".join(sorted({change.table for change in solution.changes}))
            return (f"rows of {tables} were changed and it is accepted, though it is a {kind}",)
        if kind == "change":
            answer_only = await hosted.run(self._task.id, (), solution.answer)
            if answer_only.completed:
                return ("saying that it is done, without a call, is accepted",)
        return ()

    async def _judge_by_mutants(
        self, hosted: HostedDraft, source: str, solution: JudgedRun
    ) -> CheckedAnswer[ProvenTask]:
        temptation = _temptation(self._draft.plan, self._task)
        named = literals_of(source)
        tried = await hosted.try_mutants(self._task.id, solution, temptation, named=named)
        if self._task.kind != "change" and not _is_enough(tried):
            shorter = await _shorten(hosted, self._task.id, solution)
            if shorter is not solution:
                solution = shorter
                tried = await hosted.try_mutants(self._task.id, shorter, temptation, named=named)
        if tried.faults:
            return CheckedAnswer(None, tried.faults)
        if not _is_enough(tried):
            left = tried.mutants - tried.caught
            head = f"{left} of {tried.mutants} mistaken solutions are accepted"
            return CheckedAnswer(None, (head, *tried.survivors))
        tables = {change.table for change in solution.changes}
        proven = ProvenTask(
            task=self._task,
            verifier=source,
            oracle=solution.calls,
            answer=solution.answer,
            difficulty=difficulty_of(len(solution.results) + len(tables)),
            mutants=tried.mutants,
            caught=tried.caught,
        )
        return CheckedAnswer(proven)


def _temptation(plan: TaskPlan, task: TaskDraft) -> Temptation | None:
    """What a decline invites; None for other tasks."""
    if task.kind != "decline":
        return None
    texts = [rule.text for rule in plan.rules]
    if not 0 < task.rule <= len(texts):
        return Temptation(task.functions)
    right = texts.pop(task.rule - 1)
    return Temptation(task.functions, right, tuple(texts))


def _is_enough(tried: MutantResult) -> bool:
    return not tried.faults and tried.caught >= MIN_CAUGHT * tried.mutants


async def _without_refused_calls(
    hosted: HostedDraft, task_id: str, solution: JudgedRun
) -> JudgedRun:
    """The solution without refused calls, if it is as good."""
    calls = tuple(result.call for result in solution.results if result.error is None)
    return await _run_if_as_good(hosted, task_id, calls, solution.answer, solution)


async def _shorten(hosted: HostedDraft, task_id: str, solution: JudgedRun) -> JudgedRun:
    """The solution without the sentences that its answer does not need."""
    best = solution
    sentences = [part for part in _SENTENCE.split(best.answer) if part.strip()]
    for sentence in list(sentences):
        fewer = [part for part in sentences if part is not sentence]
        if fewer:
            shorter = await _run_if_as_good(hosted, task_id, best.calls, " ".join(fewer), best)
            if shorter is not best:
                best, sentences = shorter, fewer
    return best


async def _run_if_as_good(
    hosted: HostedDraft, task_id: str, calls: Sequence[Call], answer: str, otherwise: JudgedRun
) -> JudgedRun:
    """The run of these calls and answer if it is as good as `otherwise`, else `otherwise`."""
    if tuple(calls) == otherwise.calls and answer == otherwise.answer:
        return otherwise
    found = await hosted.run(task_id, calls, answer)
    return found if found.completed and found.digest == otherwise.digest else otherwise


def _evidence(run: JudgedRun) -> str:
    """A solver's run that was not accepted, for the author, who decides what was wrong."""
    if run.unfinished:
        return f"a solver did not get through: {run.unfinished}\n{_transcript(run)}"
    if run.fault:
        return f"after a solver's calls the verifier fails: {run.fault}\n{_transcript(run)}"
    missed = [
        f"{finding.name}: expected {finding.expected}, found {_found(finding, run.answer)}"
        for finding in run.findings
        if not finding.passed
    ]
    return (
        "a solver tried, and the verifier does not accept it. Who is wrong? Failed findings: "
        + "; ".join(missed)
        + f"\n{_transcript(run)}"
    )


def _found(finding: Finding, answer: str) -> str:
    """What a finding found, without the solver's answer."""
    said, found = " ".join(answer.split()), " ".join(finding.found.split())
    shown = found.removesuffix("…").strip(" '\"")
    return "another answer" if shown and (shown in said or said[:_QUOTED] in found) else found


def _transcript(run: JudgedRun) -> str:
    calls = [call_line(result) for result in run.results[:_SHOWN_CALLS]]
    if len(run.results) > _SHOWN_CALLS:
        calls.append(f"… and {len(run.results) - _SHOWN_CALLS} more calls")
    return "\n".join([*calls, "an answer" if run.answer.strip() else "no answer"])
