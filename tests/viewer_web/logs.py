"""A log of 100,000 episodes, and how a log is written beside Playwright."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copy

import anyio
import msgspec

from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Label,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Answer, Reply
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.scenarios.format import read
from tests.support.library_log import play_oracle, snapshot_of
from tests.support.paths import LIBRARY


def in_thread(function: Callable[..., Awaitable[None]], *arguments: object) -> None:
    """Run an asynchronous function in a thread: Playwright has a loop of its own in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(anyio.run, function, *arguments).result()


async def write_many(folder: Path, settings: Path, episodes: int) -> None:
    """Log so many episodes: tasks of 16 members like the library's, with labels in turns."""
    world = HostedScenario(read(LIBRARY))
    labels = (Label.COMPLETED, Label.PARTIALLY_COMPLETED, Label.AGENT_ERROR)
    played = [
        [play_oracle(world, task, label=label)[0] for label in labels]
        for task in world.scenario.tasks
    ]
    async with open_log(folder) as log:
        log.add_scenario(snapshot_of(world))
        for number in range(episodes):
            events = played[number % len(played)][number // len(played) % 3]
            for seq, event in enumerate(events):
                if isinstance(event, EpisodeStarted):
                    group, member = divmod(number // len(played), 16)
                    name = f"{event.task}-{group}"
                    event = msgspec.structs.replace(event, task=name, group=name, member=member)
                log.append(Record(f"e{number:06d}", 0, seq, 1_700_000_000.0 + number / 100, event))
            await log.wait_for_room()
    world.close()
    copy(settings, folder / "run.toml")


async def write_long(folder: Path, settings: Path, turns: int) -> None:
    """Log one episode of so many turns: a task's calls, again and again."""
    world = HostedScenario(read(LIBRARY))
    [start, *events], _ = play_oracle(world, world.scenario.tasks[0], label=Label.AGENT_ERROR)
    steps = [one for one in events if isinstance(one, StepTaken) and one.results]
    [ended] = [one for one in events if isinstance(one, EpisodeEnded)]
    last = StepTaken(Reply("Done."), Answer("Done."))
    facts = [start, *(steps[turn % len(steps)] for turn in range(turns - 1)), last]
    over = EpisodeEnded(Ending.ANSWERED, "Done.", turns, ended.state)
    async with open_log(folder) as log:
        log.add_scenario(snapshot_of(world))
        for seq, event in enumerate([*facts, over]):
            log.append(Record("long", 0, seq, 1_700_000_000.0 + seq, event))
            await log.wait_for_room()
    world.close()
    copy(settings, folder / "run.toml")
