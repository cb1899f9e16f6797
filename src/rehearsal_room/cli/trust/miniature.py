"""`rehearse experiment` with a table [miniature]: a question about learning, on small worlds."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from rich.console import Console

from rehearsal_room.cli.core.options import console_of, write_json
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.files import convert, parse_toml, read_text


class MiniatureSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [miniature]."""

    arms: Annotated[
        Literal["worlds", "judges", "strata", "interface"], Meta(description="What differs.")
    ]
    recipe: Annotated[
        str, Meta(description="Recipe of the demonstration, from this file's folder.", min_length=1)
    ]
    seeds: Annotated[
        tuple[Annotated[int, Meta(ge=0)], ...],
        Meta(description="Seeds, each with a clone of its own.", min_length=1),
    ] = (0, 1, 2)


class MiniatureFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of such a file."""

    name: Annotated[str, Meta(min_length=1)]
    miniature: MiniatureSettings
    question: str = ""


def is_miniature(file: Path) -> bool:
    """Whether an experiment's file has such a table. Raises what reading it raises."""
    return file.is_file() and "miniature" in parse_toml(file, read_text(file))


def answer_miniature(file: Path, folder: Path, *, dry_run: bool, json_file: str | None) -> None:
    """Train and measure all arms of all seeds; write report.json and a picture. Raises
    SettingsError and LearnerError."""
    experiment = convert(file, parse_toml(file, read_text(file)), MiniatureFile)
    settings = experiment.miniature
    if len(set(settings.seeds)) < len(settings.seeds):
        raise SettingsError(f"{file}: miniature.seeds: a seed counts once; name different ones")
    console = console_of(json_file)
    if dry_run:
        seeds = ", ".join(map(str, settings.seeds))
        console.print(f"arms {settings.arms}, by {settings.recipe}, seeds {seeds}", highlight=False)
        return
    report = _answer(settings, file.parent / settings.recipe, folder, console)
    write_json(report, str(folder / "report.json"))
    write_json(report, json_file)


def _answer(
    settings: MiniatureSettings, recipe_file: Path, folder: Path, console: Console
) -> msgspec.Struct:
    """Imports the trainer, whose libraries are optional. Raises SettingsError without them."""
    try:
        from rehearsal_room.demo.questions import MiniatureReport, answer, draw
        from rehearsal_room.demo.recipe import read_recipe
        from rehearsal_room.demo.rehearse import rehearse
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("experiment", exc, "train")) from exc
    recipe = read_recipe(recipe_file)
    answers = []
    for seed in settings.seeds:
        one = folder / f"seed-{seed}"
        found = answer(settings.arms, recipe, one, seed=seed, console=console, command=rehearse)
        console.print(found.text(), highlight=False)
        answers.append(found)
    draw(folder / f"{settings.arms}.png", answers)
    return MiniatureReport(settings.arms, tuple(answers))
