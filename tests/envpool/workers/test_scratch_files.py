"""Files that hosted code writes to its scratch folder."""

from pathlib import Path

from rehearsal_room.envpool.workers.pool import OpenSpawner, WorkerPool, WorkerSettings
from tests.support.ledger_world import ledger

TOOLS = '''
import os
from pathlib import Path

from scenarios.api import Db


def note(db: Db, text: str) -> list[str]:
    """Write a file and a folder; returns the files that existed before."""
    found = sorted(os.listdir("."))
    Path("note.txt").write_text(text)
    Path("folder").mkdir()
    Path("folder", "inner.txt").write_text(text)
    return found
'''


async def test_no_world_finds_the_files_of_another(
    tmp_path: Path, open_spawner: OpenSpawner
) -> None:
    """The files of a call are deleted before the next call, of the same or of another world."""
    scenario = ledger(tmp_path / "ledger", tools_py=TOOLS)
    async with (
        WorkerPool(WorkerSettings(workers=1, spare=0), open_spawner=open_spawner) as pool,
        pool.lease(scenario, None) as one,
        pool.lease(scenario, None) as other,
    ):
        for number in range(2):
            for env in (one, other):
                result = await env.call("note", {"text": "mine"}, f"c{number}-0")
                assert (result.error, result.text) == (None, "[]")
