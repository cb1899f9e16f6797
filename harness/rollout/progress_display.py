"""How far work is, for people who watch: a bar on a terminal, plain lines elsewhere, on standard
error.

    with ProgressDisplay("episodes", total=100) as display:
        display.show(17, note="3 calls/s")

A line is "17 of 1,024 episodes: 3 calls/s". Nothing here has a thread of its own: a bar is drawn
when `show` or `advance` is called.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Self

from anyio import ContextManagerMixin
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from rehearsal_room.harness.core.terminal import Terminal

BAR_EVERY = 0.1  # seconds between two drawings of a bar
LINE_EVERY = 5.0  # seconds between two lines


class ProgressDisplay(ContextManagerMixin):
    """Shows the progress of one piece of work; a context manager that leaves the terminal as it
    was.

    `what` is the plural of what is counted. `total` None: not known yet. `every` is the least
    number of seconds between two changes of the display (None: BAR_EVERY or LINE_EVERY; 0.0: each
    call is shown). `console` None: standard error.
    """

    def __init__(
        self,
        what: str,
        *,
        total: int | None = None,
        done: int = 0,
        console: Console | None = None,
        every: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._console = console or Terminal(stderr=True)
        self.is_bar = self._console.is_terminal
        self._every = (BAR_EVERY if self.is_bar else LINE_EVERY) if every is None else every
        self._now = now
        self._shown_at = now() if every is None and not self.is_bar else float("-inf")
        self._shown = -1  # the number of finished episodes in the last line
        self._done, self._total = done, total
        self._progress = Progress(
            TextColumn(what),
            BarColumn(),
            TextColumn("{task.fields[counts]}"),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            auto_refresh=False,
            disable=not self.is_bar,
        )
        self._bar = self._progress.add_task("", total=total, completed=done, counts=self._counts())

    @contextmanager
    def __contextmanager__(self) -> Generator[Self]:
        with self._progress:
            yield self

    def show(
        self, done: int, total: int | None = None, note: str = "", *, repeats: bool = False
    ) -> None:
        """Show how many are done, of how many if `total` is given, and a note. `repeats`: a line is
        also printed where no more are done."""
        self._done = done
        self._total = self._total if total is None else total
        if self._now() - self._shown_at < self._every:
            return
        self._shown_at = self._now()
        if self.is_bar:
            self._progress.update(
                self._bar,
                completed=done,
                total=self._total,
                description=note,
                counts=self._counts(),
                refresh=True,
            )
        elif done != self._shown or repeats:
            self._shown = done
            self._console.print(self._line(note), highlight=False, markup=False, soft_wrap=True)

    def advance(self) -> None:
        """Show that one more is done."""
        self.show(self._done + 1)

    def _line(self, note: str) -> str:
        return f"{self._counts()} {self._what}" + (f": {note}" if note else "")

    def _counts(self) -> str:
        of = "" if self._total is None else f" of {self._total:,}"
        return f"{self._done:,}{of}"
