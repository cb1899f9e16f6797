"""Many procedural worlds, made by several processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from envpool.core.errors import PoolError
from judge.worlds.trial import hosted
from scenarios.errors import ScenarioError
from scenarios.generate.compose import generate
from scenarios.generate.core.errors import GenerateError
from scenarios.generate.output_folder import (
    GenerationOrder,
    Manifest,
    WorldRecord,
    find_missing,
    lock_folder,
    write_manifest,
    write_world,
)
from scenarios.generate.plan.world_plans import WorldPlan, plan_worlds

_AT_ONCE = 4  # plans that a process is given together


class Fault(msgspec.Struct, frozen=True):
    """A world that could not be made."""

    name: str
    why: str


class Generated(msgspec.Struct, frozen=True):
    """What came of an order."""

    manifest: Manifest
    num_kept: int  # worlds that were there already
    faults: tuple[Fault, ...]


def generate_worlds(
    order: GenerationOrder,
    count: int,
    folder: Path,
    *,
    jobs: int = 1,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Generated:
    """Make the worlds of an order that a folder lacks. `told` hears how many of how many are there.

    Raises GenerateError for an order that cannot be, a folder that holds something else, and when
    a process died: what was made until then stays, and a rerun makes the rest.
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
        told(len(records), count)
        for made in _made(left, folder, jobs):
            if isinstance(made, Fault):
                faults.append(made)
            else:
                records[made.plan.name] = made
            told(len(records) + len(faults), count)
        there = [records[plan.name] for plan in plans if plan.name in records]
        return Generated(write_manifest(folder, order, there), len(kept), tuple(faults))


def _made(plans: Sequence[WorldPlan], folder: Path, jobs: int) -> Iterator[WorldRecord | Fault]:
    make = partial(make_one, folder)
    if jobs == 1 or len(plans) < 2:
        yield from map(make, plans)
        return
    context: Any = get_context("spawn")  # the same on every system, and safe beside threads
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        try:
            yield from pool.map(make, plans, chunksize=_AT_ONCE)
        except BrokenProcessPool as exc:
            raise GenerateError(
                f"{folder}: a process that made worlds died; run it again to make the rest"
            ) from exc


def make_one(folder: Path, plan: WorldPlan) -> WorldRecord | Fault:
    """Make one world and write it. Raises GenerateError when the disk takes no more."""
    try:
        made = generate(plan, hosted)
    except (ScenarioError, PoolError) as exc:
        return Fault(plan.name, str(exc))
    try:
        return write_world(folder, plan, made)
    except OSError as exc:
        raise GenerateError(f"{folder}: world {plan.name} cannot be written: {exc}") from exc
