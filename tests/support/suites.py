"""A small benchmark in the format of the BFCL (tests/fixtures/suites): its data and its worlds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.bfcl_entries import BfclData
from tests.support.paths import SUITES

DATA = BfclData(SUITES / "bfcl_eval", "1", suite="bfcl_v3")


def entry(category: str, number: int = 0) -> Scenario:
    """One entry of a category."""
    return DATA.scenarios(category)[number]


@asynccontextmanager
async def object_pool() -> AsyncIterator[ObjectPool]:
    """A pool of the small benchmark's worlds."""
    async with ObjectPool(ProgramSettings("bfcl", DATA.options())) as pool:
        yield pool
