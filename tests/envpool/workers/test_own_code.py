"""What of our own code a worker has loaded, and what it can read."""

import json
from pathlib import Path

import pytest

from rehearsal_room.envpool.workers.pool import OpenSpawner, WorkerPool, WorkerSettings
from rehearsal_room.envpool.workers.sandbox import LOWEST, _without
from tests.support.hidden_sources import LEVELS, attempts, faults, levels_here
from tests.support.ledger_world import ledger

_TOOLS = '''
import sys
from scenarios.api import Db

def modules(db: Db) -> list[str]:
    """The modules that this process has."""
    return sorted(name for name in sys.modules if name.partition(".")[0] in OURS)

OURS = ("rehearsal_room", "envpool", "harness", "judge", "learner", "scenarios")
'''


async def test_a_worker_and_its_fork_server_have_no_higher_package(
    open_spawner: OpenSpawner, tmp_path: Path
) -> None:
    """A worker has what the fork server imported and what its world needs: of our modules those of
    envpool and scenarios, under these names only, and no module of the harness, judge, learner or
    roof."""
    async with (
        WorkerPool(WorkerSettings(workers=1), open_spawner=open_spawner) as pool,
        pool.lease(ledger(tmp_path, tools_py=_TOOLS), None) as env,
    ):
        result = await env.call("modules", {}, "")
    assert result.error is None
    found = json.loads(result.text)
    packages = {".".join(name.split(".")[:2]) for name in found}
    assert packages == {"rehearsal_room", "rehearsal_room.envpool", "rehearsal_room.scenarios"}
    # What the fork server itself has imported; its own module is `__main__` there.
    assert {f"rehearsal_room.envpool.workers.{name}" for name in ("worker", "fork_wire")} <= {
        *found
    }


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_the_sandbox_hides_our_sources(level: str) -> None:
    """Hostile code can neither list, read nor import the bundled worlds, judge, learner, harness or
    roof, by whichever path; what it needs of envpool and scenarios it can read."""
    if level not in levels_here():
        pytest.skip(f"{level} is not available here")
    assert faults(level) == []


@pytest.mark.slow
def test_each_attempt_succeeds_without_the_sandbox() -> None:
    """So that a failure of an attempt is the sandbox's doing."""
    assert len(faults(LOWEST)) == len(attempts())


def test_a_hidden_folder_is_left_out_of_a_prefix(tmp_path: Path) -> None:
    """Of an environment that contains our package everything beside it stays readable; no link
    leads back to it."""
    prefix = tmp_path / "venv"
    ours = prefix / "lib" / "python3" / "site-packages" / "rehearsal_room"
    (ours / "judge").mkdir(parents=True)
    (prefix / "bin").mkdir()
    (ours.parent / "msgspec").mkdir()
    (prefix / "lib" / "python3" / "os.py").touch()
    (prefix / "lib64").symlink_to("lib")
    (prefix / "bin" / "judge").symlink_to(ours / "judge")
    (prefix / "again").symlink_to(".")
    (prefix / "other").symlink_to(tmp_path)
    (ours.parent / "alias").symlink_to("rehearsal_room")
    beside = tmp_path / "elsewhere"
    beside.mkdir()
    lib = prefix / "lib" / "python3"
    kept = [prefix / "bin", lib / "os.py", lib / "site-packages" / "msgspec"]
    assert _without(prefix, ours) == kept
    assert _without(beside, ours) == [beside]
    assert _without(ours, ours) == []
    (tmp_path / "link").symlink_to(prefix)
    assert _without(tmp_path / "link", ours) == [
        tmp_path / "link" / path.relative_to(prefix) for path in kept
    ]
