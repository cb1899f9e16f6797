"""One hosted scenario: its template, its tools, and the connections that serve all its episodes.

A call runs to its end without awaiting, in one transaction. When the tool refuses, breaks, runs too
long or returns a value that JSON cannot represent, the transaction is rolled back: a failed call
changes nothing. Tools run in this process, so this is for trusted code.

Written by hand, like the store below it: all episodes share two connections, so a lease takes
0.43 µs and a call 1.3 times a call on a warm connection of its own (docs/performance.md).
"""

from collections import OrderedDict
from typing import Any

import apsw
import msgspec

from rehearsal_room.envpool.core.types import StoredState, ToolErrorKind, ToolResult
from rehearsal_room.envpool.inprocess.toolset import BadArguments, Tool, load
from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.envpool.store.database import Database
from rehearsal_room.envpool.store.digest import hex_digest
from rehearsal_room.envpool.store.overlay import Overlay, OverlayFile, OverlayVFS
from rehearsal_room.envpool.store.template import Template, build, make_vfs
from rehearsal_room.envpool.store.tracking import Tracker
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.format import Scenario

MAX_STEPS = 20_000_000  # SQLite virtual machine instructions a call may take; about one second
_STRIDE = 100_000  # instructions between two checks of the count
# Connections over which the tools are distributed. A connection drops a prepared statement that was
# not among its last 512 executions; a single one would spend 10 µs a call on preparing again.
_NUM_CONNECTIONS = 2
_REMEMBERED = 8  # call ids whose results a lease remembers

_DENIED = frozenset(
    {
        apsw.SQLITE_ATTACH,
        apsw.SQLITE_DETACH,
        apsw.SQLITE_PRAGMA,
        apsw.SQLITE_TRANSACTION,
        apsw.SQLITE_ALTER_TABLE,
        apsw.SQLITE_REINDEX,
        apsw.SQLITE_ANALYZE,
        apsw.SQLITE_CREATE_INDEX,
        apsw.SQLITE_CREATE_TABLE,
        apsw.SQLITE_CREATE_TEMP_INDEX,
        apsw.SQLITE_CREATE_TEMP_TABLE,
        apsw.SQLITE_CREATE_TEMP_TRIGGER,
        apsw.SQLITE_CREATE_TEMP_VIEW,
        apsw.SQLITE_CREATE_TRIGGER,
        apsw.SQLITE_CREATE_VIEW,
        apsw.SQLITE_CREATE_VTABLE,
        apsw.SQLITE_DROP_INDEX,
        apsw.SQLITE_DROP_TABLE,
        apsw.SQLITE_DROP_TEMP_INDEX,
        apsw.SQLITE_DROP_TEMP_TABLE,
        apsw.SQLITE_DROP_TEMP_TRIGGER,
        apsw.SQLITE_DROP_TEMP_VIEW,
        apsw.SQLITE_DROP_TRIGGER,
        apsw.SQLITE_DROP_VIEW,
        apsw.SQLITE_DROP_VTABLE,
    }
)
# No tool writes these texts: a tool's own COMMIT is another statement, which the authorizer denies.
_BEGIN, _COMMIT, _ROLLBACK = "BEGIN -- call", "COMMIT -- call", "ROLLBACK -- call"
_text = msgspec.json.Encoder().encode


class _ToolConnection:
    """A connection that serves the calls of some tools, one at a time."""

    __slots__ = ("db", "execute", "file", "sqlite", "tracker")

    def __init__(self, vfs: OverlayVFS, template: Template, scenario: Scenario) -> None:
        self.file = OverlayFile(template.pages, template.overlay())
        self.sqlite = vfs.connect(self.file)
        self.execute = self.sqlite.execute
        self.tracker = Tracker(self.sqlite, template.tables)
        self.db = Database(self.sqlite, scenario.clock, scenario.user)


