"""One running server of a world: its process, its folders, and its state.

A task of the pool opens and closes the connection, so that any task may use it.
"""

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import ToolErrorKind, ToolSpec
from rehearsal_room.envpool.mcp.client import McpSettings, ServerConnection
from rehearsal_room.envpool.mcp_worlds.places import Places
from rehearsal_room.envpool.mcp_worlds.state import ServerState, Start
from rehearsal_room.envpool.seeded.moments import Moments
from rehearsal_room.scenarios.format import Scenario


class RunningServer:
    """A server in the state at its start, until its first call. `run` is its life.

    `start`: the state in which it must start; None: it is the first one.
    """

    state: ServerState  # once it runs

    def __init__(self, scenario: Scenario, start: Start | None) -> None:
        assert scenario.server is not None
        self._scenario = scenario
        self._record = scenario.server
        self._start = start
        self._ending, self._ended = anyio.Event(), anyio.Event()
        self._moments: Moments | None = None
        self._connection: ServerConnection
        self._places: Places
        self.num_calls = 0

    def __repr__(self) -> str:
        return f"<RunningServer of {self._scenario.name!r} [{self.num_calls} calls]>"

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Start the server, report it as started, and end it when `end` is called. Raises
        PoolError where it does not start."""
        try:
            with (
                tempfile.TemporaryDirectory(
                    prefix="rehearse-world-", ignore_cleanup_errors=True
                ) as folder,
                ExitStack() as stack,
            ):
                places = self._places = Places(self._scenario, Path(folder))
                await anyio.to_thread.run_sync(places.prepare)
                server = self._record.server
                self._connection = ServerConnection(
                    McpSettings(server.command, environment=server.environment),
                    _program(self._scenario, places.command()),
                    self._variables(places, Path(folder), stack),
                    folder=places.scratch,
                )
                try:
                    await self._connection.open()
                    ignored = self._record.state.ignore
                    self.state = ServerState(places, ignored, self._start)
                    stack.enter_context(closing(self.state))
                    task_status.started()
                    await self._ending.wait()
                finally:
                    await self._connection.close()
        finally:
            self._ended.set()

    def _variables(self, places: Places, folder: Path, stack: ExitStack) -> dict[str, str]:
        variables = {"TMPDIR": str(places.temporary), **places.variables()}
        if not self._record.server.seeded:
            return variables
        scenario = self._scenario
        moments = Moments(folder / "moments", seed=scenario.name, clock=scenario.clock)
        self._moments = stack.enter_context(closing(moments))
        return {**variables, **moments.variables(variables)}

    @property
    def has_ended(self) -> bool:
        """Whether it was ended, or ended by itself."""
        return self._ended.is_set() or self._connection.has_ended()

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the server listed last."""
        return self._connection.tools

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, ToolErrorKind | None]:
        """The text of a call's result and why it failed (None: it did not). Raises WorldError."""
        self.num_calls += 1
        if self._moments is not None:
            self._moments.begin_call(self.num_calls)
        text, error = await self._connection.call(name, self._places.real(arguments))
        return self._places.shown(text), error

    async def renew_tools(self) -> None:
        """List the tools again where the server has said that they changed. Raises WorldError."""
        await self._connection.renew_tools()

    def put_back(self, start: Start) -> bool:
        """Write the state at the start under the server, which goes on; False: that cannot be."""
        self.num_calls = 0
        if self._moments is not None:
            self._moments.restart()
        return self.state.put_back(start)

    async def end(self) -> None:
        """End the server; returns when it has ended."""
        self._ending.set()
        await self._ended.wait()


def _program(scenario: Scenario, command: tuple[str, ...]) -> tuple[str, ...]:
    """The command, whose program exists. Raises PoolError."""
    if shutil.which(command[0]) is None:
        raise PoolError(
            f"{scenario.path / 'scenario.toml'}: server.command: there is no program {command[0]!r}"
        )
    return command
