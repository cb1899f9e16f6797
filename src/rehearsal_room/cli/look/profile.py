"""The command `profile`: where the time of runs went."""

from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from rehearsal_room.cli.core.options import JSON, console_of, write_json
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.log.outputs import writing
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.logged_runs.logged_run import log_folder
from rehearsal_room.harness.profile.chrome_trace import ChromeTrace
from rehearsal_room.harness.profile.report import ProfileReport
from rehearsal_room.harness.profile.stages import Totals, add_run
from rehearsal_room.harness.profile.timeline import TimelineSpan
from rehearsal_room.harness.profile.view import render_profiles


@click.command("profile")
@click.argument(
    "folders", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--trace",
    "trace_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the episodes, turns, calls and verdicts as a Chrome trace, for "
    "ui.perfetto.dev or chrome://tracing.",
)
@JSON
def profile_command(
    folders: Sequence[Path], trace_file: Path | None, json_file: str | None
) -> None:
    """Show where the time of a run went, and what limited it, from its log.

    RUN is the folder of a run, or of a training run, whose rollouts are shown. The run may be live,
    or cut off; of several runs the sum is shown, too.

    \b
        rehearse show profile runs/x
        rehearse show profile runs/x --trace x.json      (open it in ui.perfetto.dev)
    """
    runs = {str(folder): log_folder(folder) for folder in folders}
    report = _profiled(runs, _ignore) if trace_file is None else _traced(runs, trace_file)
    render_profiles(report, console_of(json_file))
    write_json(report, json_file)


OnPart = Callable[[str, TimelineSpan], None]


def _profiled(runs: dict[str, Path], on_part: OnPart) -> ProfileReport:
    total, profiles = Totals(), []
    for run, folder in runs.items():
        own = Totals()
        with open_reader(folder) as reader:
            add_run(run, reader, (own, total), on_part)
        profiles.append(own.profile(run))
    summed = total.profile(" + ".join(runs))
    return ProfileReport(**msgspec.structs.asdict(summed), runs=tuple(profiles))


def _traced(runs: dict[str, Path], trace_file: Path) -> ProfileReport:
    try:
        with writing(trace_file) as file:
            trace = ChromeTrace(file)
            report = _profiled(runs, trace.add)
            trace.close()
    except OSError as exc:
        raise LogError(f"--trace: {trace_file} cannot be written: {exc}") from exc
    return report


def _ignore(_run: str, _part: TimelineSpan) -> None:
    """No trace was requested."""
