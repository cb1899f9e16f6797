"""The command `export`: episodes and tasks for other programs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rehearsal_room.cli.look.spans import CONTENT, write_spans
from rehearsal_room.cli.worlds.task_exports import TASK_FORMATS, export_tasks
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.outputs import own_path
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.interop.exports.formats import EPISODE_FORMATS, OTLP_NAME
from rehearsal_room.interop.exports.formats import export as write_export
from rehearsal_room.interop.exports.source import rows_with
from rehearsal_room.learner.config.loader import read_settings

_LABELS = click.Choice([str(label) for label in Label])
_ENDINGS = click.Choice([str(ending) for ending in Ending])


@click.command("export")
@click.argument("names", nargs=-1, required=True, metavar="RUN|SCENARIO[:TASK]...")
@click.option(
    "--to",
    type=click.Choice([*EPISODE_FORMATS, "otlp", *TASK_FORMATS]),
    default="jsonl",
    show_default=True,
    help="Format: JSON lines, Parquet, chats for supervised training (sft), a log of Inspect AI "
    "(inspect), trajectories of Harbor (atif), samples as training takes them (samples), traces "
    "for the Hugging Face hub (hf-trace), or "
    "OpenTelemetry spans (otlp); of scenarios: tasks for NeMo Gym (gym) or Harbor (harbor).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write, or folder (default: a name of the format, in the run's folder; of tasks: "
    "gym.jsonl or harbor).",
)
@click.option("--dumps", is_flag=True, help="Add the final content of every table to each episode.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    type=_LABELS,
    help="Label of the episodes that are written; may be repeated (default: completed for sft, "
    "else all).",
)
@click.option(
    "--ending",
    "endings",
    multiple=True,
    type=_ENDINGS,
    help="Ending of the episodes that are written; may be repeated (default: all).",
)
@click.option(
    "--license",
    metavar="ID",
    default="",
    help="License that the dataset card names, in the words of the Hugging Face hub (with sft and "
    "hf-trace; default: apache-2.0 for bundled worlds without a model, else other).",
)
@click.option(
    "--train",
    "train_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Training file whose settings of data and loss make batches and advantages (with samples; "
    "default: that of the training run, else the defaults).",
)
@CONTENT
def export_command(
    names: Sequence[str],
    to: Any,
    output: Path | None,
    dumps: bool,
    labels: Sequence[str],
    endings: Sequence[str],
    license: str,
    train_file: Path | None,
    content: bool,
) -> None:
    """Write a run's episodes for other programs, or the tasks of scenarios.

    \b
        rehearse export runs/x --to parquet               (episodes of a run)
        rehearse export shop_support --to gym             (tasks of worlds)
    """
    if to in TASK_FORMATS:
        export_tasks(names, to, output)
        return
    if len(names) != 1:
        raise SettingsError(f"RUN: --to {to} writes the episodes of one run, not of {len(names)}")
    _check_export(to, dumps=dumps, license=license, content=content, train_file=train_file)
    training = None if train_file is None else read_settings(train_file)
    folder = Path(names[0])
    chosen_labels = [Label(label) for label in labels] or None
    chosen_endings = [Ending(ending) for ending in endings] or None
    with open_reader(folder) as reader:
        if to == "otlp":
            path = output or own_path(folder / OTLP_NAME)
            rows = rows_with(reader, labels=chosen_labels, endings=chosen_endings)
            count = write_spans(folder, reader, path, rows, content=content)
        else:
            count, path = write_export(
                reader,
                output,
                to=to,
                dumps=dumps,
                labels=chosen_labels,
                endings=chosen_endings,
                license=license,
                training=training,
            )
    click.echo(f"{count} episodes in {path}")


def _check_export(
    to: str, *, dumps: bool, license: str, content: bool, train_file: Path | None
) -> None:
    """Refuse flags that the format does not use. Raises SettingsError."""
    if content and to != "otlp":
        raise SettingsError(f"--content: is for spans; with --to {to} all texts are written anyway")
    if dumps and to not in ("jsonl", "parquet"):
        raise SettingsError(f"--dumps: is for jsonl and parquet; --to {to} has no final tables")
    if license and to not in ("sft", "hf-trace"):
        raise SettingsError(f"--license: is for dataset cards; --to {to} writes none")
    if train_file is not None and to != "samples":
        raise SettingsError(f"--train: is for samples; --to {to} makes no batches")
