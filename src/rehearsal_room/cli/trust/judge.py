"""The command `judge`: judge a run again, or show what its judges disagree on."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from rehearsal_room.cli.core.flags import flags_of
from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.interruption import command_line, continued_by, same_command
from rehearsal_room.cli.core.judge_options import judge_flags, open_run_judge, settings_of
from rehearsal_room.cli.core.options import JSON, RUN, TRUST_RUN, console_of, write_json
from rehearsal_room.cli.trust.follow import follow_published, follow_run
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.logged_runs.logged_run import run_settings
from rehearsal_room.harness.reports.summary import RunReport, read_report, write_report
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.harness.settings.judge import JudgeSettings, save_judge
from rehearsal_room.harness.setup.run_trust import marked
from rehearsal_room.judge.core.rewards import PROFILES
from rehearsal_room.judge.failures.reading import diagnoses_of
from rehearsal_room.judge.verdicts import summary as verdict_summary
from rehearsal_room.judge.verdicts.disagreements import Disagreement, queue, ranked, render
from rehearsal_room.judge.verdicts.rejudge import (
    RejudgeOnly,
    judge_again,
    reward_again,
    start_rejudging,
)
from rehearsal_room.judge.verdicts.summary import JudgingSummary, VerdictTally
from rehearsal_room.scenarios.files import UNREADABLE

# Names of the flags that `judge --help` shows.
_USUAL = (
    *("mode", "models", "base_url", "rubric", "prices", "budget", "concurrency", "rewards"),
    *("only", "show_queue", "limit", "follow", "bus", "output", "json_file"),
)


@click.command("judge", cls=SectionedCommand, usual=_USUAL)
@RUN
@judge_flags
@flags_of(JudgeSettings, only=("rewards",), section="Judge")
@click.option(
    "--only",
    type=click.Choice(["unjudged", "disagreements"]),
    help="Judge only the episodes without a verdict, or those on which judges disagree "
    "(default: all).",
)
@click.option(
    "--disagreements",
    "show_queue",
    is_flag=True,
    help="Show the episodes on which judges disagree, and judge nothing.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Maximum number of disagreements to show; 0: all.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Judge a run while it is played (run --judge elsewhere, or none): each episode when it "
    "ends, until the run has ended and all are judged.",
)
@click.option(
    "--bus",
    metavar="URL",
    help="With --follow: URL of the MQTT broker on which RUN is published; the run must "
    "be played with --judge elsewhere.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="With --bus: folder of the copy of the run and of the verdicts (default: runs/RUN-copy).",
)
@TRUST_RUN
@JSON
def judge_command(
    folder: Path,
    rewards: str | None,
    only: RejudgeOnly | None,
    show_queue: bool,
    limit: int,
    follow: bool,
    bus: str | None,
    output: Path | None,
    json_file: str | None,
    **flags: Any,
) -> None:
    """Judge a run again from its log; the new verdicts are appended to the log.

    Judge flags that are not given are as in the run's latest judging. With --rewards alone the
    verdicts stay, and only their rewards are computed again.

    The exit status is 1 when models were asked in vain about more than a tenth of the episodes.
    """
    console = console_of(json_file)
    _check_follow(follow, bus=bus, output=output, only=only, disagreements=show_queue)
    if follow:
        given = given_of(flags) | {"rewards": rewards}
        copy = output or Path("runs") / f"{folder.name}-copy"
        with continued_by(partial(same_command, bus)):
            if bus is None:
                summary = run(follow_run, folder, given)
                _renew_report(folder)
            else:
                summary = run(follow_published, str(folder), bus, copy, given)
        verdict_summary.render(summary, console)
        write_json(summary, json_file)
        return
    if show_queue:
        _show_queue(folder, console, json_file, limit)
        return
    with open_reader(folder) as reader:  # a folder without a log is refused, and none is made
        has_verdicts = "judged" in reader.counts()
    given = given_of(flags)
    settings = settings_of(folder, given | {"rewards": rewards})
    if rewards is not None and not given and only is None and has_verdicts:
        summary = run(_reward_again, folder, settings)
    else:
        summary = judge_run_again(folder, settings, only or "all")
    _renew_report(folder)
    verdict_summary.render(summary, console)
    write_json(summary, json_file)
    if summary.lacks_verdicts:
        sys.exit(1)


def judge_run_again(
    folder: Path, settings: JudgeSettings, only: RejudgeOnly = "all"
) -> JudgingSummary:
    """Judge a run again; the verdicts are appended to its log. Raises what opening the judge
    raises."""
    which = "unjudged" if only == "all" else only
    with continued_by(lambda: command_line("judge", folder, "--only", which)):
        summary: JudgingSummary = run(_judge_again, folder, settings, only)
    return summary


def _check_follow(
    follow: bool,
    *,
    bus: str | None,
    output: Path | None,
    only: RejudgeOnly | None,
    disagreements: bool,
) -> None:
    """Refuse flags that do not go together. Raises SettingsError."""
    if follow and (only is not None or disagreements):
        unused = "--only" if only is not None else "--disagreements"
        raise SettingsError(f"{unused}: is for a run that has ended; leave it or --follow out")
    if bus is not None and not follow:
        raise SettingsError("--bus: is for --follow; a run that has ended is judged in its folder")
    if output is not None and bus is None:
        raise SettingsError("--output: is for --bus; verdicts on RUN are written into its folder")


def given_of(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that were given."""
    return {name: value for name, value in flags.items() if value not in (None, ())}


