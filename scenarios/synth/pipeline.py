"""One scenario from its brief to its package. What an earlier run has done is not done again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from scenarios.errors import OutOfBudget
from scenarios.format import AwmSample, AwmTable
from scenarios.synth.core.attempts import Step, tried
from scenarios.synth.core.package_files import remove, texts_of, write
from scenarios.synth.core.prompt_files import Prompts
from scenarios.synth.core.protocols import Author, Bench, Unhostable
from scenarios.synth.core.world_drafts import Brief, Draft, Idea, Proven, TaskDraft, ToolDraft
from scenarios.synth.stages.code import DEAD, CodeStage
from scenarios.synth.stages.common import Sizes
from scenarios.synth.stages.database import DataStage, SchemaStage
from scenarios.synth.stages.ideas import side_by_side
from scenarios.synth.stages.tasks import TasksStage
from scenarios.synth.stages.tools import ToolsStage
from scenarios.synth.stages.verifiers import ProvingStage
from scenarios.synth.storage.output_folder import Folder, Record, digest_of, value_of

T = TypeVar("T")
PROVED = "verify-"  # before a task's id: the name of its record


class Dropped(msgspec.Struct, frozen=True):
    """A task that could not be proved."""

    task: str
    why: str


class SynthesizedWorld(msgspec.Struct, frozen=True):
    """What became of one scenario. `fault` empty: its package is there."""

    name: str
    fault: str = ""
    stage: str = ""  # in which it failed or was stopped
    stopped: bool = False  # by the budget: a rerun goes on
    tasks: int = 0
    tables: int = 0
    rows: int = 0
    tools: int = 0
    lines: int = 0  # of tools.py
    steps: tuple[int, ...] = ()  # calls of each oracle
    used: tuple[int, ...] = ()  # different tools of each oracle
    mutants: int = 0
    caught: int = 0
    dropped: tuple[Dropped, ...] = ()
    dead: tuple[str, ...] = ()  # tools of which no call succeeded
    unused: tuple[str, ...] = ()  # tools that no oracle calls


class Workshop(msgspec.Struct, frozen=True):
    """What all lines of a synthesis share."""

    author: Author
    bench: Bench
    prompts: Prompts
    folder: Folder
    sizes: Sizes
    tries: int
    seed: int
    least_tasks: int  # that must be proved, or the world is given up
    again: bool  # make anew what failed in an earlier run
    told: Callable[[str], None]  # the name of a stage that is over


class _Failed(Exception):
    """A stage gave nothing that holds."""

    def __init__(self, stage: str, why: str) -> None:
        super().__init__(why)
        self.stage = stage
        self.why = why


class Line:
    """The work on one scenario."""

    def __init__(self, idea: Idea, shop: Workshop) -> None:
        self._idea = idea
        self._shop = shop
        self._notes: list[str] = []

    async def run(self) -> SynthesizedWorld:
        """All stages. Raises SynthesisError when the author can no longer be asked."""
        name = self._idea.key
        try:
            return await self._world(await self._draft())
        except _Failed as exc:
            remove(self._shop.folder.worlds / name)  # of an earlier run: it holds no longer
            return SynthesizedWorld(name, exc.why, exc.stage)
        except OutOfBudget as exc:
            return SynthesizedWorld(name, str(exc), stopped=True)
        finally:
            self._shop.folder.clear_drafts(name)

    async def _draft(self) -> Draft:
        """Everything but the proofs."""
        shop, idea = self._shop, self._idea
        tasks = TasksStage(idea, shop.prompts, shop.sizes.tasks)
        draft = Draft(idea, await self._stage(tasks, Brief, idea.name, idea.description))
        about = (idea.name, idea.description, draft.brief)
        schema = SchemaStage(draft, shop.prompts, shop.sizes, shop.bench, self._place("schema"))
        tables = await self._stage(schema, tuple[AwmTable, ...], *about)
        draft = msgspec.structs.replace(draft, tables=tables)
        data = DataStage(draft, shop.prompts, shop.sizes, shop.bench, self._place("data"))
        samples = await self._stage(data, tuple[AwmSample, ...], *about, tables)
        draft = msgspec.structs.replace(draft, samples=samples)
        spec = ToolsStage(draft, shop.prompts, shop.sizes, shop.bench, self._place("tools"))
        tools = await self._stage(spec, tuple[ToolDraft, ...], *about, tables)
        draft = msgspec.structs.replace(draft, tools=tools)
        code = CodeStage(draft, shop.prompts, shop.sizes, shop.bench, self._place("code"))
        source = await self._stage(code, str, *about, tables, samples, tools)
        return msgspec.structs.replace(draft, code=source)

    async def _world(self, draft: Draft) -> SynthesizedWorld:
        """Prove the tasks and write the package."""

        async def prove(task: TaskDraft) -> Proven | Dropped:
            return await self._prove(draft, task)

        found = await side_by_side(prove, draft.brief.tasks)
        proven = tuple(each for each in found if isinstance(each, Proven))
        dropped = tuple(each for each in found if isinstance(each, Dropped))
        if len(proven) < self._shop.least_tasks:
            why = f"{len(proven)} of {len(found)} tasks could be proved"
            why += f", and {self._shop.least_tasks} have to be"
            raise _Failed("verify", f"{why}: {dropped[0].why}" if dropped else why)
        draft = msgspec.structs.replace(draft, proven=proven)
        try:
            scenario = write(self._shop.folder.worlds / self._idea.key, texts_of(draft))
            async with self._shop.bench.host(scenario) as hosted:
                rows = sum(map(len, hosted.rows().values()))
        except Unhostable as exc:
            raise _Failed("verify", exc.reason) from exc
        used = {call.name for each in proven for call in each.oracle}
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
            dead=tuple(note.removeprefix(DEAD) for note in self._notes if note.startswith(DEAD)),
            unused=tuple(name for name in names if name not in used),
        )

    async def _prove(self, draft: Draft, task: TaskDraft) -> Proven | Dropped:
        shop = self._shop
        stage = ProvingStage(
            draft, task, shop.prompts, shop.sizes, shop.bench, self._place(task.id), seed=shop.seed
        )
        try:
            return await self._stage(stage, Proven, draft, task, record=PROVED + task.id)
        except _Failed as exc:
            return Dropped(task.id, exc.why)

    def _place(self, stage: str) -> Path:
        """Where a stage's packages are tried out."""
        return self._shop.folder.drafts(self._idea.key) / stage

    async def _stage(self, step: Step[T], kind: type[T], *inputs: Any, record: str = "") -> T:
        """What a stage gives, made now or before. Raises _Failed."""
        shop, stage = self._shop, step.purpose.stage
        name, digest = record or stage, digest_of(*inputs)
        known = shop.folder.record(self._idea.key, name)
        if known is None or known.inputs != digest or (shop.again and not known.ok):
            known = await self._made(step, digest)
            shop.folder.keep(self._idea.key, known, name)
        shop.told(stage)
        self._notes += known.notes
        if not known.ok:
            last = known.attempts[-1].faults if known.attempts else ()
            raise _Failed(stage, f"{len(known.attempts)} answers did not hold; {'; '.join(last)}")
        return value_of(known, kind, shop.folder.stage_file(self._idea.key, name))

    async def _made(self, step: Step[T], digest: str) -> Record:
        shop, stage = self._shop, step.purpose.stage
        outcome = await tried(shop.author, step, tries=shop.tries, seed=shop.seed)
        return Record(
            stage=stage,
            inputs=digest,
            prompt=shop.prompts.version(stage),
            ok=outcome.ok,
            attempts=outcome.attempts,
            notes=outcome.notes,
            answer="" if outcome.ok else outcome.answer,
            value=msgspec.to_builtins(outcome.value),
        )
