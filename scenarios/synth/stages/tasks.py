"""The stage that writes the user, the rules and the tasks."""

import keyword
import re
from collections.abc import Mapping, Sequence

import msgspec

from rehearsal_room.scenarios.generate.example_texts import example_instructions
from rehearsal_room.scenarios.synth.core.answer_parsing import UnreadableAnswer, json_of
from rehearsal_room.scenarios.synth.core.attempts import CheckedAnswer
from rehearsal_room.scenarios.synth.core.coverage import UNNAMED, plan_faults
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.world_drafts import (
    DraftKind,
    RuleDraft,
    ScenarioIdea,
    TaskDraft,
    TaskPlan,
    UserDraft,
    slug,
)
from rehearsal_room.scenarios.synth.stages.common import SynthesisStage
from rehearsal_room.scenarios.text_similarity import cosine, embed
from rehearsal_room.scenarios.value_checks import TASK_ID

_MIN_INSTRUCTION = 15  # characters
_ITEM = re.compile(r"\s*(?:[-*]|\d+[.)])\s+(.*\S)")  # of a list in Markdown
_NUM_EXAMPLES = 8  # situations of other worlds that the prompt shows
_SAME_TASK = 0.92  # cosine above which two instructions count as the same task


class _TaskAnswer(msgspec.Struct):
    instruction: str
    id: str = ""
    kind: DraftKind = "change"
    functions: list[str] = []
    rule: int | None = None


class _RuleAnswer(msgspec.Struct):
    rule: str
    functions: list[str] = []


class _TasksAnswer(msgspec.Struct):
    tasks: list[_TaskAnswer | str]
    user: UserDraft = UserDraft()
    policy: str | list[_RuleAnswer | str] = ""
    functions: list[str] = []


class TasksStage(SynthesisStage):
    """The user, the rules and the tasks."""

    name = "tasks"

    def __init__(self, idea: ScenarioIdea, prompts: Prompts, count: int) -> None:
        super().__init__(idea, prompts)
        self._count = count

    def _fields(self) -> Mapping[str, object]:
        examples = example_instructions(self._idea.name, _NUM_EXAMPLES)
        shown = "\n".join(f"- {' '.join(text.split())}" for text in examples)
        return {**super()._fields(), "count": self._count, "examples": shown}

    async def check(self, text: str) -> CheckedAnswer[TaskPlan]:
        """Check that there are enough tasks, that each is usable and that they differ."""
        try:
            answer = json_of(text, _TasksAnswer)
        except UnreadableAnswer as exc:
            return CheckedAnswer(None, (str(exc),))
        policy, rules = _policy(answer.policy)
        tasks, faults = _tasks(answer.tasks)
        if len(tasks) < self._count:
            faults.append(f"expected {self._count} tasks, found {len(tasks)} that can be used")
        functions = tuple(dict.fromkeys(answer.functions))
        value = TaskPlan(answer.user, policy, tuple(tasks[: self._count]), functions, rules)
        faults += plan_faults(value)
        notes = () if functions else (UNNAMED,)
        return CheckedAnswer(value if tasks else None, tuple(faults), notes)


def _policy(answer: str | Sequence[_RuleAnswer | str]) -> tuple[str, tuple[RuleDraft, ...]]:
    """The text of the policy, and its rules: in a text, the lines that begin as items of a list."""
    if isinstance(answer, str):
        found = [_ITEM.match(line) for line in answer.splitlines()]
        return answer, tuple(RuleDraft(item[1].strip()) for item in found if item)
    rules = [
        RuleDraft(" ".join(each.split()).removeprefix("- "))
        if isinstance(each, str)
        else RuleDraft(" ".join(each.rule.split()).removeprefix("- "), tuple(each.functions))
        for each in answer
    ]
    return "\n".join(f"- {rule.text}" for rule in rules), tuple(rules)


def _tasks(answers: Sequence[_TaskAnswer | str]) -> tuple[list[TaskDraft], list[str]]:
    """The usable tasks, and the faults of the others."""
    tasks: list[TaskDraft] = []
    faults = []
    vectors = embed(each if isinstance(each, str) else each.instruction for each in answers)
    accepted: list[int] = []
    for index, each in enumerate(answers):
        task = _TaskAnswer(each) if isinstance(each, str) else each
        instruction = " ".join(task.instruction.split())
        if len(instruction) < _MIN_INSTRUCTION:
            faults.append(f"task {index + 1}: its instruction is not a task: {instruction!r}")
            continue
        if any(cosine(vectors[index], vectors[other]) > _SAME_TASK for other in accepted):
            faults.append(f"task {index + 1} is another one in other words: {instruction[:80]!r}")
            continue
        accepted.append(index)
        used = {known.id for known in tasks} | {"none"}
        name = _task_id(task.id or instruction, used)
        functions = tuple(dict.fromkeys(task.functions))
        tasks.append(TaskDraft(name, task.kind, instruction, functions, task.rule or 0))
    return tasks, faults


def _task_id(written: str, used: set[str]) -> str:
    """An unused id that becomes the name of a function when `-` is replaced by `_`."""
    base = slug(written.replace("_", "-"))
    if not TASK_ID.fullmatch(base) or not base[0].isalpha() or keyword.iskeyword(base):
        base = f"task-{base}".rstrip("-")
    number, found = 2, base
    while found in used:
        number, found = number + 1, f"{base}-{number}"
    return found
