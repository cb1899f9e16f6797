"""The formats in which the episodes of a run are written, for other programs.

    jsonl      one JSON object a line, one line an episode (fields: `episode_lines.EpisodeLine`)
    parquet    the same fields as columns; values without a fixed shape are JSON in a text column
    sft        chats for supervised training, with a dataset card: completed episodes
    inspect    a log of Inspect AI, for `inspect view`
    atif       trajectories of Harbor (ATIF), with token ids
    samples    the replies with token ids, advantages and weights, as training takes them
    hf-trace   sessions for the trace viewer of the Hugging Face hub, with a dataset card

`rehearsal_room.interop.otlp.export` writes one more, `otlp`. A file appears complete, under its
name, or not at all. Where a format has several files, each does.
"""

from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.errors import LogError, SettingsError
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.outputs import own_path, writing
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.interop.exports.atif import write_atif
from rehearsal_room.interop.exports.chats import write_chats
from rehearsal_room.interop.exports.hf_trace import write_traces
from rehearsal_room.interop.exports.inspect_names import inspect_name
from rehearsal_room.interop.exports.lines import write_jsonl, write_parquet
from rehearsal_room.interop.exports.source import ExportSource, rows_with
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.scenarios.distribution import install_command, missing_package

OTLP_NAME = "spans.otlp"  # the default file of `otlp`


def write_inspect_log(source: ExportSource, path: Path) -> None:
    """Write a log of Inspect AI. Raises LogError, OSError, and SettingsError where inspect_ai is
    not installed."""
    try:
        from rehearsal_room.interop.exports.inspect_log import write_log  # optional, slow to import
    except ModuleNotFoundError as exc:
        why = f"to: inspect needs the package inspect_ai: {install_command('inspect')}"
        raise SettingsError(why) from exc
    write_log(source, path)


def write_samples(source: ExportSource, path: Path) -> int:
    """Write the samples that training makes of the run; returns the number of episodes, without
    those of groups that training drops. Raises LogError, LearnerError, OSError, and
    SettingsError where a package is missing, or where episodes are chosen: a group is compared
    whole."""
    if source.is_part:
        raise SettingsError(
            "to: samples are those of whole groups, in which rewards are compared: leave out"
            " --label and --ending"
        )
    try:
        from rehearsal_room.interop.exports import samples  # optional, and slow to import
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("to: samples", exc, "train", "parquet")) from exc
    with writing(path) as file:
        return samples.write(file, samples.batches_of_run(source.path.parent, source.training))


class EpisodeFormat(msgspec.Struct, frozen=True):
    """One format of episodes."""

    output: str | Callable[[ExportSource], str]  # default file or folder, in the run's folder
    # Returns the number of episodes; None: all. Raises LogError, SettingsError and OSError.
    write: Callable[[ExportSource, Path], int | None]
    labels: tuple[Label, ...] | None = None  # written by default; None: all, unjudged ones too


EPISODE_FORMATS: dict[str, EpisodeFormat] = {
    "jsonl": EpisodeFormat("episodes.jsonl", write_jsonl),
    "parquet": EpisodeFormat("episodes.parquet", write_parquet),
    "sft": EpisodeFormat("sft", write_chats, (Label.COMPLETED,)),
    "inspect": EpisodeFormat(inspect_name, write_inspect_log),
    "atif": EpisodeFormat("trajectories.jsonl", write_atif),
    "samples": EpisodeFormat("samples.parquet", write_samples),
    "hf-trace": EpisodeFormat("hf-trace", write_traces),
}


def export(
    reader: LogReader,
    path: Path | None = None,
    *,
    to: str = "jsonl",
    dumps: bool = False,
    labels: Collection[Label] | None = None,
    endings: Collection[Ending] | None = None,
    license: str = "",
    training: TrainSettings | None = None,
) -> tuple[int, Path]:
    """Write the episodes with one of these labels and endings; return their number and the path.

    `path` None: the format's default, in the folder of the run. `labels` None: the format's
    default, `endings` None: all. `dumps` adds the final state of every table to `jsonl` and
    `parquet`. `license` is what dataset cards name; empty: see `dataset_card.license_of`.
    `training` makes the batches of `samples`; None: that of the training run to which the run
    belongs, else the defaults. Raises LogError, LearnerError, and SettingsError where the package
    of a format is not installed.
    """
    wanted = EPISODE_FORMATS[to]
    chosen = wanted.labels if labels is None else labels
    rows = rows_with(reader, labels=chosen, endings=endings)
    source = ExportSource(reader, rows, dumps=dumps, license=license, training=training)
    if path is None:
        name = wanted.output if isinstance(wanted.output, str) else wanted.output(source)
        path = own_path(reader.path.parent / name)
    try:
        written = wanted.write(source, path)
    except OSError as exc:
        raise LogError(f"{path}: the export cannot be written: {exc}") from exc
    return len(rows) if written is None else written, path
