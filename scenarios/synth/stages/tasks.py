"""The stage that writes the user, the rules and the tasks."""

import keyword
from collections.abc import Mapping, Sequence

import msgspec

from scenarios.synth.core.answer_parsing import UnreadableAnswer, json_of
from scenarios.synth.core.attempts import CheckedAnswer
from scenarios.synth.core.prompt_files import Prompts
from scenarios.synth.core.world_drafts import (
    Kind,
    ScenarioIdea,
    TaskDraft,
    TaskPlan,
    UserDraft,
    slug,
)
from scenarios.synth.stages.common import Stage
from scenarios.text_similarity import cosine, embed
from scenarios.value_checks import TASK_ID

_MIN_INSTRUCTION = 15  # characters
_SAME_TASK = 0.92  # cosine above which two instructions count as the same task


class _TaskAnswer(msgspec.Struct):
    instruction: str
    id: str = ""
    kind: Kind = "change"


class _TasksAnswer(msgspec.Struct):
    tasks: list[_TaskAnswer | str]
    user: UserDraft = UserDraft()
    policy: str | list[str] = ""


class TasksStage(Stage):
    """The user, the rules and the tasks."""

    name = "tasks"

    def __init__(self, idea: ScenarioIdea, prompts: Prompts, count: int) -> None:
        super().__init__(idea, prompts)
        self._count = count

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "count": self._count}

    async def check(self, text: str) -> CheckedAnswer[TaskPlan]:
        """Check that there are enough tasks, that each is usable and that they differ."""
        try:
            answer = json_of(text, _TasksAnswer)
        except UnreadableAnswer as exc:
            return CheckedAnswer(None, (str(exc),))
        policy = answer.policy
        if not isinstance(policy, str):
            policy = "\n".join(f"- {rule.removeprefix('- ')}" for rule in policy)
        tasks, faults = _tasks(answer.tasks)
        if len(tasks) < self._count:
            faults.append(f"expected {self._count} tasks, found {len(tasks)} that can be used")
        value = TaskPlan(answer.user, policy, tuple(tasks[: self._count]))
        return CheckedAnswer(value if tasks else None, tuple(faults))


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
        tasks.append(TaskDraft(_task_id(task.id or instruction, used), task.kind, instruction))
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
