"""One life of a simulated process: it runs until its work is done, or until something ends it.

A kill (the process ends, what it wrote is in the operating system), a power failure (what was not
synced is lost) and an interruption (Ctrl-C: the process ends in order) come at a chosen turn of the
event loop, a power failure also at a chosen write or sync of the disk. What a killed program does
after that moment did not happen: its disk takes nothing, and observers ask `is_dead` before they
note anything. It is unwound all the same, so that its locks and worlds are given back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec

from rehearsal_room.harness.log.writer import LogConnection
from tests.devtools.simulation.parts.choices import Choices
from tests.devtools.simulation.parts.crash_disk import CrashDisk
from tests.devtools.simulation.parts.log_database import SimulatedDatabase
from tests.devtools.simulation.parts.virtual_loop import VirtualLoop, virtual_time

End = Literal["done", "killed", "interrupted", "failed"]
_UNWIND_S = 600.0  # virtual seconds


class Doom(msgspec.Struct, frozen=True):
    """When a process is killed; 0: not in this way."""

    turn: int = 0  # of the event loop
    write: int = 0  # or sync, of the disk; the power fails
    how: Literal["kill", "power", "interrupt"] = "kill"  # at the turn


def draw_doom(choices: Choices, *, rate: float, most_turns: int, most_writes: int) -> Doom:
    """The end of one life; nothing in most cases where `rate` is low."""
    how = choices.option("doom", 5, rate=rate)
    if how == 0:
        return Doom()
    if how == 4:
        return Doom(write=1 + choices.option("doom_write", most_writes, rate=1.0))
    turn = 1 + choices.option("doom_turn", most_turns, rate=1.0)
    return Doom(turn=turn, how=("kill", "power", "interrupt")[how - 1])


class SimulatedProcess:
    """A process with its disk, on its own event loop."""

    def __init__(self, folder: Path, choices: Choices, doom: Doom) -> None:
        self._folder = folder
        self._choices = choices
        self._doom = doom
        self._disk = CrashDisk(choices)
        self._disk.fails_at = doom.write or None
        self._interrupted = False
        self.loop = VirtualLoop(choices, before_turn=self._before_turn)

    @property
    def is_dead(self) -> bool:
        """Whether it was killed; nothing that it does now happened."""
        return self._disk.is_dead

    async def open_database(self, path: Path) -> LogConnection:
        """Open the log's database on this process's disk."""
        return SimulatedDatabase(self._disk, path, self._choices)

    @contextmanager
    def log_copy(self) -> Iterator[Path]:
        """A block with a folder that has the log as readers of this machine see it now."""
        with TemporaryDirectory(prefix="log-", dir=self._folder) as name:
            self._disk.copy_to(Path(name))
            yield Path(name)

    def live(
        self,
        main: Callable[[], Awaitable[Any]],
        *,
        may_raise: Callable[[BaseException], bool] = lambda exc: False,
    ) -> End:
        """Run a function. Raises what it raises, unless it may or the process was killed, and
        Stuck."""
        loop = self.loop
        failed = False
        try:
            with virtual_time(loop):
                self._task = loop.create_task(_awaited(main))
                try:
                    loop.run_until_complete(self._task)
                except BaseException as exc:
                    if not (self._disk.is_dead or self._interrupted):
                        if not may_raise(exc):
                            raise
                        failed = True
                finally:
                    loop.is_orderly = True
                    self._unwind()
        finally:
            loop.close()
        if self._disk.is_dead:
            if self._doom.turn and self._doom.how == "kill":
                self._disk.put_down(self._folder)
            else:
                self._disk.fail(self._folder)
            return "killed"
        self._disk.put_down(self._folder)
        if failed:
            return "failed"
        return "interrupted" if self._interrupted else "done"

    def _before_turn(self, turn: int) -> None:
        if turn != self._doom.turn or self._task.done():
            return
        if self._doom.how == "interrupt":
            self._interrupted = True
        else:
            self._disk.is_dead = True
            self.loop.is_orderly = True
        self._task.cancel()

    def _unwind(self) -> None:
        """Let the tasks that are left end."""
        loop = self.loop
        loop.extend(_UNWIND_S)
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(_ended(left))
        loop.run_until_complete(loop.shutdown_asyncgens())


async def _awaited(main: Callable[[], Awaitable[Any]]) -> Any:
    return await main()


async def _ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
