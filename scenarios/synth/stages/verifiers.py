"""The stage that proves a task: a verifier is written, and a solver has to satisfy it.

A verifier holds when
- it runs on the untouched world and does not accept it (else the task is done already),
- it accepts what a solver did, and says the same when it is asked again,
- that solution changed rows if the task is a change, and none if it is not,
- it accepts neither the solution's answer without its calls, nor its mutants.

Whatever does not hold goes back to the author with the evidence, who may mend the verifier or
rewrite the task. The accepted solution, without calls that were refused and without what its answer
need not say, is the task's oracle.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from scenarios.difficulty import difficulty_of
from scenarios.format import Call
from scenarios.synth.core.answer_parsing import Unread, code_of, json_of
from scenarios.synth.core.attempts import Checked, seed_of
from scenarios.synth.core.code_rules import verifier_faults
from scenarios.synth.core.package_files import texts_of, untried, write
from scenarios.synth.core.prompt_files import Prompts
from scenarios.synth.core.protocols import Bench, Hosted, Made, Play, Unhostable
from scenarios.synth.core.world_drafts import Draft, Proven, TaskDraft
from scenarios.synth.stages.common import DraftStage, Sizes, tools_json

MIN_CAUGHT = 0.98  # of the mutants, as in the gate
_SHOWN_RESULT = 500  # characters of one result in the evidence
_SHOWN_CALLS = 30
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class _Rewrite(msgspec.Struct):
    instruction: str


class ProvingStage(DraftStage):
    """One task of a world whose tools are written."""

    name = "verify"

    def __init__(
        self,
        draft: Draft,
        task: TaskDraft,
        prompts: Prompts,
        sizes: Sizes,
        bench: Bench,
        folder: Path,
        *,
        seed: int,
    ) -> None:
        super().__init__(draft, prompts, sizes, bench, folder)
        self._task = task
        self._seed = seed
        self._solutions: list[Play] = []  # what solvers did for the task as it is worded now
        self._num_solved = 0

    def _fields(self) -> Mapping[str, object]:
        return {
            **super()._fields(),
            "data": "\n".join(f"{statement};" for statement in self._draft.data),
            "tools": tools_json(self._draft.tools),
            "task": self._task.id,
            "kind": self._task.kind,
            "instruction": self._task.instruction,
            "function": self._task.function,
        }

    async def check(self, text: str) -> Checked[Proven]:
        """Try a verifier, and with it the task."""
        self._take_rewrite(text)
        try:
            source = code_of(text)
        except Unread as exc:
            return Checked(None, (str(exc),))
        if faults := verifier_faults(source, self._task.function):
            return Checked(None, tuple(faults))
        draft = msgspec.structs.replace(self._draft, proven=(untried(self._task, source),))
        try:
            async with self._bench.host(write(self._folder, texts_of(draft))) as hosted:
                return await self._proved(hosted, source)
        except Unhostable as exc:
            return Checked(None, (exc.reason,))

    def _take_rewrite(self, text: str) -> None:
        """Word the task anew where the answer does."""
        try:
            instruction = " ".join(json_of(text, _Rewrite).instruction.split())
        except Unread:
            return
        if instruction and instruction != self._task.instruction:
            self._task = msgspec.structs.replace(self._task, instruction=instruction)
            self._solutions.clear()

    async def _proved(self, hosted: Hosted, source: str) -> Checked[Proven]:
        idle = await hosted.play(self._task.id, (), "")
        if idle.fault:
            return Checked(None, (f"on the untouched world: {idle.fault}",))
        if idle.completed:
            return Checked(
                None,
                (
                    "the untouched world with an empty answer is accepted: either the task is done "
                    "before anybody has moved, or the verifier asks for too little",
                ),
            )
        solution, faults = await self._solution(hosted)
        if solution is None:
            return Checked(None, faults)
        faults = await self._flaws(hosted, solution)
        if faults:
            return Checked(None, faults)
        return await self._tried_mutants(hosted, source, solution)

    async def _solution(self, hosted: Hosted) -> tuple[Play | None, tuple[str, ...]]:
        """A play that is accepted, an earlier one or a new one; None with the evidence."""
        for earlier in self._solutions:
            again = await hosted.play(self._task.id, earlier.calls, earlier.answer)
            if again.completed:
                return await _trimmed(hosted, self._task.id, again), ()
        self._num_solved += 1
        drawn = seed_of(self._seed, self._idea.key, self._task.id, self._num_solved)
        found = await hosted.solve(self._task.id, seed=drawn)
        if not found.unfinished:
            self._solutions.append(found)
        if not found.completed:
            return None, (_evidence(found),)
        return await _trimmed(hosted, self._task.id, found), ()

    async def _flaws(self, hosted: Hosted, solution: Play) -> tuple[str, ...]:
        """What speaks against an accepted solution, or against the verifier that accepts it."""
        again = await hosted.play(self._task.id, solution.calls, solution.answer)
        if (again.digest, again.findings) != (solution.digest, solution.findings):
            return ("the same calls end otherwise, or are judged otherwise, when made again",)
        kind = self._task.kind
        if kind == "change" and not solution.changes:
            return (
                f"nothing was changed and it is accepted, though it is a change\n{_told(solution)}",
            )
        if kind != "change" and solution.changes:
            tables = ", ".join(sorted({change.table for change in solution.changes}))
            return (f"rows of {tables} were changed and it is accepted, though it is a {kind}",)
        if kind == "change":
            boast = await hosted.play(self._task.id, (), solution.answer)
            if boast.completed:
                return ("saying that it is done, without a call, is accepted",)
        return ()

    async def _tried_mutants(self, hosted: Hosted, source: str, solution: Play) -> Checked[Proven]:
        trial = await hosted.try_mutants(self._task.id, solution)
        tables = {change.table for change in solution.changes}
        proven = Proven(
            task=self._task,
            verifier=source,
            oracle=solution.calls,
            answer=solution.answer,
            difficulty=difficulty_of(len(solution.made) + len(tables)),
            mutants=trial.mutants,
            caught=trial.caught,
        )
        if trial.faults:
            return Checked(None, trial.faults)
        if trial.caught >= MIN_CAUGHT * trial.mutants:
            return Checked(proven)
        head = f"{trial.mutants - trial.caught} of {trial.mutants} mistaken solutions are accepted"
        return Checked(None, (head, *trial.survivors))


async def _trimmed(hosted: Hosted, task_id: str, solution: Play) -> Play:
    """The solution without refused calls and without sentences that its answer need not have, as
    long as it stays accepted and ends in the same state."""
    calls = tuple(made.call for made in solution.made if made.error is None)
    best = await _kept(hosted, task_id, calls, solution.answer, solution)
    sentences = [part for part in _SENTENCE.split(best.answer) if part.strip()]
    for sentence in list(sentences):
        fewer = [part for part in sentences if part is not sentence]
        if fewer:
            shorter = await _kept(hosted, task_id, best.calls, " ".join(fewer), best)
            if shorter is not best:
                best, sentences = shorter, fewer
    return best


async def _kept(
    hosted: Hosted, task_id: str, calls: Sequence[Call], answer: str, otherwise: Play
) -> Play:
    """The play of these calls and answer, if it is as good."""
    if tuple(calls) == otherwise.calls and answer == otherwise.answer:
        return otherwise
    found = await hosted.play(task_id, calls, answer)
    return found if found.completed and found.digest == otherwise.digest else otherwise


def _evidence(play: Play) -> str:
    """What a solver did that was not accepted, for whoever has to say who was wrong."""
    if play.unfinished:
        return f"a solver did not get through: {play.unfinished}\n{_told(play)}"
    if play.fault:
        return f"after a solver's calls the verifier fails: {play.fault}\n{_told(play)}"
    missed = [
        f"{finding.name}: expected {finding.expected}, found {finding.found}"
        for finding in play.findings
        if not finding.passed
    ]
    return (
        "a solver tried, and the verifier does not accept it. Who is wrong? Failed findings: "
        + "; ".join(missed)
        + f"\n{_told(play)}"
    )


def _told(play: Play) -> str:
    calls = [_told_call(made) for made in play.made[:_SHOWN_CALLS]]
    if len(play.made) > _SHOWN_CALLS:
        calls.append(f"… and {len(play.made) - _SHOWN_CALLS} more calls")
    return "\n".join([*calls, f"answer: {play.answer}"])


def _told_call(made: Made) -> str:
    arguments = msgspec.json.encode(made.call.arguments).decode()
    text = made.text if len(made.text) <= _SHOWN_RESULT else made.text[:_SHOWN_RESULT] + "…"
    return f"{made.call.name}({arguments}) -> {'Error: ' if made.error else ''}{text}"