class HostedScenario(BlockingWorld):
    """A hosted scenario. `close()` closes its connections.

    A caller that has already loaded the tools or built the template passes `tools` or `template`.
    Raises SeedError and ToolsetError when the package cannot be hosted.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        max_steps: int = MAX_STEPS,
        tools: dict[str, Tool] | None = None,
        template: Template | None = None,
    ) -> None:
        self._tools = load(scenario) if tools is None else tools
        vfs = make_vfs(scenario)
        try:
            template = template or build(scenario, vfs)
        except BaseException:
            vfs.unregister()
            raise
        super().__init__(scenario, template, [tool.spec for tool in self._tools.values()], vfs)
        self._connections = tuple(
            _ToolConnection(self._vfs, self.template, scenario) for _ in range(_NUM_CONNECTIONS)
        )
        self._connection_of = {
            name: self._connections[index % _NUM_CONNECTIONS]
            for index, name in enumerate(self._tools)
        }
        self._latest = self._connections[0]  # it served the latest call
        self._max_strides = max(1, max_steps // _STRIDE)
        self._strides = 0
        self._in_tool = False
        for connection in self._connections:
            connection.sqlite.set_progress_handler(self._is_past_limit, _STRIDE)
            connection.sqlite.authorizer = self._authorize
            connection.sqlite.set_commit_hook(self._commits_too_early)
        self.num_leases = 0
        self.num_calls = 0

    def __repr__(self) -> str:
        template = self.template
        return (
            f"<HostedScenario {self.scenario.name!r} [{len(template.tables)} tables, "
            f"{len(template.pages)} pages, {len(self.tools)} tools | "
            f"{self.num_leases} leases, {self.num_calls} calls]>"
        )

    def lease(self) -> "Lease":
        """The world of a new episode."""
        self.num_leases += 1
        return Lease(self, self.template.overlay())

    def lease_at(self, lease: "Lease") -> "Lease":
        """A world of this host in the state of a lease, which another host may have made."""
        return Lease(self, lease.overlay)

    def call(self, overlay: Overlay, name: str, arguments: Any) -> ToolResult:
        """Execute one call on a world. A bad call is a result; an exception is a bug here."""
        self.num_calls += 1
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools)
            return self._failure(
                overlay, f"There is no tool {name!r}. Tools: {known}.", "unknown_tool"
            )
        try:
            checked = tool.arguments(arguments)
        except BadArguments as exc:
            return self._failure(overlay, str(exc), "arguments")
        connection = self._connection_of[name]
        if connection is self._latest:
            connection.file.switch(overlay)
        else:
            connection.file.reload(overlay)
            self._latest = connection
        connection.tracker.begin()
        connection.sqlite.set_last_insert_rowid(0)  # it is still that of another world's call
        self._strides = 0
        connection.execute(_BEGIN)
        self._in_tool = True
        try:
            value = tool.function(connection.db, **checked)
            if isinstance(value, str):
                text = value
                if not text.isascii():
                    text.encode()  # raises for text that a log cannot hold
            else:
                text = _text(value).decode()
            self._in_tool = False
            changes, total = connection.tracker.net(overlay.total)
            connection.execute(_COMMIT)
        except ToolError as exc:
            return self._roll_back(connection, overlay, str(exc), "refused")
        except apsw.InterruptError:
            text = f"{name} took too long and was stopped."
            return self._roll_back(connection, overlay, text, "timeout")
        except Exception as exc:
            fault = f"{name} failed with an internal error: {type(exc).__name__}: {exc}"
            return self._roll_back(connection, overlay, fault, "internal")
        overlay.total = total
        return ToolResult(text, None, changes, hex_digest(total))

    def statistics(self) -> dict[str, int]:
        """Counts since the world was hosted."""
        return {"leases": self.num_leases, "calls": self.num_calls}

    def close(self) -> None:
        """Close the connections. Leases cannot be used after this."""
        for connection in self._connections:
            connection.sqlite.close()
        super().close()

    def _failure(self, overlay: Overlay, text: str, error: ToolErrorKind) -> ToolResult:
        if not text.isascii():
            text = text.encode(errors="replace").decode()
        return ToolResult(text, error, (), hex_digest(overlay.total))

    def _roll_back(
        self, connection: _ToolConnection, overlay: Overlay, text: str, error: ToolErrorKind
    ) -> ToolResult:
        """Undo the call; returns its failure."""
        self._in_tool = False
        if connection.sqlite.in_transaction:
            connection.execute(_ROLLBACK)
        return self._failure(overlay, text, error)

    def _commits_too_early(self) -> bool:
        """Whether a commit comes from inside a tool: an INSERT OR ROLLBACK, a trigger or a stopped
        statement has ended the call's transaction, and later writes of the tool must not stay."""
        return self._in_tool

    def _is_past_limit(self) -> bool:
        self._strides += 1
        return self._strides > self._max_strides

    def _authorize(
        self, op: int, a: str | None, b: str | None, database: str | None, trigger: str | None
    ) -> int:
        if self._in_tool and op in _DENIED:
            # A full-text index asks for the data version before it reads.
            is_read = op == apsw.SQLITE_PRAGMA and a == "data_version" and b is None
            return apsw.SQLITE_OK if is_read else apsw.SQLITE_DENY
        return apsw.SQLITE_OK


class Lease:
    """The world of one episode. Cheap: a small dict of changed pages."""

    __slots__ = ("_answered", "overlay", "world")

    def __init__(self, world: HostedScenario, overlay: Overlay) -> None:
        self.world = world
        self.overlay = overlay
        self._answered: OrderedDict[str, ToolResult] | None = None

    def __repr__(self) -> str:
        return (
            f"<Lease of {self.world.scenario.name!r} [{len(self.overlay.pages)} changed pages, "
            f"digest {self.digest[:8]}]>"
        )

    @property
    def start_digest(self) -> str:
        """The digest of the state in which every lease of this scenario starts."""
        return self.world.start_digest

    @property
    def digest(self) -> str:
        """The state's digest now."""
        return hex_digest(self.overlay.total)

    def call(self, name: str, arguments: Any, call_id: str = "") -> ToolResult:
        """Execute one call; one whose id was among the last few returns the remembered result."""
        answered = self._answered
        if answered is None:
            answered = self._answered = OrderedDict()
        elif call_id and call_id in answered:
            return answered[call_id]
        result = self.world.call(self.overlay, name, arguments)
        if call_id:
            answered[call_id] = result
            if len(answered) > _REMEMBERED:
                answered.popitem(last=False)
        return result

    def state(self) -> StoredState:
        """The state now, as changed pages."""
        return self.world.stored(self.overlay)

    def reset(self) -> None:
        """Return to the start."""
        self.overlay = self.world.template.overlay()
        self._answered = None

    def fork(self) -> "Lease":
        """A second world that continues from here."""
        self.world.num_leases += 1
        return Lease(self.world, self.overlay.copy())
