"""An open run in a thread of its own: for programs without an event loop, or with one of theirs.

    run = BackgroundRun("runs/trl", ["shop_support"], RunOptions(judge=ScenarioJudges))
    trajectory = run.call(OpenRun.play, "shop_support:cancel-duplicate")
    trajectory = await run.run(OpenRun.play, "shop_support:cancel-duplicate")  # in an asyncio loop

The run opens at the first use and closes with `close`, at the latest when the program exits.
"""

import asyncio
import atexit
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.open_run import open_run
from rehearsal_room.bridges.run_options import RunOptions, TasksByName, check_options, tasks_of
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.plan import names_of
from rehearsal_room.harness.users.left_out import num_left_out, report_left_out, without_dialogues

T = TypeVar("T")


class BackgroundRun:
    """The run. All its methods may be used from any thread."""

    def __init__(
        self, folder: str | Path, scenarios: str | Sequence[str], options: RunOptions
    ) -> None:
        """Raises ScenarioError and SettingsError for scenarios and an agent that cannot be used."""
        check_options(options)
        self.options = options
        self._scenarios = names_of(scenarios)
        self.tasks = tasks_of(self._scenarios)
        self._folder = folder
        self._stack = ExitStack()
        self._lock = Lock()
        self._opened: tuple[BlockingPortal, OpenRun] | None = None
        self._is_closed = False

    def tasks_without_users(self, by: str) -> TasksByName:
        """The run's tasks without dialogues, for a framework that cannot say what a user says; how
        many were left out goes to standard error. Raises SettingsError where none is left."""
        found = without_dialogues(self.tasks)
        unnamed = num_left_out(self._scenarios, self.tasks.values())
        why = f"{by} has nobody who talks to their users"
        report_left_out(len(self.tasks) - len(found) + unnamed, why)
        if not found:
            raise SettingsError(f"scenarios: all tasks are dialogues, and {why}; name other tasks")
        return found

    def __repr__(self) -> str:
        return f"<BackgroundRun in {self._folder}>"

    def call(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Run an async function, whose first argument is the OpenRun, in the run's thread,
        and wait for its result. Raises as `open_run` does."""
        portal, run = self._open()
        return portal.start_task_soon(function, run, *arguments).result()

    async def run(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """The same from an asyncio event loop, which goes on meanwhile. Cancellation cancels it."""
        portal, run = await asyncio.to_thread(self._open)
        return await asyncio.wrap_future(portal.start_task_soon(function, run, *arguments))

    def close(self) -> None:
        """Cancel the live episodes, close the run and write its report. Raises what failed in its
        judge or log."""
        with self._lock:
            self._is_closed = True
            self._opened = None
            atexit.unregister(self.close)
            self._stack.close()

    def _open(self) -> tuple[BlockingPortal, OpenRun]:
        with self._lock:
            if self._is_closed:
                raise RuntimeError(f"{self!r} is closed")
            if self._opened is None:
                options = {"use_uvloop": find_spec("uvloop") is not None}
                with ExitStack() as stack:
                    portal = stack.enter_context(start_blocking_portal("asyncio", options))
                    opened = open_run(self._folder, self._scenarios, self.options)
                    run = stack.enter_context(portal.wrap_async_context_manager(opened))
                    self._stack = stack.pop_all()
                atexit.register(self.close)
                self._opened = portal, run
            return self._opened
