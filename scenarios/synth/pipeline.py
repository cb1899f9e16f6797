"""Writing the world of one scenario, stage by stage; finished stages of earlier runs are reused."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rehearsal_room.scenarios.errors import OutOfBudget
from rehearsal_room.scenarios.format import AwmSample, AwmTable
from rehearsal_room.scenarios.synth.core.attempts import PromptedStage, ask_until_valid
from rehearsal_room.scenarios.synth.core.coverage import uncovered
from rehearsal_room.scenarios.synth.core.left_out import leave_out
from rehearsal_room.scenarios.synth.core.package_files import (
    package_texts,
    remove_package,
    write_package,
)
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.protocols import AuthorModel, DraftHost, Unhostable
from rehearsal_room.scenarios.synth.core.world_drafts import (
    ProvenTask,
    ScenarioIdea,
    TaskDraft,
    TaskPlan,
    ToolDraft,
    WorldDraft,
)
from rehearsal_room.scenarios.synth.stages.code import DEAD, CodeStage, proofs_in
from rehearsal_room.scenarios.synth.stages.common import DraftStage, Sizes
from rehearsal_room.scenarios.synth.stages.database import DataStage, SchemaStage
from rehearsal_room.scenarios.synth.stages.ideas import map_concurrently
from rehearsal_room.scenarios.synth.stages.tasks import TasksStage
from rehearsal_room.scenarios.synth.stages.tools import ToolsStage
from rehearsal_room.scenarios.synth.stages.verifiers import ProvingStage
from rehearsal_room.scenarios.synth.storage.output_folder import (
    StageRecord,
    SynthesisFolder,
    input_digest,
    record_value,
)

T = TypeVar("T")
S = TypeVar("S", bound=DraftStage)
PROVED = "verify-"  # with a task's id: the name of its record


class UnprovenTask(msgspec.Struct, frozen=True):
    """A task that could not be proved."""

    task: str
    why: str


class SynthesizedWorld(msgspec.Struct, frozen=True):
    """The result for one scenario. `fault` empty: its package was written."""

    name: str
    fault: str = ""
    stage: str = ""  # the stage that failed
    stopped: bool = False  # by the budget; a rerun continues
    tasks: int = 0
    tables: int = 0
    rows: int = 0
    tools: int = 0
    lines: int = 0  # of tools.py
    steps: tuple[int, ...] = ()  # number of calls of each oracle
    used: tuple[int, ...] = ()  # number of different tools of each oracle
    mutants: int = 0
    caught: int = 0
    dropped: tuple[UnprovenTask, ...] = ()
    dead: tuple[str, ...] = ()  # tools that were left out: no call of them succeeded
    unused: tuple[str, ...] = ()  # tools that no oracle calls
    uncovered: tuple[str, ...] = ()  # core functions that no proved task practises


class PipelineContext(msgspec.Struct, frozen=True):
    """The dependencies and settings that all pipelines of a synthesis share."""

    author: AuthorModel
    host: DraftHost
    prompts: Prompts
    folder: SynthesisFolder
    sizes: Sizes
    tries: int
    seed: int
    least_tasks: int  # a world with fewer proved tasks fails
    again: bool  # run the stages again that failed in an earlier run
    report_step: Callable[[str], None]  # called with the name of each finished stage


class _StageFailed(Exception):
    """A stage gave no valid answer."""

    def __init__(self, stage: str, why: str) -> None:
        super().__init__(why)
        self.stage = stage
        self.why = why


def _of_idea(idea: ScenarioIdea) -> tuple[Any, ...]:
    """What the stages read of a scenario."""
    return idea.name, idea.description, idea.features


class WorldPipeline:
    """Writes the world of one scenario."""

    def __init__(self, idea: ScenarioIdea, context: PipelineContext) -> None:
        self._idea = idea
        self._context = context
        self._notes: list[str] = []

    async def run(self) -> SynthesizedWorld:
        """Run all stages. Raises SynthesisError when the author can no longer be asked."""
        name = self._idea.key
        try:
            return await self._write_world(await self._write_draft())
        except _StageFailed as exc:
            remove_package(self._context.folder.worlds / name)  # an outdated one of an earlier run
            return SynthesizedWorld(name, exc.why, exc.stage)
        except OutOfBudget as exc:
            return SynthesizedWorld(name, str(exc), stopped=True)
        finally:
            self._context.folder.clear_drafts(name)

    async def _write_draft(self) -> WorldDraft:
        """Run all stages except the proofs."""
        context, idea = self._context, self._idea
        tasks = TasksStage(idea, context.prompts, context.sizes.tasks)
        draft = WorldDraft(idea, await self._stage(tasks, TaskPlan, *_of_idea(idea)))
        about = (*_of_idea(idea), draft.plan)
        schema = self._draft_stage(SchemaStage, draft)
        tables = await self._stage(schema, tuple[AwmTable, ...], *about)
        draft = msgspec.structs.replace(draft, tables=tables)
        data = self._draft_stage(DataStage, draft)
        samples = await self._stage(data, tuple[AwmSample, ...], *about, tables)
        draft = msgspec.structs.replace(draft, samples=samples)
        specification = self._draft_stage(ToolsStage, draft)
        tools = await self._stage(specification, tuple[ToolDraft, ...], *about, tables)
        draft = msgspec.structs.replace(draft, tools=tools)
        code = self._draft_stage(CodeStage, draft)
        source = await self._stage(code, str, *about, tables, samples, tools)
        return msgspec.structs.replace(draft, code=source)

    def _draft_stage(self, stage: type[S], draft: WorldDraft) -> S:
        context, folder = self._context, self._trial_folder(stage.name)
        return stage(draft, context.prompts, context.sizes, context.host, folder)

    async def _write_world(self, draft: WorldDraft) -> SynthesizedWorld:
        """Prove the tasks and write the package."""

        async def prove(task: TaskDraft) -> ProvenTask | UnprovenTask:
            return await self._prove(draft, task)

        found = await map_concurrently(prove, draft.plan.tasks)
        proven = tuple(each for each in found if isinstance(each, ProvenTask))
        dropped = tuple(each for each in found if isinstance(each, UnprovenTask))
        if len(proven) < self._context.least_tasks:
            why = f"{len(proven)} of {len(found)} tasks could be proved"
            why += f", at least {self._context.least_tasks} must be"
            raise _StageFailed("verify", f"{why}: {dropped[0].why}" if dropped else why)
        draft = msgspec.structs.replace(draft, proven=proven)
        used = {call.name for each in proven for call in each.oracle}
        dead = self._dead(used)
        draft = leave_out(draft, dead) if dead else draft
        try:
            folder = self._context.folder.worlds / self._idea.key
            scenario = write_package(folder, package_texts(draft, proofs_in(self._notes)))
            async with self._context.host.host(scenario) as hosted:
                rows = sum(map(len, hosted.rows().values()))
        except Unhostable as exc:
            raise _StageFailed("verify", exc.reason) from exc
        names = [tool.name for tool in draft.tools]
        return SynthesizedWorld(
            name=self._idea.key,
            tasks=len(proven),
            tables=len(draft.tables),
            rows=rows,
            tools=len(names),
            lines=draft.code.count("\n"),
            steps=tuple(len(each.oracle) for each in proven),
            used=tuple(len({call.name for call in each.oracle}) for each in proven),
            mutants=sum(each.mutants for each in proven),
            caught=sum(each.caught for each in proven),
            dropped=dropped,
            dead=tuple(dead.values()),
            unused=tuple(name for name in names if name not in used),
            uncovered=uncovered(draft.plan, proven),
        )

    def _dead(self, used: Collection[str]) -> dict[str, str]:
        """The tools that nothing proves, by name: neither a call of the probe, nor one that the
        author named, nor one of an oracle."""
        notes = [note.removeprefix(DEAD) for note in self._notes if note.startswith(DEAD)]
        unproven = {note.partition(" ")[0]: note.partition("\n")[0] for note in notes}
        return {name: note for name, note in unproven.items() if name not in used}

    async def _prove(self, draft: WorldDraft, task: TaskDraft) -> ProvenTask | UnprovenTask:
        context, folder = self._context, self._trial_folder(task.id)
        stage = ProvingStage(
            draft,
            context.prompts,
            context.sizes,
            context.host,
            folder,
            task,
            seed=context.seed,
        )
        try:
            return await self._stage(stage, ProvenTask, draft, task, record=PROVED + task.id)
        except _StageFailed as exc:
            return UnprovenTask(task.id, exc.why)

    def _trial_folder(self, stage: str) -> Path:
        """The folder in which a stage's packages are tried out."""
        return self._context.folder.drafts(self._idea.key) / stage

    async def _stage(
        self, stage: PromptedStage[T], kind: type[T], *inputs: Any, record: str = ""
    ) -> T:
        """The result of a stage, from its record or from a new run. Raises _StageFailed."""
        context, name = self._context, record or stage.purpose.stage
        digest = input_digest(*inputs)
        known = context.folder.record(self._idea.key, name)
        if known is None or known.inputs != digest or (context.again and not known.ok):
            known = await self._run_stage(stage, digest)
            context.folder.save(self._idea.key, known, name)
        context.report_step(stage.purpose.stage)
        self._notes += known.notes
        if not known.ok:
            last = "; ".join(known.attempts[-1].faults if known.attempts else ())
            why = f"none of {len(known.attempts)} answers was valid; {last}"
            raise _StageFailed(stage.purpose.stage, why)
        return record_value(known, kind, context.folder.stage_file(self._idea.key, name))

    async def _run_stage(self, stage: PromptedStage[T], digest: str) -> StageRecord:
        context, name = self._context, stage.purpose.stage
        outcome = await ask_until_valid(
            context.author, stage, tries=context.tries, seed=context.seed
        )
        return StageRecord(
            stage=name,
            inputs=digest,
            prompt=context.prompts.version(name),
            ok=outcome.ok,
            attempts=outcome.attempts,
            notes=outcome.notes,
            answer="" if outcome.ok else outcome.answer,
            value=msgspec.to_builtins(outcome.value),
        )
