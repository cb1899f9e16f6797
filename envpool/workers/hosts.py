"""Which host serves which kind of scenario in a worker."""

from pathlib import Path
from typing import Any

import msgspec

from envpool.hosting.live import LiveWorld
from envpool.types import ToolResult
from envpool.workers.wire import Load, Verified, Verify
from envpool.workers.worker import Host
from envpool.world import World
from scenarios.format import Scenario


class _Package:
    """Interim."""

    memory = b""
    num_statements = 0
    seed_faults = ()
    notes = ()

    def __init__(self, request: Load, scratch: Path) -> None:
        folder = scratch / request.scenario.digest
        folder.mkdir()
        for name, text in request.sources.items():
            (folder / name).write_text(text)
        self._world = World(msgspec.structs.replace(request.scenario, path=folder))
        self.template = self._world.template
        self.tools = self._world.tools

    def call(self, world: LiveWorld, name: str, arguments: Any) -> ToolResult:
        return self._world.call(world.overlay, name, arguments)

    def close(self) -> None:
        self._world.close()


class Hosts:
    def __init__(self, scratch: str) -> None:
        self._scratch = Path(scratch)

    def open(self, request: Load) -> Host:
        return _Package(request, self._scratch)

    def verify(self, scenario: Scenario, host: Host, request: Verify) -> Verified:
        raise AssertionError