def _renew_report(folder: Path) -> None:
    """Write report.json again from the verdicts that count now; the report of a benchmark stays as
    it was measured."""
    path = folder / "report.json"
    # Imported when the verdicts are there: its libraries take a third of a second.
    from rehearsal_room.judge.statistics.run_statistics import statistics_of

    with suppress(OSError, *UNREADABLE):
        before = msgspec.json.decode(path.read_bytes(), type=RunReport)
        with open_reader(folder) as reader:
            report = read_report(
                reader,
                partial(statistics_of, unit=run_settings(folder).unit),
                max_steps=before.max_steps,
                diagnoses=diagnoses_of(folder),
            )
        write_report(folder, report)


async def _judge_again(folder: Path, settings: JudgeSettings, only: RejudgeOnly) -> JudgingSummary:
    async with AsyncExitStack() as stack:
        with open_reader(folder) as reader:  # report bad input before the log is opened to write
            judge = await stack.enter_async_context(open_run_judge(folder, reader, settings))
        log = await stack.enter_async_context(open_log(folder, resume=True))
        reader = stack.enter_context(open_reader(folder))
        save_judge(folder, settings, marked)
        display = ProgressDisplay("episodes judged", total=len(reader.episodes()))
        stack.enter_context(display)
        return await judge_again(
            start_rejudging(reader, log),
            judge,
            name=judge.name,
            rewards=settings.rewards,
            concurrency=settings.concurrency,
            only=only,
            has_profile=settings.profile != "none",
            done=display.advance,
        )


async def _reward_again(folder: Path, settings: JudgeSettings) -> JudgingSummary:
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log(folder, resume=True))
        reader = stack.enter_context(open_reader(folder))
        display = ProgressDisplay("episodes rewarded", total=len(reader.episodes()))
        stack.enter_context(display)
        work = start_rejudging(reader, log)
        summary = await reward_again(work, PROFILES[settings.rewards], done=display.advance)
        save_judge(folder, settings, marked)  # later verdicts have the same rewards
        return summary


class Queue(JudgingSummary, frozen=True, kw_only=True):
    """The JSON of `rehearse judge RUN --disagreements`: the summary of the latest verdicts, and
    every disagreement among them."""

    queue: Sequence[Disagreement]


def _show_queue(folder: Path, console: Console, json_file: str | None, limit: int) -> None:
    with open_reader(folder) as reader:
        tally = VerdictTally()
        contested = ranked(queue(reader.trajectories()))
        for trajectory in reader.trajectories():
            if trajectory.judged:
                tally.add(trajectory, trajectory.judged[-1], is_new=False)
    shown = contested[: limit or None]
    with console.capture() as captured:
        render(shown, console)
        if left := len(contested) - len(shown):
            console.print(f"{left:,} more are not shown; --limit 0 shows all", highlight=False)
    print_paged(captured.get(), console)
    summary = msgspec.structs.replace(tally.summary(), judge="", disagreements=len(contested))
    write_json(Queue(**msgspec.structs.asdict(summary), queue=contested), json_file)


def print_paged(text: str, console: Console) -> None:
    """Print a text; on a terminal on which it does not fit, in a pager."""
    printed = Text.from_ansi(text.rstrip("\n"))
    is_long = console.is_terminal and text.count("\n") >= console.height
    with console.pager(styles=True) if is_long else nullcontext():
        console.print(printed, soft_wrap=True)
