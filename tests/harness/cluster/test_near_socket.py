"""The socket between the coordinator and an actor on its node. Without Ray."""

import stat
from pathlib import Path

import anyio
import pytest

from harness.cluster.near_socket import NearSocket, connected_to
from harness.fleet.connection import Connection
from harness.fleet.messages import Ready, from_worker


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_messages_take_it() -> None:
    """What one end sends arrives at the other one."""
    near = NearSocket()
    there = connected_to(near.path)
    assert there is not None
    here = near.accept()
    near.close()
    with here, there:
        actor, coordinator = Connection(there), Connection(here)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(actor.send_all)
            actor.put(Ready("none"))
            assert from_worker(await coordinator.receive()) == Ready("none")
            tasks.cancel_scope.cancel()


def test_no_coordinator() -> None:
    """Other users cannot connect, and nothing is left afterwards; an actor that finds nobody at the
    path has no socket."""
    near = NearSocket()
    folder = Path(near.path).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    near.close()
    assert not folder.exists()
    assert connected_to(near.path) is None
    assert connected_to("") is None


def test_a_path_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder of temporary files has a path that is too long for a socket, the run plays
    without one."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    near = NearSocket()
    assert connected_to(near.path) is None
    near.close()
    assert not list(folder.iterdir())
