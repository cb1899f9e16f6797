"""The states of one hosted scenario: reading them, comparing them, storing them.

Nothing here runs a tool, so it serves every pool, wherever its tools run.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envpool.core.errors import StateError
from envpool.core.types import StoredState, ToolSpec
from envpool.store.database import StateView
from envpool.store.diff import changes_between
from envpool.store.digest import written
from envpool.store.overlay import Overlay, OverlayFile, OverlayVFS
from envpool.store.template import Table, Template, clock_of, same_schema, sum_of, tables_of
from scenarios.api import RowChange, State
from scenarios.format import Scenario


class States:
    """A hosted scenario as those see it who judge, replay and show. `close()` gives its
    connections back."""

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
        self._vfs = vfs or clock_of(scenario)
        self.start_digest = written(template.total)
        self._views: tuple[tuple[OverlayFile, StateView], ...] = ()
        self._seen_odd = False  # the views have shown a schema that is not the template's

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
        """A world's state for the log."""
        pages = {number + 1: page for number, page in overlay.pages.items()}
        return StoredState(self.template.digest, pages, overlay.num_pages, written(overlay.total))

    def restored(self, state: StoredState) -> Overlay:
        """A world of a stored state. Raises StateError when the pages belong to another template.

        The row sum is taken from the digest; `verify_digest` recounts it.
        """
        if state.template != self.template.digest:
            raise StateError(
                f"the state belongs to template {state.template}, but scenario "
                f"{self.scenario.name!r} has template {self.template.digest}"
            )
        pages = {number - 1: page for number, page in state.pages.items()}
        return Overlay(pages, state.num_pages, int(state.digest, 16))

    def verify_digest(self, overlay: Overlay) -> str:
        """The digest of a world's state, counted afresh from its rows."""
        (before, _), _ = self._view_pair(overlay)
        before.show(overlay)
        return written(sum_of(self._view_connections[0], self._tables(0, overlay)))

    def states(
        self, stored: StoredState, changes: Sequence[RowChange] | None = None
    ) -> tuple[State, State]:
        """The start and a stored state, to read from; valid until the next call of this method.

        `changes` (the net changes of the episode, from its log) saves comparing the two.
        """
        overlay = self.restored(stored)
        (before_file, before), (after_file, after) = self._view_pair(overlay)
        before_file.switch(self._start)  # which nobody writes
        after_file.show(overlay)
        if changes is None:
            after.changes = self._changes(self._start, overlay)
        else:
            after.changes = tuple(changes)
        return before, after

    def diff(self, first: Overlay, second: Overlay) -> tuple[RowChange, ...]:
        """The rows that differ between any two states of this scenario."""
        (before_file, _), (after_file, _) = self._view_pair(first, second)
        before_file.show(first)
        after_file.show(second)
        return self._changes(first, second)

    def dump(self, overlay: Overlay) -> dict[str, list[dict[str, Any]]]:
        """Every row of every table, ordered by rowid or key."""
        (file, view), _ = self._view_pair(overlay)
        file.show(overlay)
        return {
            table.name: view.all(f"{table.select_all} ORDER BY {table.order}")
            for table in self._tables(0, overlay).values()
        }

    def close(self) -> None:
        """Close the connections."""
        self._drop_views()
        self._vfs.unregister()

    def _changes(self, first: Overlay, second: Overlay) -> tuple[RowChange, ...]:
        """The rows that differ between the states that the two views show."""
        before, after = self._view_connections
        tables = self._tables(0, first), self._tables(1, second)
        return changes_between(before, after, *tables)

    def _tables(self, view: int, overlay: Overlay) -> Mapping[str, Table]:
        """The tables of the state that a view shows: the template's, unless its code has changed
        the schema."""
        if self._is_odd(overlay):
            return tables_of(self._view_connections[view], self.scenario.path)
        return self.template.tables

    def _is_odd(self, overlay: Overlay) -> bool:
        page = overlay.pages.get(0)
        return page is not None and not same_schema(page, self.template.pages[0])

    def _drop_views(self) -> None:
        for connection in self._view_connections if self._views else ():
            connection.close()
        self._views = ()

    def _view_pair(
        self, *overlays: Overlay
    ) -> tuple[tuple[OverlayFile, StateView], tuple[OverlayFile, StateView]]:
        """Two views that can show these states. SQLite would not notice that a state has another
        schema than another one that was changed as often, so such a state gets fresh views."""
        odd = any(map(self._is_odd, overlays))
        if odd or self._seen_odd:
            self._drop_views()
        self._seen_odd = odd
        if not self._views:
            self._start = self.template.overlay()
            files = [OverlayFile(self.template.pages, self._start) for _ in range(2)]
            connections = [self._vfs.connect(file) for file in files]
            for connection in connections:
                connection.execute("PRAGMA query_only=ON").fetchall()
            scenario = self.scenario
            self._view_connections = (connections[0], connections[1])
            self._views = tuple(
                (file, StateView(connection, scenario.clock, scenario.user))
                for file, connection in zip(files, connections, strict=True)
            )
        return self._views[0], self._views[1]
