"""A whole synthesis: seeds in, worlds out."""

from collections.abc import Callable, Sequence

import anyio
import msgspec

from scenarios.errors import OutOfBudget
from scenarios.synth.core.attempts import TRIES
from scenarios.synth.core.prompt_files import Prompts
from scenarios.synth.core.protocols import Author, Bench
from scenarios.synth.core.world_drafts import Idea, Seed
from scenarios.synth.pipeline import Line, SynthesizedWorld, Workshop
from scenarios.synth.report import Report, report_of
from scenarios.synth.stages.common import Sizes
from scenarios.synth.stages.ideas import Gathering, IdeaSettings, Pool, side_by_side
from scenarios.synth.storage.output_folder import Folder
from scenarios.synth.storage.spending import Ledger

MAY_CHANGE = frozenset({"count", "tries", "least_tasks", "model", "formats"})  # on a rerun
NUM_STAGES = 5  # of a line, before its tasks are proved


class SynthesisSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to make."""

    ideas: IdeaSettings = IdeaSettings()
    sizes: Sizes = Sizes()
    tries: int = TRIES
    seed: int = 0
    least_tasks: int = 1  # that must be proved, or the world is given up
    at_once: int = 8  # scenarios worked on side by side


Told = Callable[[str, int, int], None]  # what is over: a stage; how many are over, of how many


async def synthesise(
    seeds: Sequence[Seed],
    folder: Folder,
    ledger: Ledger,
    *,
    author: Author,
    bench: Bench,
    prompts: Prompts,
    settings: SynthesisSettings,
    again: bool = False,
    told: Told = lambda *_: None,
) -> Report:
    """Make the worlds that are not there yet; gives the report on all of them.

    `again` makes anew what failed before. A budget that is spent stops it, which the report says.
    Raises SynthesisError when the author cannot be asked or the folder cannot be used; what was
    finished is kept, and a rerun goes on.
    """
    counter = _Counter(told, settings)
    gathering = Gathering(
        folder,
        author,
        prompts,
        settings.ideas,
        tries=settings.tries,
        seed=settings.seed,
        told=counter.one,
    )
    try:
        pool = await gathering.gather(seeds)
    except OutOfBudget as exc:
        return report_of(gathering.pool, (), folder, ledger, stopped=str(exc))
    shop = Workshop(
        author=author,
        bench=bench,
        prompts=prompts,
        folder=folder,
        sizes=settings.sizes,
        tries=settings.tries,
        seed=settings.seed,
        least_tasks=settings.least_tasks,
        again=again,
        told=counter.one,
    )
    counter.begin(len(pool.kept))
    worlds = await _worlds(pool, shop, settings.at_once)
    stopped = next((world.fault for world in worlds if world.stopped), "")
    return report_of(pool, worlds, folder, ledger, stopped=stopped)


async def _worlds(pool: Pool, shop: Workshop, at_once: int) -> list[SynthesizedWorld]:
    room = anyio.CapacityLimiter(at_once)

    async def one(idea: Idea) -> SynthesizedWorld:
        async with room:
            return await Line(idea, shop).run()

    return await side_by_side(one, pool.kept)


class _Counter:
    """How far it is, as steps done of steps to be done."""

    def __init__(self, told: Told, settings: SynthesisSettings) -> None:
        self._told = told
        self._settings = settings
        self._done = 0
        self._all = settings.ideas.count

    def begin(self, num_worlds: int) -> None:
        """The worlds are known."""
        steps = NUM_STAGES + self._settings.sizes.tasks
        self._all = self._done + num_worlds * steps

    def one(self, stage: str) -> None:
        """One step is over."""
        self._done += 1
        self._told(stage, min(self._done, self._all), self._all)
