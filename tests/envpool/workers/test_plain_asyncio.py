"""The pool of workers on an event loop that anyio did not start."""

import asyncio
from pathlib import Path

import pytest

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings
from tests.support.ledger_world import ledger

TOOLS = '''
import os

from scenarios.api import Db


def die(db: Db) -> None:
    """End the process."""
    os._exit(3)


def fine(db: Db) -> int:
    """Return one."""
    return 1
'''


@pytest.mark.slow
def test_workers_are_replaced_under_asyncio_run(tmp_path: Path) -> None:
    """A worker that dies ends its episode and is replaced, as it is under anyio.run."""
    scenario = ledger(tmp_path / "ledger", tools_py=TOOLS)

    async def play() -> list[str]:
        texts = []
        async with WorkerPool(WorkerSettings(workers=1, spare=0)) as pool:
            for name in ("die", "fine", "die", "fine"):
                async with pool.lease(scenario, None) as env:
                    try:
                        texts.append((await env.call(name, {}, "c0-0")).text)
                    except WorldError as exc:
                        texts.append(str(exc).partition("it ended ")[2])
        return texts

    ended = "with exit status 3, which the code chose"
    assert asyncio.run(asyncio.wait_for(play(), 50)) == [ended, "1", ended, "1"]
