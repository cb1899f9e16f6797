"""The command `judge label`: labels by people."""

import getpass
from pathlib import Path

import click

from rehearsal_room.cli.core.options import RUN
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.log.outputs import own_path
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.judge.core.evidence import scenario_info
from rehearsal_room.judge.reliability.annotate import LabellingSession, shuffled_episodes
from rehearsal_room.judge.reliability.annotations import NAME, LabelBook
from rehearsal_room.judge.reliability.sampling import sample_of
from rehearsal_room.judge.verdicts.disagreements import queue


@click.command("label")
@RUN
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of the labels (default: labels.jsonl in the run's folder).",
)
@click.option(
    "--labeller",
    metavar="NAME",
    help="Name of the person who labels (default: the user's name on this machine).",
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    help="Number of episodes to label (default: all).",
)
@click.option(
    "--only",
    type=click.Choice(["disagreements"]),
    help="Label only the episodes on which judges disagree (default: all).",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of the sample and of the order.",
)
def label_command(
    folder: Path,
    output: Path | None,
    labeller: str | None,
    sample: int | None,
    only: str | None,
    seed: int,
) -> None:
    """Label episodes yourself, for `rehearse judge study --labels`.

    Each label is saved at once; give the same command again to continue.
    """
    who = labeller or getpass.getuser()
    with open_reader(folder) as reader:
        infos = {
            world.scenario_digest: scenario_info(world) for world in reader.scenarios().values()
        }
        rows = [row for row in reader.episodes() if row.ending is not None]
        if only is not None:
            contested = {entry.episode for entry in queue(reader.trajectories())}
            rows = [row for row in rows if row.episode in contested]
        names = sample_of(rows, sample or len(rows), seed=seed)
        book = LabelBook(output or own_path(folder / NAME))
        session = LabellingSession(
            shuffled_episodes(names, book.by(who), seed=seed),
            book,
            labeller=who,
            trajectory_of=reader.trajectory,
            scenario_info=lambda trajectory: infos[trajectory.started.scenario_digest],
            read=input,
            console=Terminal(),
        ).run()
    click.echo(f"{session.labelled} labelled, {session.left} left; the file is {book.path}")
