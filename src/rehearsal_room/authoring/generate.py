"""Generates many procedural worlds in several processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.authoring.world_host import host_in_process
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.generate.compose import generate
from rehearsal_room.scenarios.generate.core.errors import GenerateError
from rehearsal_room.scenarios.generate.output_folder import (
    GenerationOrder,
    Manifest,
    WorldRecord,
    find_missing,
    lock_folder,
    write_manifest,
    write_world,
)
from rehearsal_room.scenarios.generate.plan.world_plans import WorldPlan, plan_worlds

_CHUNK_SIZE = 4  # plans that are sent to a process together


class GenerationFault(msgspec.Struct, frozen=True):
    """A world that could not be generated."""

    name: str
    why: str


class GeneratedWorlds(msgspec.Struct, frozen=True):
    """The result of an order."""

    manifest: Manifest
    num_kept: int  # worlds that were in the folder already
    faults: tuple[GenerationFault, ...]


def generate_worlds(
    order: GenerationOrder,
    count: int,
    folder: Path,
    *,
    jobs: int = 1,
    report_progress: Callable[[int, int], None] = lambda done, total: None,
) -> GeneratedWorlds:
    """Generate the worlds of an order that are missing in a folder. `report_progress` is called
    with the number of worlds that are done and the number of all.

    Raises GenerateError for an order that cannot be fulfilled, for a folder that holds other files,
    and when a process died: the worlds that are done stay, and a rerun generates the rest.
    """
    plans = plan_worlds(
        count,
        order.seed,
        order.knobs,
        trades=order.trades,
        modules=order.modules,
        split=order.split,
    )
    with lock_folder(folder, order):
        kept, left = find_missing(folder, plans)
        records = {record.plan.name: record for record in kept}
        faults = []
        report_progress(len(records), count)
        for made in _generate(left, folder, jobs):
            if isinstance(made, GenerationFault):
                faults.append(made)
            else:
                records[made.plan.name] = made
            report_progress(len(records) + len(faults), count)
        there = [records[plan.name] for plan in plans if plan.name in records]
        return GeneratedWorlds(write_manifest(folder, order, there), len(kept), tuple(faults))


def _generate(
    plans: Sequence[WorldPlan], folder: Path, jobs: int
) -> Iterator[WorldRecord | GenerationFault]:
    generate_here = partial(generate_one, folder)
    if jobs == 1 or len(plans) < 2:
        yield from map(generate_here, plans)
        return
    context: Any = get_context("spawn")  # the same on every system, and safe beside threads
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        try:
            yield from pool.map(generate_here, plans, chunksize=_CHUNK_SIZE)
        except BrokenProcessPool as exc:
            raise GenerateError(
                f"{folder}: a process that generates worlds died; run the command again to "
                "generate the rest"
            ) from exc


def generate_one(folder: Path, plan: WorldPlan) -> WorldRecord | GenerationFault:
    """Generate one world and write it. Raises GenerateError when it cannot be written."""
    try:
        made = generate(plan, host_in_process)
    except (ScenarioError, PoolError) as exc:
        return GenerationFault(plan.name, str(exc))
    try:
        return write_world(folder, plan, made)
    except OSError as exc:
        raise GenerateError(f"{folder}: world {plan.name} cannot be written: {exc}") from exc
