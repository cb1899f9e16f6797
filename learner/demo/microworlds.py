"""The demonstration's micro-worlds: their tasks, and the texts of their prompts."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import msgspec

from rehearsal_room.envpool.inprocess.toolset import load
from rehearsal_room.harness.core.messages import Briefing
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.rollout.episode import user_of
from rehearsal_room.harness.setup.trust_notice import set_own
from rehearsal_room.learner.demo.recipe import MicroworldSettings
from rehearsal_room.scenarios.format import read
from rehearsal_room.scenarios.microworlds.writing import write_microworlds


class MicroWorlds(msgspec.Struct, frozen=True):
    """The folders of the packages."""

    train: tuple[Path, ...]
    held_out: tuple[Path, ...]


def make(folder: Path, settings: MicroworldSettings, *, seed: int) -> MicroWorlds:
    """Write the micro-worlds for training, and held-out ones with other trades and seeds."""
    train = write_microworlds(
        folder, seed=seed, count=settings.train, split="train", each=settings.each
    )
    held_out = write_microworlds(
        folder,
        seed=seed,
        count=settings.held_out,
        split="held_out",
        each=settings.each_held_out,
    )
    set_own(read(path).digest for path in (*train, *held_out))
    return MicroWorlds(tuple(train), tuple(held_out))


def tasks_of(folders: Iterable[Path], kinds: Sequence[str], *, seed: int) -> list[str]:
    """The tasks of these kinds, as arguments of `rehearse run` (`folder:task`), in random order."""
    prefixes = tuple(f"{kind}-" for kind in kinds)
    found = [
        f"{folder}:{task.id}"
        for folder in folders
        for task in read(folder).tasks
        if task.id.startswith(prefixes)
    ]
    Random(seed).shuffle(found)
    return found


def prompt_texts(folders: Iterable[Path], dialect: Dialect) -> tuple[list[str], list[list[str]]]:
    """For each package, its system prompt and its tasks' instructions: the texts on which a
    tokenizer is trained."""
    prompts: list[str] = []
    texts: list[list[str]] = []
    for folder in folders:
        scenario = read(folder)
        tools = tuple(tool.spec for tool in load(scenario).values())
        briefings = [
            Briefing(task.instruction, scenario.rules, tools, user_of(scenario), scenario.clock)
            for task in scenario.tasks
        ]
        prompts.append(dialect.opening_messages(briefings[0])[0].content)
        texts.append([one.instruction for one in briefings])
    return prompts, texts
