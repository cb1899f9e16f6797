"""What the fixtures `rehearse_run` and `rehearse_episode` give: objects that play an agent, and
return when its episodes are over.

    run = rehearse_run(agent)                 # in a plain test
    run = await rehearse_run.aplay(agent)     # in an async test, on its own event loop (asyncio)
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, update_wrapper
from itertools import count
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import anyio
import msgspec
import pytest

from rehearsal_room.bridges.rehearsals import rehearse
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.harness.agents.functions import agent_function
from rehearsal_room.harness.core.errors import HarnessError, SettingsError
from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.library import JudgeFactory, Rehearsal
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.testing.claims import Claim

T = TypeVar("T")
Agent = Callable[..., Any]  # of a shape that harness.agents.functions knows


class PlayOptions(TypedDict, total=False):
    """The options of `rr.rehearse` that a test may pass."""

    concurrency: int
    group_size: int
    judge: JudgeFactory | None
    limits: Limits
    seed: int


class PlayedEpisode(msgspec.Struct, frozen=True):
    """An episode that is over."""

    trajectory: Trajectory
    folder: Path  # of its run

    @property
    def verdict(self) -> Judged | None:
        """The judge's verdict with its findings; None: there is none."""
        return self.trajectory.judged[-1] if self.trajectory.judged else None

    @property
    def label(self) -> Label | None:
        """The verdict's label; None: the episode has none."""
        return None if self.verdict is None else self.verdict.label

    @property
    def answer(self) -> str:
        """The final answer; empty where there is none."""
        ended = self.trajectory.ended
        return "" if ended is None or ended.answer is None else ended.answer

    @property
    def changes(self) -> tuple[RowChange, ...]:
        """The rows that differ at the end from the start."""
        return changed_rows(self.trajectory)


def changed_rows(trajectory: Trajectory) -> tuple[RowChange, ...]:
    """The rows that differ at an episode's end from its start, by its logged calls."""
    steps = trajectory.steps
    return net_changes(
        result.changes
        for step in steps
        for result in (*step.results, *(() if step.user is None else step.user.results))
    )


class RunPlayer:
    """The fixture `rehearse_run`."""

    def __init__(self, claim: Claim, folder: Path) -> None:
        self._claim = claim
        self._folder = folder  # of the test
        self.played: list[Rehearsal] = []

    def __repr__(self) -> str:
        return f"<rehearse_run [{len(self.played)} played]>"

    def __call__(
        self,
        agent: Agent,
        *scenarios: str,
        runs: int | None = None,
        **options: Unpack[PlayOptions],
    ) -> Rehearsal:
        """Play an agent; return the run's report with its folder.

        Scenarios and the number of episodes are the mark's, if none are given. Options are those of
        `rr.rehearse`. Where the mark claims something, it is decided when the test's own lines are
        done. Fails the test where the run cannot be played.
        """
        return in_own_loop(partial(self.aplay, agent, *scenarios, runs=runs, **options), self)

    async def aplay(
        self,
        agent: Agent,
        *scenarios: str,
        runs: int | None = None,
        **options: Unpack[PlayOptions],
    ) -> Rehearsal:
        """The same in an async test, on its own event loop (asyncio)."""
        claim = self._claim
        with reported():
            if claim.count and self.played:
                raise SettingsError(
                    "rehearse_run: a claim is about one run of one agent; parametrize the test to"
                    " play another one"
                )
            named = scenarios or claim.scenarios
            episodes = claim.runs if runs is None else runs
            run = await played(agent, named, new_folder(self._folder), episodes, options)
        self.played.append(run)
        return run


class EpisodePlayer:
    """The fixture `rehearse_episode`."""

    def __init__(self, claim: Claim, folder: Path) -> None:
        self._claim = claim
        self._folder = folder

    def __call__(
        self, agent: Agent, *scenarios: str, **options: Unpack[PlayOptions]
    ) -> PlayedEpisode:
        """Play one episode, of the mark's task if none is given; return it with its verdict. Fails
        the test where it cannot be played."""
        return in_own_loop(partial(self.aplay, agent, *scenarios, **options), self)

    async def aplay(
        self, agent: Agent, *scenarios: str, **options: Unpack[PlayOptions]
    ) -> PlayedEpisode:
        """The same in an async test, on its own event loop (asyncio)."""
        named = scenarios or self._claim.scenarios
        with reported():
            run = await played(agent, named, new_folder(self._folder), 1, options)
            with open_reader(run.folder) as reader:
                (trajectory,) = reader.trajectories()
        return PlayedEpisode(trajectory, run.folder)


async def played(
    agent: Agent,
    scenarios: tuple[str, ...],
    folder: Path,
    runs: int | None,
    options: PlayOptions,
) -> Rehearsal:
    """A run of an agent. Raises as `rr.rehearse` does, and SettingsError for a function of another
    shape than an agent's."""
    function = agent_function(agent, getattr(agent, "__qualname__", repr(agent)))
    if function is not agent:
        update_wrapper(function, agent, assigned=("__name__",), updated=())  # the run's policy
    if running_loop() is None:
        raise SettingsError("episodes run on asyncio, and this test runs on another event loop")
    return await rehearse(function, scenario_named(scenarios), folder, episodes=runs, **options)


def scenario_named(scenarios: tuple[str, ...]) -> tuple[str, ...]:
    """The scenarios, at least one. Raises SettingsError."""
    if not scenarios:
        raise SettingsError(
            'no scenario is named: write @pytest.mark.rehearse("shop_support:cancel-duplicate")'
        )
    return scenarios


def in_own_loop(function: Callable[[], Awaitable[T]], what: object) -> T:
    """Run an async function to its end in a new event loop."""
    if running_loop() is not None:
        pytest.fail(f"{what!r}: in an async test, await its method `aplay`", pytrace=False)
    return anyio.run(function)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of asyncio that runs in this thread; None: there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@contextmanager
def reported() -> Iterator[None]:
    """A block whose expected failures fail the test by their sentence, without a traceback."""
    try:
        yield
    except (HarnessError, ScenarioError, PoolError) as exc:
        raise pytest.fail.Exception(str(exc), pytrace=False) from None


def new_folder(base: Path) -> Path:
    """Make the empty folder of the test's next run.

    Example: run, then run-2
    """
    for number in count(1):
        folder = base / (f"run-{number}" if number > 1 else "run")
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("the numbers do not end")
