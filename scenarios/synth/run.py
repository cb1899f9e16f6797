"""A whole synthesis: from seeds to worlds."""

from collections.abc import Callable, Sequence

import anyio
import msgspec

from rehearsal_room.scenarios.errors import OutOfBudget
from rehearsal_room.scenarios.synth.core.attempts import TRIES
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.protocols import AuthorModel, DraftHost
from rehearsal_room.scenarios.synth.core.world_drafts import ScenarioIdea, SeedScenario
from rehearsal_room.scenarios.synth.pipeline import PipelineContext, SynthesizedWorld, WorldPipeline
from rehearsal_room.scenarios.synth.report import SynthesisReport, report_of
from rehearsal_room.scenarios.synth.stages.common import Sizes
from rehearsal_room.scenarios.synth.stages.ideas import (
    IdeaGatherer,
    IdeaPool,
    IdeaSettings,
    map_concurrently,
)
from rehearsal_room.scenarios.synth.storage.output_folder import SynthesisFolder
from rehearsal_room.scenarios.synth.storage.spending import SpendingLedger

MAY_CHANGE = frozenset(
    {"count", "tries", "least_tasks", "model", "solver", "formats"}
)  # in a rerun
NUM_STAGES = 5  # of a world, before its tasks are proved


class SynthesisSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a synthesis."""

    ideas: IdeaSettings = IdeaSettings()
    sizes: Sizes = Sizes()
    tries: int = TRIES
    seed: int = 0
    least_tasks: int = 1  # a world with fewer proved tasks fails
    at_once: int = 8  # worlds written concurrently


ReportProgress = Callable[[str, int, int], None]  # the finished stage, steps done, all steps


async def synthesise(
    seeds: Sequence[SeedScenario],
    folder: SynthesisFolder,
    ledger: SpendingLedger,
    *,
    author: AuthorModel,
    host: DraftHost,
    prompts: Prompts,
    settings: SynthesisSettings,
    again: bool = False,
    report_progress: ReportProgress = lambda *_: None,
) -> SynthesisReport:
    """Write the worlds that do not exist yet; return the report on all worlds.

    `again` repeats the stages that failed in an earlier run. An exhausted budget stops the
    synthesis, and the report lists it. Raises SynthesisError when the author cannot be asked or the
    folder cannot be used; finished stages stay on disk, and a rerun continues.
    """
    counter = _ProgressCounter(report_progress, settings)
    gathering = IdeaGatherer(
        folder,
        author,
        prompts,
        settings.ideas,
        tries=settings.tries,
        seed=settings.seed,
        report_step=counter.count_step,
    )
    try:
        pool = await gathering.gather(seeds)
    except OutOfBudget as exc:
        return report_of(gathering.pool, (), folder, ledger, stopped=str(exc))
    context = PipelineContext(
        author=author,
        host=host,
        prompts=prompts,
        folder=folder,
        sizes=settings.sizes,
        tries=settings.tries,
        seed=settings.seed,
        least_tasks=settings.least_tasks,
        again=again,
        report_step=counter.count_step,
    )
    counter.begin_worlds(len(pool.kept))
    worlds = await _write_worlds(pool, context, settings.at_once)
    stopped = next((world.fault for world in worlds if world.stopped), "")
    return report_of(pool, worlds, folder, ledger, stopped=stopped)


async def _write_worlds(
    pool: IdeaPool, context: PipelineContext, at_once: int
) -> list[SynthesizedWorld]:
    limiter = anyio.CapacityLimiter(at_once)

    async def write(idea: ScenarioIdea) -> SynthesizedWorld:
        async with limiter:
            return await WorldPipeline(idea, context).run()

    return await map_concurrently(write, pool.kept)


class _ProgressCounter:
    """Counts the finished steps and the steps of the whole synthesis."""

    def __init__(self, report_progress: ReportProgress, settings: SynthesisSettings) -> None:
        self._report_progress = report_progress
        self._settings = settings
        self._done = 0
        self._all = settings.ideas.count

    def begin_worlds(self, num_worlds: int) -> None:
        """Set the number of worlds, once it is known."""
        steps = NUM_STAGES + self._settings.sizes.tasks
        self._all = self._done + num_worlds * steps

    def count_step(self, stage: str) -> None:
        """Count and report one finished step."""
        self._done += 1
        self._report_progress(stage, min(self._done, self._all), self._all)
