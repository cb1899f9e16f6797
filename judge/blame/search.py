"""Which calls would still lead from a state to the rows that a task's solution leaves.

The rows that differ guide the search: the solution's own writes, and calls of any tool with the
keys and the old values of those rows, so that what was done wrong is undone. Each step takes the
call after which the fewest values differ. A search that finds nothing proves nothing: the tools may
allow a way that takes a detour. What it finds is played and judged. It ends after so many calls, or
so many seconds, with the best that it has found.
"""

from collections.abc import Iterable, Iterator, Sequence

import anyio
import anyio.lowlevel
import msgspec

from rehearsal_room.envpool.core.types import WORLD_FAULTS, Env
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.judge.core.put_right import Logs, is_stamp, left_behind
from rehearsal_room.judge.failures.reference import Reference
from rehearsal_room.judge.failures.rows import row_differences
from rehearsal_room.judge.playback.undoing import undo_calls
from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.format import Call

_MOST_CALLS = 24  # in a way
_MOST_TRIED = 4_000  # calls in one search
_PATIENCE_S = 20.0
Changes = tuple[RowChange, ...]  # of one call


class Way(msgspec.Struct, frozen=True):
    """Calls from a state, and how many values differ from the solution's rows after them."""

    calls: tuple[Call, ...]
    left: int


class _Path:
    """A world on the way."""

    def __init__(self, env: Env, changes: list[Changes], calls: tuple[Call, ...], left: int):
        self.env, self.changes, self.calls, self.left = env, changes, calls, left


class Search:
    """Searches in the worlds of one task. `logs` are the tables whose rows say what was done."""

    def __init__(self, reference: Reference, logs: Logs) -> None:
        self._reference = reference
        self._logs = logs
        self._tried, self._ends_at = 0, 0.0
        self.broken = 0  # calls in which the world failed
        self._writes = [
            call
            for call, result in zip(reference.calls, reference.results, strict=True)
            if result.changes
        ]

    async def way(self, env: Env, changes: Sequence[Changes]) -> Way:
        """The best way that is found from the state of a world, whose calls changed these rows.
        Raises WorldError."""
        self._tried, self._ends_at = 0, anyio.current_time() + _PATIENCE_S
        start = _Path(env, list(changes), (), self._distance(changes))
        direct = await self._descend(start, undoes=False)
        if not direct.left:
            return Way(direct.calls, 0)
        undone = await self._descend(start, undoes=True)
        best = min(direct, undone, key=lambda path: (path.left, len(path.calls)))
        return Way(best.calls, best.left)

    @property
    def _is_over(self) -> bool:
        """Whether enough was tried: a call of a server takes its time."""
        return self._tried >= _MOST_TRIED or anyio.current_time() > self._ends_at

    async def _descend(self, path: _Path, *, undoes: bool) -> _Path:
        while path.left and len(path.calls) < _MOST_CALLS:
            better: _Path | None = None
            for calls in self._candidates(path, undoes=undoes):
                for call in calls:
                    if self._is_over:
                        return better or path
                    tried = await self._try(path, call)
                    if tried is not None and tried.left < (better or path).left:
                        better = tried
                if better is not None:
                    break
            if better is None:
                return path
            path = better
        return path

    def _candidates(self, path: _Path, *, undoes: bool) -> Iterator[Iterable[Call]]:
        """Calls to try, those first that are better."""
        if undoes:
            yield self._undoing(path)
        yield self._writes
        yield self._by_difference(path)

    def _undoing(self, path: _Path) -> Iterator[Call]:
        wrong = row_differences(self._reference, self._net(path.changes)).found
        rows = [one for one in self._net(path.changes) if (one.table, one.key) in wrong]
        seen = set[bytes]()
        for chosen in (*([row] for row in rows), rows):
            for call in undo_calls(path.env.tools, chosen) if chosen else ():
                key = msgspec.json.encode(call)
                if key not in seen:
                    seen.add(key)
                    yield call

    def _by_difference(self, path: _Path) -> Iterator[Call]:
        """The solution's writes with one number that is by how much a value differs still.

        Example: pay(350) where 300 are paid -> pay(50)
        """
        missing = dict.fromkeys(
            then - now
            for one, other in self._differing(path.changes)
            for now, then in _numbers(one, other)
        )
        for call in self._writes:
            for name, value in call.arguments.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    for number in missing:
                        for signed in (number, -number):
                            yield Call(call.name, {**call.arguments, name: signed})

    async def _try(self, path: _Path, call: Call) -> _Path | None:
        """The world after a call; None: it changes nothing."""
        await anyio.lowlevel.checkpoint()
        self._tried += 1
        env = path.env.fork()
        made = await env.call(call.name, call.arguments, f"blame-{self._tried}")
        self.broken += made.error in WORLD_FAULTS
        if not made.changes or made.is_error:
            return None
        changes = [*path.changes, made.changes]
        return _Path(env, changes, (*path.calls, call), self._distance(changes))

    def _net(self, changes: Sequence[Changes]) -> Changes:
        """The net changes, without records of acts that were put right."""
        net = net_changes(changes)
        left = {(one.table, one.key) for one in left_behind(changes, self._logs)}
        return tuple([one for one in net if (one.table, one.key) not in left])

    def _distance(self, changes: Sequence[Changes]) -> int:
        """How many values differ from the rows that the solution leaves: of a row that came or
        went, all of them count as one."""
        net = self._net(changes)
        wrong = row_differences(self._reference, net)
        new = {(one.table, one.key) for one in (*net, *self._reference.changes) if not one.before}
        count = len(wrong.found & new) + len(wrong.expected & new)
        return count + sum(_num_differing(*pair) for pair in self._differing(changes))

    def _differing(self, changes: Sequence[Changes]) -> Iterator[tuple[Row | None, Row | None]]:
        """The rows that are not new and differ: as they are, and as the solution leaves them."""
        net = self._net(changes)
        wrong = row_differences(self._reference, net)
        found = {(one.table, one.key): one for one in net}
        wanted = {(one.table, one.key): one for one in self._reference.changes}
        for row in wrong.found | wrong.expected:
            one, other = found.get(row), wanted.get(row)
            before = next(change.before for change in (one, other) if change is not None)
            if before is not None:
                yield before if one is None else one.after, before if other is None else other.after


def _num_differing(one: Row | None, other: Row | None) -> int:
    if one is None or other is None:
        return int(one is not other)
    names = {name for name in {*one, *other} if not is_stamp(name)}
    return sum(one.get(name) != other.get(name) for name in names)


def _numbers(one: Row | None, other: Row | None) -> Iterator[tuple[float, float]]:
    """The numbers of two rows that differ, as they are and as they should be."""
    for name, value in (one or {}).items():
        then = (other or {}).get(name)
        if all(isinstance(n, int | float) and not isinstance(n, bool) for n in (value, then)):
            assert value is not None and then is not None
            if value != then:
                yield value, then
