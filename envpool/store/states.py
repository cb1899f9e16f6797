"""The states of one hosted scenario: read, compare and store them.

Nothing here runs a tool, so every pool uses it, whether its tools run in this process or elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import apsw

from rehearsal_room.envpool.core.errors import StateError
from rehearsal_room.envpool.core.remote_states import Loaded, Snapshot
from rehearsal_room.envpool.core.types import StoredState, ToolSpec
from rehearsal_room.envpool.store.database import StateView
from rehearsal_room.envpool.store.diff import changes_between
from rehearsal_room.envpool.store.digest import hex_digest
from rehearsal_room.envpool.store.overlay import PAGE, Overlay, OverlayFile, OverlayVFS
from rehearsal_room.envpool.store.template import (
    TableSchema,
    Template,
    make_vfs,
    same_schema,
    sum_of,
    tables_of,
    template_of,
)
from rehearsal_room.scenarios.api import RowChange, State
from rehearsal_room.scenarios.format import Scenario

_STRIDE = 100_000  # SQLite virtual machine instructions, about 5 ms


class States:
    """Read access to the states of a hosted scenario, for judges, replay and display.

    `loaded` is the report of the worker that built it; None: no worker of this pool did.
    `close()` closes its connections.
    """

    loaded: Loaded | None = None

    def __init__(
        self,
        scenario: Scenario,
        template: Template,
        tools: Iterable[ToolSpec],
        vfs: OverlayVFS | None = None,
    ) -> None:
        self.scenario = scenario
        self.template = template
        self.tools: tuple[ToolSpec, ...] = tuple(tools)
        self._vfs = vfs or make_vfs(scenario)
        self.start_digest = hex_digest(template.total)
        self._views: tuple[tuple[OverlayFile, StateView], ...] = ()
        self._views_changed_schema = (
            False  # the views have shown a schema other than the template's
        )

    def __repr__(self) -> str:
        template = self.template
        return (
            f"<{type(self).__name__} {self.scenario.name!r} [{len(template.tables)} tables, "
            f"{len(template.pages)} pages, {len(self.tools)} tools]>"
        )

    @property
    def start(self) -> StoredState:
        """The state in which every world of the scenario starts."""
        return self.stored(self.template.overlay())

    def stored(self, overlay: Overlay) -> StoredState:
        """The state of a world, as the log stores it."""
        pages = {number + 1: page for number, page in overlay.pages.items()}
        return StoredState(
            self.template.digest, pages, overlay.num_pages, hex_digest(overlay.total)
        )

    def restored(self, state: StoredState) -> Overlay:
        """The world of a stored state. Raises StateError when the pages belong to another template.

        The row sum is taken from the digest; `verify_digest` recounts it.
        """
        if state.template != self.template.digest:
            raise StateError(
                f"the state belongs to template {state.template}, but scenario "
                f"{self.scenario.name!r} has template {self.template.digest}"
            )
        pages = {number - 1: page for number, page in state.pages.items()}
        return Overlay(pages, state.num_pages, int(state.digest, 16))

    def snapshot_of(self, state: StoredState) -> Snapshot:
        """A stored state in the form that is sent; its module state is unknown."""
        pages = {number - 1: page for number, page in state.pages.items()}
        return Snapshot(pages, state.num_pages, state.digest)

    def verify_digest(self, overlay: Overlay) -> str:
        """The digest of a world's state, recomputed from its rows."""
        (before, _), _ = self._view_pair(overlay)
        before.reload(overlay)
        return hex_digest(sum_of(self._view_connections[0], self._tables(0, overlay)))

    def states(
        self, stored: StoredState, changes: Sequence[RowChange] | None = None
    ) -> tuple[State, State]:
        """Views of the start and of a stored state; valid until the next call of this method.

        `changes` (the net changes of the episode, from its log) saves comparing the two.
        """
        overlay = self.restored(stored)
        (before_file, before), (after_file, after) = self._view_pair(overlay)
        before_file.switch(self._start)  # it is never written
        after_file.reload(overlay)
        if changes is None:
            after.changes = self._changes(self._start, overlay)
        else:
            after.changes = tuple(changes)
        return before, after

    def reverted(self, stored: StoredState, changes: Iterable[RowChange]) -> StoredState:
        """A stored state in which these rows are as they were before their changes. Triggers do not
        run. Raises StateError for a state of another template, or where a row cannot be written."""
        overlay = self.restored(stored)
        file = OverlayFile(self.template.pages, overlay)
        with closing(self._vfs.connect(file)) as connection:
            for trait in (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, apsw.SQLITE_DBCONFIG_ENABLE_FKEY):
                connection.config(trait, 0)
            changed = self._has_changed_schema(overlay)
            tables = tables_of(connection, self.scenario.path) if changed else self.template.tables
            try:
                with connection:
                    for change in changes:
                        connection.execute(*tables[change.table].reverting(change))
                overlay.total = sum_of(connection, tables)
            except (apsw.Error, KeyError) as exc:
                why = f"a row of table {change.table!r} cannot be put back: {exc}"
                raise StateError(why) from exc
        return self.stored(overlay)

    def diff(self, first: Overlay, second: Overlay) -> tuple[RowChange, ...]:
        """The rows that differ between any two states of this scenario."""
        (before_file, _), (after_file, _) = self._view_pair(first, second)
        before_file.reload(first)
        after_file.reload(second)
        return self._changes(first, second)

    def dump(self, overlay: Overlay) -> dict[str, list[dict[str, Any]]]:
        """Every row of every table, ordered by rowid or key."""
        (file, view), _ = self._view_pair(overlay)
        file.reload(overlay)
        return {
            table.name: view.all(f"{table.select_all} ORDER BY {table.order}")
            for table in self._tables(0, overlay).values()
        }

    def close(self) -> None:
        """Close the connections."""
        self.drop_views()
        self._vfs.unregister()

    def _changes(self, first: Overlay, second: Overlay) -> tuple[RowChange, ...]:
        """The rows that differ between the states that the two views show."""
        before, after = self._view_connections
        tables = self._tables(0, first), self._tables(1, second)
        return changes_between(before, after, *tables)

    def _tables(self, view: int, overlay: Overlay) -> Mapping[str, TableSchema]:
        """The tables of the state that a view shows: the template's, unless a tool has changed the
        schema."""
        if self._has_changed_schema(overlay):
            return tables_of(self._view_connections[view], self.scenario.path)
        return self.template.tables

    def _has_changed_schema(self, overlay: Overlay) -> bool:
        page = overlay.pages.get(0)
        return page is not None and not same_schema(page, self.template.pages[0])

    def drop_views(self) -> None:
        """Close the connections that show states; the next state gets new ones."""
        for connection in self._view_connections if self._views else ():
            connection.close()
        self._views = ()

    def _view_pair(
        self, *overlays: Overlay
    ) -> tuple[tuple[OverlayFile, StateView], tuple[OverlayFile, StateView]]:
        """Two views that can show these states.

        SQLite compares schemas by a counter of changes, so it would take two schemas that were
        changed equally often for one. A state with a changed schema therefore gets new views.
        """
        changed = any(map(self._has_changed_schema, overlays))
        if changed or self._views_changed_schema:
            self.drop_views()
        self._views_changed_schema = changed
        if not self._views:
            self._start = self.template.overlay()
            files = [OverlayFile(self.template.pages, self._start) for _ in range(2)]
            connections = [self._vfs.connect(file) for file in files]
            for connection in connections:
                connection.execute("PRAGMA query_only=ON").fetchall()
                connection.set_progress_handler(_go_on, _STRIDE, id=_go_on)  # beside the limit's
            scenario = self.scenario
            self._view_connections = (connections[0], connections[1])
            self._views = tuple(
                (file, StateView(connection, scenario.clock, scenario.user))
                for file, connection in zip(files, connections, strict=True)
            )
        return self._views[0], self._views[1]


def _go_on() -> bool:
    """Python handles signals here, so that a long query can be stopped (judge.code.interrupts)."""
    return False


def states_of_image(scenario: Scenario, image: bytes) -> States:
    """The states of a scenario whose template has these pages; to be closed. Nothing of the
    package's code runs. Raises SeedError."""
    vfs = make_vfs(scenario)
    pages = tuple(image[at : at + PAGE] for at in range(0, len(image), PAGE))
    try:
        template = template_of(pages, vfs, scenario.path / "schema.sql")
    except BaseException:
        vfs.unregister()
        raise
    return States(scenario, template, (), vfs)
