"""The verb judge: a run judged again, or what its judges disagree on."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from harness.commands.options import JSON, choice, console_of, write_json
from harness.log.reader import open_reader
from harness.log.writer import open_log
from harness.reports.summary import RunReport, report_of, write_report
from harness.rollout.process import run
from harness.settings.judge import JudgeSettings, save_judge
from judge.commands.options import RUN, judge_flags, open_run_judge, progress, settings_of
from judge.core.rewards import PROFILES
from judge.verdicts import summary as verdict_summary
from judge.verdicts.disagreements import Disagreement, queue, ranked, render
from judge.verdicts.rejudge import Only, judge_again, reward_again, start_rejudging
from judge.verdicts.summary import Summary, Tally


@click.command("judge")
@RUN
@judge_flags
@click.option("--rewards", type=choice("rewards"), help="What a label is worth.")
@click.option("--only", type=click.Choice(["unjudged", "disagreements"]), help="Not all again.")
@click.option("--disagreements", "show_queue", is_flag=True, help="Show where judges disagree.")
@JSON
def judge_command(
    folder: Path,
    rewards: str | None,
    only: Only | None,
    show_queue: bool,
    json_file: str | None,
    **flags: Any,
) -> None:
    """Judge a run again from its log; the new verdicts are appended to it.

    With --rewards alone the verdicts stay and are paid otherwise; with --disagreements nothing is
    judged.
    """
    console = console_of(json_file)
    if show_queue:
        _tell_queue(folder, console, json_file)
        return
    with open_reader(folder) as reader:  # a folder without a log is refused, and gets none
        has_verdicts = "judged" in reader.counts()
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    settings = settings_of(folder, given | {"rewards": rewards})
    if rewards is not None and not given and only is None and has_verdicts:
        summary = run(_reward_again, folder, settings)
    else:
        summary = run(_judge_again, folder, settings, only or "all")
    _renew_report(folder)
    verdict_summary.render(summary, console)
    write_json(summary, json_file)


def _renew_report(folder: Path) -> None:
    """Have report.json tell the verdicts that count now; a benchmark's report stays what was
    measured."""
    path = folder / "report.json"
    with suppress(OSError, msgspec.DecodeError):
        msgspec.json.decode(path.read_bytes(), type=RunReport)
        with open_reader(folder) as reader:
            write_report(folder, report_of(reader.episodes()))


async def _judge_again(folder: Path, settings: JudgeSettings, only: Only) -> Summary:
    async with AsyncExitStack() as stack:
        with open_reader(folder) as reader:  # bad input is told before the log is opened to write
            judge = await stack.enter_async_context(open_run_judge(folder, reader, settings))
        log = await stack.enter_async_context(open_log(folder, resume=True))
        reader = stack.enter_context(open_reader(folder))
        save_judge(folder, settings)
        done = stack.enter_context(progress("judged", len(reader.episodes())))
        return await judge_again(
            start_rejudging(reader, log),
            judge,
            name=judge.name,
            rewards=settings.rewards,
            concurrency=settings.concurrency,
            only=only,
            done=done,
        )


async def _reward_again(folder: Path, settings: JudgeSettings) -> Summary:
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log(folder, resume=True))
        reader = stack.enter_context(open_reader(folder))
        done = stack.enter_context(progress("rewarded", len(reader.episodes())))
        work = start_rejudging(reader, log)
        summary = await reward_again(work, PROFILES[settings.rewards], done=done)
        save_judge(folder, settings)  # what is judged from now on is paid alike
        return summary


class Queue(Summary, frozen=True, kw_only=True):
    """What `rehearse judge RUN --disagreements --json` says: the latest verdicts as they are, and
    the cases in which there is more than one opinion."""

    queue: Sequence[Disagreement]


def _tell_queue(folder: Path, console: Console, json_file: str | None) -> None:
    with open_reader(folder) as reader:
        told = Tally()
        contested = ranked(queue(reader.trajectories()))
        for trajectory in reader.trajectories():
            if trajectory.judged:
                told.add(trajectory, trajectory.judged[-1], is_new=False)
    render(contested, console)
    summary = msgspec.structs.replace(told.summary(), judge="", disagreements=len(contested))
    write_json(Queue(**msgspec.structs.asdict(summary), queue=contested), json_file)
