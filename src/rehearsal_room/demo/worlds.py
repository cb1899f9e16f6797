"""The demonstration's worlds: their packages, tasks, and the texts of their prompts."""

from collections.abc import Iterable
from pathlib import Path
from random import Random

import msgspec

from rehearsal_room.demo.recipe import WorldSettings
from rehearsal_room.envpool.inprocess.toolset import load
from rehearsal_room.harness.core.messages import Briefing
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.rollout.episode import user_of
from rehearsal_room.harness.setup.trust_notice import set_own
from rehearsal_room.scenarios.format import read
from rehearsal_room.scenarios.microworlds.offices import OfficeShape, write_offices
from rehearsal_room.scenarios.microworlds.words import MicroworldSplit

HELD_OUT = "held out"  # new words, and the training's structure


class Worlds(msgspec.Struct, frozen=True):
    """The folders of the packages."""

    train: tuple[Path, ...]
    held_out: dict[str, tuple[Path, ...]]  # by what is new in them; `HELD_OUT` comes first


def make(folder: Path, settings: WorldSettings, *, seed: int) -> Worlds:
    """Write the worlds for training, and held-out ones: of other trades, and of other shapes."""

    def write(shape: OfficeShape, name: str, split: MicroworldSplit) -> tuple[Path, ...]:
        is_train = split == "train"
        count = settings.train if is_train else settings.held_out
        each = settings.each if is_train else settings.each_held_out
        name = name.replace(" ", "_")
        return tuple(
            write_offices(folder, shape, name=name, seed=seed, count=count, split=split, each=each)
        )

    shapes = {HELD_OUT: settings.shape, **settings.others}
    worlds = Worlds(
        write(settings.shape, "train", "train"),
        {name: write(shape, name, "held_out") for name, shape in shapes.items()},
    )
    everything = (*worlds.train, *(one for some in worlds.held_out.values() for one in some))
    set_own(read(path).digest for path in everything)
    return worlds


def tasks_of(folders: Iterable[Path], *, seed: int) -> list[str]:
    """The tasks as arguments of `rehearse run` (`folder:task`), in random order."""
    found = [f"{folder}:{task.id}" for folder in folders for task in read(folder).tasks]
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
