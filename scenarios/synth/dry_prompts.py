"""Every stage's prompt for one scenario, without a model: to be read, and to be edited.

Later prompts contain the results of earlier stages. They are taken from the folder of a synthesis
where it has them; otherwise a line in guillemets says what will stand there.
"""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rehearsal_room.scenarios.format import AwmSample, AwmTable, Scenario
from rehearsal_room.scenarios.synth.core.attempts import bullet_list
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.protocols import DraftHost, HostedDraft, PromptMessage
from rehearsal_room.scenarios.synth.core.world_drafts import (
    ScenarioIdea,
    SeedScenario,
    TaskDraft,
    TaskPlan,
    ToolDraft,
    UserDraft,
    WorldDraft,
)
from rehearsal_room.scenarios.synth.stages.code import CodeStage
from rehearsal_room.scenarios.synth.stages.common import Sizes
from rehearsal_room.scenarios.synth.stages.database import DataStage, SchemaStage
from rehearsal_room.scenarios.synth.stages.ideas import IdeaPool, classify_prompt
from rehearsal_room.scenarios.synth.stages.tasks import TasksStage
from rehearsal_room.scenarios.synth.stages.tools import ToolsStage
from rehearsal_room.scenarios.synth.stages.verifiers import ProvingStage
from rehearsal_room.scenarios.synth.storage.output_folder import (
    SynthesisFolder,
    read_json,
    record_value,
)

T = TypeVar("T")
_PLAN = TaskPlan(
    UserDraft("«name»", "«role»"),
    "«the rules, of stage tasks»",
    (TaskDraft("task-id", "change", "«the instruction, of stage tasks»"),),
    ("«core_function»",),
)
_TABLES = (AwmTable("", "-- «the statements of stage schema»", ()),)
_SAMPLES = (AwmSample("", ("-- «the statements of stage data»",)),)
_TOOLS = (ToolDraft("name", "«the functions, of stage tools»"),)
_CODE = "# «the functions, of stage code»"


class StagePrompt(msgspec.Struct, frozen=True):
    """The first prompt of a stage, or of a correction."""

    name: str  # of the prompt's file
    version: str  # and digest
    messages: tuple[PromptMessage, ...]

    def render(self) -> str:
        """It as text."""
        parts = [f"=== {self.name}, version {self.version}"]
        parts += [f"--- {message.role}\n{message.text}" for message in self.messages]
        return "\n".join(parts) + "\n"


class _NoHost:
    """The host of stages whose prompts alone are wanted."""

    def host(self, scenario: Scenario) -> AbstractAsyncContextManager[HostedDraft]:
        raise AssertionError("a prompt needs no host")


def stage_prompts(
    seed: SeedScenario, prompts: Prompts, sizes: Sizes, folder: SynthesisFolder | None
) -> Iterator[StagePrompt]:
    """Yield the prompts in the order in which a synthesis asks; `folder` None: no stage is done.

    Raises SynthesisError for a record that cannot be read.
    """

    def shown(name: str, messages: tuple[PromptMessage, ...]) -> StagePrompt:
        return StagePrompt(name, prompts.version(name), messages)

    examples = {"count": 10, "examples": "- «scenarios»", "avoid": "- «scenarios»", "focus": ""}
    yield shown("classify", classify_prompt(seed, prompts))
    yield shown("invent", prompts.messages("invent", **examples))
    draft = _draft(seed, folder)
    yield shown("tasks", TasksStage(draft.idea, prompts, sizes.tasks).prompt())
    host: DraftHost = _NoHost()
    about = (draft, prompts, sizes, host, Path())
    for stage in (SchemaStage(*about), DataStage(*about), ToolsStage(*about), CodeStage(*about)):
        yield shown(stage.name, stage.prompt())
    for task in draft.plan.tasks:
        yield shown("verify", ProvingStage(*about, task, seed=0).prompt())
    code = CodeStage(*about)
    problems = bullet_list(["«what is wrong with the last answer»"])
    yield shown("feedback", code.correction(problems))
    yield shown("repair", prompts.messages("repair", problems=problems))
    yield shown("prove", code.request_for_proofs(problems))


def _draft(seed: SeedScenario, folder: SynthesisFolder | None) -> WorldDraft:
    """The draft as far as a folder has it, and marks for the rest."""
    idea = ScenarioIdea(seed.name, seed.description, features=("«the features, of classify»",))
    if folder is not None and (pool := read_json(folder.path / "ideas.json", IdeaPool)):
        idea = next((kept for kept in pool.kept if kept.key == idea.key), idea)

    def known(stage: str, kind: Any, otherwise: T) -> T:
        record = folder.record(idea.key, stage) if folder is not None else None
        if folder is None or record is None or not record.ok:
            return otherwise
        found: T = record_value(record, kind, folder.stage_file(idea.key, stage))
        return found

    return WorldDraft(
        idea,
        known("tasks", TaskPlan, _PLAN),
        tables=known("schema", tuple[AwmTable, ...], _TABLES),
        samples=known("data", tuple[AwmSample, ...], _SAMPLES),
        tools=known("tools", tuple[ToolDraft, ...], _TOOLS),
        code=known("code", str, _CODE),
    )
