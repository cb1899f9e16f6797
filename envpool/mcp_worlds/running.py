"""The running servers of one world: their processes, their folders, and their state.

A task of the pool opens and closes the connections, so that any task may use them.
"""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.envpool.core.types import ServerRequest, ToolErrorKind, ToolSpec
from rehearsal_room.envpool.mcp.asks import Answerer, AskMode
from rehearsal_room.envpool.mcp.client import McpSettings, ServerConnection
from rehearsal_room.envpool.mcp.joined import JoinedConnections
from rehearsal_room.envpool.mcp_worlds.databases import ProcessDatabase, WorldDatabases
from rehearsal_room.envpool.mcp_worlds.held import held
from rehearsal_room.envpool.mcp_worlds.places import Places
from rehearsal_room.envpool.mcp_worlds.server import Way
from rehearsal_room.envpool.mcp_worlds.state import ServerState, Start
from rehearsal_room.envpool.seeded.moments import Moments
from rehearsal_room.scenarios.core.server_record import ServerCommand
from rehearsal_room.scenarios.format import Scenario


class RunningServer:
    """A world's server, or its servers, in the state at the start until the first call. `run` is
    its life.

    `start`: the state of another one at its start; None: it is the first one. `databases`: those of
    a world on PostgreSQL.
    """

    state: ServerState  # once it runs

    def __init__(
        self,
        scenario: Scenario,
        start: Start | None,
        *,
        isolate: bool = False,
        databases: WorldDatabases | None = None,
    ) -> None:
        assert scenario.server is not None
        self._scenario = scenario
        self._record = scenario.server
        self._start = start
        self._isolate = isolate
        self._databases = databases
        self._postgres: ProcessDatabase | None = None
        self._ending, self._ended = anyio.Event(), anyio.Event()
        self._moments: Moments | None = None
        self._connections: list[ServerConnection] = []
        self._joined: ServerConnection | JoinedConnections  # once it runs
        self._places: Places  # once it runs
        self.num_calls = 0
        self.is_unused = True
        self.served: set[Way] = set()

    def __repr__(self) -> str:
        return f"<RunningServer of {self._scenario.name!r} [{self.num_calls} calls]>"

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Start the server, report it as started, and end it when `end` is called. Raises
        PoolError where it does not start."""
        try:
            with own_folder("world") as folder, ExitStack() as stack:
                if self._databases is not None:
                    self._postgres = await anyio.to_thread.run_sync(self._databases.copy)
                places = self._places = Places(self._scenario, folder, self._postgres)
                try:
                    await anyio.to_thread.run_sync(places.prepare)
                    await self._open(places, folder, stack)
                    ignored = self._record.state.ignore
                    files = self._record.state.ignore_files
                    self.state = ServerState(
                        *(places, ignored, self._start, files),
                        holds_logs=self._record.state.journal == "wal",
                    )
                    stack.enter_context(closing(self.state))
                    task_status.started()
                    await self._ending.wait()
                finally:
                    for connection in reversed(self._connections):
                        await connection.close()
                    if self._postgres is not None:
                        with anyio.CancelScope(shield=True):
                            await anyio.to_thread.run_sync(self._postgres.drop)
        finally:
            self._ended.set()

    async def _open(self, places: Places, folder: Path, stack: ExitStack) -> None:
        """Start the servers, one after the other: the next may read what the last one made."""
        for server in self._record.servers:
            settings = McpSettings(
                server.command,
                environment=() if self._isolate else server.environment,
                name=server.name,
                ask=server.ask,
                has_resources=server.resources,
            )
            connection = ServerConnection(
                settings,
                self._command(server, places, folder),
                self._variables(server, places, folder, stack),
                folder=places.scratch,
            )
            self._connections.append(connection)
            await connection.open()
        first, *others = self._connections
        names = [server.name for server in self._record.servers]
        self._joined = JoinedConnections(self._connections, names) if others else first

    def _command(self, server: ServerCommand, places: Places, folder: Path) -> tuple[str, ...]:
        """The words that start a server. Raises PoolError where its program is missing."""
        command = _program(self._scenario, places.command(server))
        if not self._isolate:
            return command
        package = self._scenario.path
        return held(command, package=package, folder=folder, start=places.scratch)

    def _variables(
        self, server: ServerCommand, places: Places, folder: Path, stack: ExitStack
    ) -> dict[str, str]:
        variables = {"TMPDIR": str(places.temporary), **places.variables(server)}
        if not server.seeded:
            return variables
        if self._moments is None:
            scenario = self._scenario
            moments = Moments(folder / "moments", seed=scenario.name, clock=scenario.clock)
            self._moments = stack.enter_context(closing(moments))
        return {**variables, **self._moments.variables(variables)}

    @property
    def has_ended(self) -> bool:
        """Whether it was ended, or ended by itself."""
        return self._ended.is_set() or any(one.has_ended() for one in self._connections)

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the server listed last."""
        return self._joined.tools

    @property
    def is_seeded(self) -> bool:
        """Whether its ids and times follow from the calls: all its servers are seeded, and an
        interpreter that can be has read so."""
        seeded = all(server.seeded for server in self._record.servers)
        return seeded and self._moments is not None and bool(self._moments.loaded())

    @property
    def asks(self) -> AskMode:
        """Who is to answer what the servers ask during a call."""
        return self._joined.asks

    def answer_with(self, answerer: Answerer) -> None:
        """Let this function answer what the servers ask from now on."""
        self._joined.answer_with(answerer)

    @property
    def last_asked(self) -> tuple[ServerRequest, ...]:
        """What a server asked during the last call."""
        return self._joined.last_asked

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, ToolErrorKind | None]:
        """The text of a call's result and why it failed (None: it did not). Raises WorldError."""
        self.num_calls += 1
        self.is_unused = False
        if self._moments is not None:
            self._moments.begin_call(self.num_calls)
        if self._postgres is not None:
            self._postgres.begin_call(self.num_calls)
        text, error = await self._joined.call(name, self._places.real(arguments))
        if settle_ms := self._record.state.settle_ms:
            await anyio.sleep(settle_ms / 1000)
        return self._places.shown(text), error

    async def renew_tools(self) -> None:
        """List the tools again where the server has said that they changed. Raises WorldError."""
        await self._joined.renew_tools()

    def put_back(self, start: Start) -> bool:
        """Write the state at the start under the server, which goes on; False: that cannot be."""
        self.num_calls = 0
        if self._moments is not None:
            self._moments.restart()
        if self._postgres is not None:
            self._postgres.begin_call(0)
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
