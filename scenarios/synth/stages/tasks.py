"""The stage that writes the user, the rules and the tasks."""

import keyword
from collections.abc import Mapping, Sequence

import msgspec

from scenarios.format import TASK_ID
from scenarios.synth.core.answer_parsing import Unread, json_of
from scenarios.synth.core.attempts import Checked
from scenarios.synth.core.prompt_files import Prompts
from scenarios.synth.core.world_drafts import Actor, Brief, Idea, Kind, TaskDraft, slug
from scenarios.synth.stages.common import Stage
from scenarios.text_similarity import cosine, embed

_MIN_INSTRUCTION = 15  # characters
_SAME_TASK = 0.92  # cosine from which on two instructions are one


class _TaskAnswer(msgspec.Struct):
    instruction: str
    id: str = ""
    kind: Kind = "change"


class _BriefAnswer(msgspec.Struct):
    tasks: list[_TaskAnswer | str]
    user: Actor = Actor()
    policy: str | list[str] = ""


class TasksStage(Stage):
    """The user, the rules and the tasks."""

    name = "tasks"

    def __init__(self, idea: Idea, prompts: Prompts, count: int) -> None:
        super().__init__(idea, prompts)
        self._count = count

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "count": self._count}

    async def check(self, text: str) -> Checked[Brief]:
        """There are enough of them, each a task, none twice."""
        try:
            answer = json_of(text, _BriefAnswer)
        except Unread as exc:
            return Checked(None, (str(exc),))
        policy = answer.policy
        if not isinstance(policy, str):
            policy = "\n".join(f"- {rule.removeprefix('- ')}" for rule in policy)
        tasks, faults = _tasks(answer.tasks)
        if len(tasks) < self._count:
            faults.append(f"expected {self._count} tasks, found {len(tasks)} that can be used")
        value = Brief(answer.user, policy, tuple(tasks[: self._count]))
        return Checked(value if tasks else None, tuple(faults))


def _tasks(given: Sequence[_TaskAnswer | str]) -> tuple[list[TaskDraft], list[str]]:
    """The tasks that can be used, and what is wrong with the others."""
    tasks: list[TaskDraft] = []
    faults = []
    vectors = embed(each if isinstance(each, str) else each.instruction for each in given)
    kept: list[int] = []
    for place, each in enumerate(given):
        task = _TaskAnswer(each) if isinstance(each, str) else each
        instruction = " ".join(task.instruction.split())
        if len(instruction) < _MIN_INSTRUCTION:
            faults.append(f"task {place + 1}: its instruction is no task: {instruction!r}")
            continue
        if any(cosine(vectors[place], vectors[other]) > _SAME_TASK for other in kept):
            faults.append(f"task {place + 1} is another one in other words: {instruction[:80]!r}")
            continue
        kept.append(place)
        taken = {known.id for known in tasks} | {"none"}
        tasks.append(TaskDraft(_task_id(task.id or instruction, taken), task.kind, instruction))
    return tasks, faults


def _task_id(written: str, taken: set[str]) -> str:
    """An id that is a function's name with `_` for `-`, and not taken yet."""
    base = slug(written.replace("_", "-"))
    if not TASK_ID.fullmatch(base) or not base[0].isalpha() or keyword.iskeyword(base):
        base = f"task-{base}".rstrip("-")
    number, found = 2, base
    while found in taken:
        number, found = number + 1, f"{base}-{number}"
    return found
