"""One scenario, hosted: its template, its tools, and the connections that serve all its episodes.

A call runs to its end without awaiting, in one transaction. When the tool refuses, breaks, runs too
long or gives something that JSON cannot say, the transaction is rolled back: a failed call changes
nothing. Tools here run in this process, so this is for code that is trusted.
"""

from collections import OrderedDict
from typing import Any

import apsw
import msgspec

from envpool.core.types import StoredState, ToolResult
from envpool.inprocess.toolset import BadArguments, Tool, load
from envpool.store.database import Database
from envpool.store.digest import written
from envpool.store.overlay import Overlay, OverlayFile, OverlayVFS
from envpool.store.states import States
from envpool.store.template import Template, build, clock_of
from envpool.store.tracking import Tracker
from scenarios.errors import ToolError
from scenarios.format import Scenario

MAX_STEPS = 20_000_000  # SQLite virtual machine instructions a call may take; about one second
_STRIDE = 100_000  # instructions between two looks at the count
# Connections among which the tools are dealt out. A connection forgets a statement that was not
# among its last 512 executions; a single one would prepare statements anew for 10 µs a call.
_NUM_DESKS = 2
_REMEMBERED = 8  # call ids whose results a lease still knows

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
# Texts that no tool writes: a tool's own COMMIT is another statement, which the authorizer denies.
_BEGIN, _COMMIT, _ROLLBACK = "BEGIN -- call", "COMMIT -- call", "ROLLBACK -- call"
_text = msgspec.json.Encoder().encode


class _Desk:
    """A connection at which calls are served, one at a time."""

    __slots__ = ("connection", "db", "execute", "file", "tracker")

    def __init__(self, vfs: OverlayVFS, template: Template, scenario: Scenario) -> None:
        self.file = OverlayFile(template.pages, template.overlay())
        self.connection = vfs.connect(self.file)
        self.execute = self.connection.execute
        self.tracker = Tracker(self.connection, template.tables)
        self.db = Database(self.connection, scenario.clock, scenario.user)


class HostedScenario(States):
    """A hosted scenario. `close()` gives its connections back.

    `tools` and `template` are for those who have loaded the one or built the other already.
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
        vfs = clock_of(scenario)
        try:
            template = template or build(scenario, vfs)
        except BaseException:
            vfs.unregister()
            raise
        super().__init__(scenario, template, [tool.spec for tool in self._tools.values()], vfs)
        self._desks = tuple(_Desk(self._vfs, self.template, scenario) for _ in range(_NUM_DESKS))
        self._desk_of = {
            name: self._desks[number % _NUM_DESKS] for number, name in enumerate(self._tools)
        }
        self._latest = self._desks[0]  # the desk that served the latest call
        self._max_strides = max(1, max_steps // _STRIDE)
        self._strides = 0
        self._in_tool = False
        for desk in self._desks:
            desk.connection.set_progress_handler(self._count, _STRIDE)
            desk.connection.authorizer = self._authorise
            desk.connection.set_commit_hook(self._commits_too_early)
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
        """A fresh episode's world."""
        self.num_leases += 1
        return Lease(self, self.template.overlay())

    def call(self, overlay: Overlay, name: str, arguments: Any) -> ToolResult:
        """Execute one call on a world. Bad calls are results; a bug here is an exception."""
        self.num_calls += 1
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools)
            return self._failed(
                overlay, f"There is no tool {name!r}. Tools: {known}.", "unknown_tool"
            )
        try:
            checked = tool.arguments(arguments)
        except BadArguments as exc:
            return self._failed(overlay, str(exc), "arguments")
        desk = self._desk_of[name]
        if desk is self._latest:
            desk.file.switch(overlay)
        else:
            desk.file.show(overlay)
            self._latest = desk
        desk.tracker.begin()
        desk.connection.set_last_insert_rowid(0)  # of another world's call
        self._strides = 0
        desk.execute(_BEGIN)
        self._in_tool = True
        try:
            value = tool.function(desk.db, **checked)
            if isinstance(value, str):
                text = value
                if not text.isascii():
                    text.encode()  # raises for what no log can hold
            else:
                text = _text(value).decode()
            self._in_tool = False
            changes, total = desk.tracker.net(overlay.total)
            desk.execute(_COMMIT)
        except ToolError as exc:
            return self._undone(desk, overlay, str(exc), "refused")
        except apsw.InterruptError:
            return self._undone(desk, overlay, f"{name} took too long and was stopped.", "timeout")
        except Exception as exc:
            fault = f"{name} failed with an internal error: {type(exc).__name__}: {exc}"
            return self._undone(desk, overlay, fault, "internal")
        overlay.total = total
        return ToolResult(text, None, changes, written(total))

    def statistics(self) -> dict[str, int]:
        """Counts since the world was hosted."""
        return {"leases": self.num_leases, "calls": self.num_calls}

    def close(self) -> None:
        """Close the connections. Leases are dead after this."""
        for desk in self._desks:
            desk.connection.close()
        super().close()

    def _failed(self, overlay: Overlay, text: str, error: Any) -> ToolResult:
        if not text.isascii():
            text = text.encode(errors="replace").decode()
        return ToolResult(text, error, (), written(overlay.total))

    def _undone(self, desk: _Desk, overlay: Overlay, text: str, error: Any) -> ToolResult:
        self._in_tool = False
        if desk.connection.in_transaction:
            desk.execute(_ROLLBACK)
        return self._failed(overlay, text, error)

    def _commits_too_early(self) -> bool:
        """Whether a commit comes from inside a tool: an INSERT OR ROLLBACK, a trigger or a stopped
        statement has ended the call's transaction, and what the tool writes then must not stay."""
        return self._in_tool

    def _count(self) -> bool:
        self._strides += 1
        return self._strides > self._max_strides

    def _authorise(
        self, op: int, a: str | None, b: str | None, database: str | None, trigger: str | None
    ) -> int:
        if self._in_tool and op in _DENIED:
            return apsw.SQLITE_DENY
        return apsw.SQLITE_OK


class Lease:
    """One episode's world. Cheap: a small dict of changed pages."""

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
        return written(self.overlay.total)

    def call(self, name: str, arguments: Any, call_id: str = "") -> ToolResult:
        """Execute one call; one whose id was among the last few is answered from memory."""
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
        """Back to the start."""
        self.overlay = self.world.template.overlay()
        self._answered = None

    def fork(self) -> "Lease":
        """A second world that goes on from here."""
        self.world.num_leases += 1
        return Lease(self.world, self.overlay.copy())
