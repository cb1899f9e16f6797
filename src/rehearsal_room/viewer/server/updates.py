"""Indexes are kept up to date while somebody looks at them.

An index is folded in a thread, one page after the other, until it has all of the log. While the run
is live and somebody looks, the log is looked at again and again, so rarely that folding takes at
most a tenth of one core. What went wrong in the episodes of an old log is found after that, in
another thread.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from threading import Event

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from rehearsal_room.harness.core.errors import HarnessError
from rehearsal_room.viewer.index.reasons import find_reasons
from rehearsal_room.viewer.reading.open_runs import ShownRun

POLL_S = 0.5  # between two looks at the log of a live run, at least
_SHARE = 9  # times as long as a look took, the next one waits
_LOOKED_S = 20.0  # after the last request a live run is not followed any longer
_AGAIN_S = 0.2
_log = structlog.get_logger(__name__)


class _Updated:
    """One run whose index is being folded."""

    def __init__(self) -> None:
        self.changed = anyio.Event()  # replaced whenever it was set
        self.looked_at = 0.0
        self.watchers = 0
        self.caught_up = anyio.Event()


class IndexUpdates:
    """Folds the indexes of runs. `open_updates` makes it."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._updated: dict[ShownRun, _Updated] = {}
        self._core = anyio.CapacityLimiter(1)  # one core for all of them
        self._finding = anyio.CapacityLimiter(1)  # of reasons: one run at a time
        self._stopped = Event()

    async def look(self, run: ShownRun, *, wait_s: float = 1.0) -> None:
        """Bring the index of a run up to date, or as far as it comes in so many seconds; then in
        the background. Raises HarnessError where the run cannot be read."""
        await anyio.to_thread.run_sync(run.index)
        updated = self._update(run)
        with anyio.move_on_after(wait_s):
            await updated.caught_up.wait()

    def wake(self) -> None:
        """End all waiting: the server closes."""
        self._stopped.set()
        for updated in self._updated.values():
            _tell(updated)

    async def next_change(self, run: ShownRun, timeout_s: float) -> bool:
        """Wait until more of a run is folded, or so many seconds; whether the run may still
        change."""
        updated = self._updated.get(run)
        if updated is None:
            return False
        with anyio.move_on_after(timeout_s):
            await updated.changed.wait()
        return run in self._updated

    @asynccontextmanager
    async def watching(self, run: ShownRun) -> AsyncIterator[None]:
        """A block in which somebody looks at a run all the time."""
        await self.look(run)
        updated = self._update(run)
        updated.watchers += 1
        try:
            yield
        finally:
            updated.watchers -= 1

    def _update(self, run: ShownRun) -> _Updated:
        updated = self._updated.get(run)
        if updated is None:
            updated = self._updated[run] = _Updated()
            self._group.start_soon(self._fold, run, updated)
        updated.looked_at = anyio.current_time()
        return updated

    async def _fold(self, run: ShownRun, updated: _Updated) -> None:
        try:
            while True:
                before = anyio.current_time()
                is_live = await anyio.to_thread.run_sync(run.is_live)
                if await self._fold_all(run, updated):
                    _tell(updated)
                updated.caught_up.set()
                await self._find_reasons(run, updated, batches=1 if is_live else None)
                now = anyio.current_time()
                if not is_live and not await self._is_live_again(run):
                    await self._fold_all(run, updated)
                    await self._find_reasons(run, updated)
                    return
                if not updated.watchers and now - updated.looked_at > _LOOKED_S:
                    return
                await anyio.sleep(max(POLL_S, _SHARE * (now - before)))
                updated.caught_up = anyio.Event()
        except HarnessError as exc:
            _log.warning("index_stopped", run=str(run.folder), why=str(exc))
        finally:
            self._updated.pop(run, None)
            updated.caught_up.set()
            updated.changed.set()

    async def _is_live_again(self, run: ShownRun) -> bool:
        """Whether a run that nobody wrote a moment ago is written now."""
        await anyio.sleep(_AGAIN_S)
        return await anyio.to_thread.run_sync(run.is_live)

    async def _find_reasons(
        self, run: ShownRun, updated: _Updated, *, batches: int | None = None
    ) -> None:
        """Find what went wrong in the episodes of an old log, and tell how far that is."""
        if not await anyio.to_thread.run_sync(run.index().undiagnosed, 1):
            return

        async def tell() -> None:
            while True:
                await anyio.sleep(POLL_S)
                _tell(updated)

        async with anyio.create_task_group() as group:
            group.start_soon(tell)
            find = partial(
                find_reasons, run.log_folder, run.index(), self._stopped.is_set, batches=batches
            )
            try:
                await anyio.to_thread.run_sync(find, limiter=self._finding)
            except HarnessError as exc:  # the folder is gone, or its log is damaged
                _log.warning("reasons_stopped", run=str(run.folder), why=str(exc))
            group.cancel_scope.cancel()
        _tell(updated)

    async def _fold_all(self, run: ShownRun, updated: _Updated) -> bool:
        """Fold what the log has; whether it had anything new."""
        index = run.index()
        num_records = 0
        while found := await anyio.to_thread.run_sync(index.fold, limiter=self._core):
            num_records += found
            if not updated.caught_up.is_set():
                _tell(updated)
        return num_records > 0


def _tell(updated: _Updated) -> None:
    """Wake those who wait for a change."""
    updated.changed.set()
    updated.changed = anyio.Event()


@asynccontextmanager
async def open_updates() -> AsyncIterator[IndexUpdates]:
    """Updates, whose work ends with the block."""
    async with anyio.create_task_group() as group:
        updates = IndexUpdates(group)
        try:
            yield updates
        finally:
            updates.wake()
            group.cancel_scope.cancel()
