"""The stage that proves a task: what the author reads, and which mistakes count."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Call, Scenario
from rehearsal_room.scenarios.synth.core.code_rules import literals_of
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.protocols import (
    CallResult,
    JudgedRun,
    MutantResult,
    Temptation,
)
from rehearsal_room.scenarios.synth.core.world_drafts import RuleDraft
from rehearsal_room.scenarios.synth.stages.common import Sizes
from rehearsal_room.scenarios.synth.stages.verifiers import ProvingStage
from tests.support.synth_draft import world_draft

ANSWER = "It is 42 crowns. By the way, shelf 7 holds it since 3 May."
VERIFIER = '''```python
from scenarios.api import State
from scenarios.checks import Check, Finding


def say_it(before: State, after: State, answer: str) -> list[Finding]:
    """It costs 42, and stands on shelf 7."""
    check = Check(before, after, answer)
    check.answer_has("42")
    return check.findings
```'''


class Hosted:
    """A world whose verifier wants 42 in the answer; mistakes in its other values survive."""

    tools: tuple[Any, ...] = ()

    def __init__(self, solved: str, wanted: str) -> None:
        self.solved = solved
        self.wanted = wanted
        self.named: list[str] = []
        self.tried: list[str] = []

    def _run(self, answer: str) -> JudgedRun:
        passed = self.wanted in answer
        finding = Finding(
            "answer says 42", passed, "42", " ".join(answer.split()) or "none", "goal"
        )
        looked = CallResult(Call("look", {"shelf": 7}), "[]")
        return JudgedRun((looked,) if answer else (), answer, "d", (), (finding,))

    async def run(self, task_id: str, calls: Sequence[Call], answer: str) -> JudgedRun:
        return self._run(answer)

    async def solve(self, task_id: str, *, seed: int) -> JudgedRun:
        return self._run(self.solved)

    async def try_mutants(
        self,
        task_id: str,
        solution: JudgedRun,
        temptation: Temptation | None = None,
        *,
        named: str = "",
    ) -> MutantResult:
        self.named.append(named)
        self.tried.append(solution.answer)
        return MutantResult(4, 2, survivors=(f"a mistake in {solution.answer!r}",))


class Host:
    """Hosts one world, whatever the package says."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted

    @asynccontextmanager
    async def host(self, scenario: Scenario) -> AsyncIterator[Any]:
        yield self.hosted


async def faults(folder: Path, hosted: Hosted) -> str:
    """What the author reads about the verifier."""
    draft = world_draft()
    stage = ProvingStage(
        draft, Prompts(), Sizes(), Host(hosted), folder / "p", draft.plan.tasks[0], seed=0
    )
    return "\n".join((await stage.check(VERIFIER)).faults)


async def test_the_author_does_not_read_the_solvers_answer(tmp_path: Path) -> None:
    """Neither in the transcript nor in a finding that quotes it: he would ask for its details."""
    told = await faults(tmp_path, Hosted(ANSWER, wanted="no such text"))
    assert 'look({"shelf":7})' in told
    assert "expected 42, found another answer" in told
    assert "By the way" not in told
    assert "3 May" not in told


async def test_survivors_are_those_of_the_shortened_answer(tmp_path: Path) -> None:
    """The long answer's are of sentences that the task's answer does not keep."""
    hosted = Hosted(ANSWER, wanted="42")
    told = await faults(tmp_path, hosted)
    assert hosted.tried == [ANSWER, "It is 42 crowns."]
    assert "a mistake in 'It is 42 crowns.'" in told
    assert "By the way" not in told


async def test_the_verifiers_own_values_are_named(tmp_path: Path) -> None:
    """Those of its code, and not those of its docstring."""
    hosted = Hosted(ANSWER, wanted="42")
    await faults(tmp_path, hosted)
    assert hosted.named == ["42", "42"]
    assert literals_of('def f():\n    """On 3 May."""\n    return ("A-1", 7, 2.5, None)\n') == (
        "A-1\n7\n2.5"
    )


def test_rules_have_their_numbers_in_every_later_prompt(tmp_path: Path) -> None:
    """A task names a rule by its number."""
    draft = world_draft()
    rules = (RuleDraft("Be brief."), RuleDraft("Be kind."))
    draft = msgspec.structs.replace(draft, plan=msgspec.structs.replace(draft.plan, rules=rules))
    stage = ProvingStage(
        draft, Prompts(), Sizes(), Host(Hosted("", "x")), tmp_path, draft.plan.tasks[0], seed=0
    )
    assert "Rules:\n1. Be brief.\n2. Be kind." in stage.prompt()[-1].text
