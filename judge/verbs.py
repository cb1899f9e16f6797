"""The verbs of the judge: judge, study, label."""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import Progress

from harness.config import judge_settings
from harness.judge_settings import JudgeSettings, merged, read_judge, save_judge
from harness.launch import pool_of
from harness.log_reader import LogReader, open_reader
from harness.log_writer import open_log
from harness.process import run
from harness.verbs.flags import JSON, choice, console_of, write_json
from harness.verbs.runs import run_settings, scenario_finder
from judge import tally
from judge.court import CodeCourt
from judge.disagreements import Disagreement, queue, ranked, render
from judge.evidence import scene_of
from judge.opening import ReasoningCourt, open_court
from judge.rejudging import Done, Only, judge_again, rejudging, reward_again
from judge.rewards import PROFILES
from judge.tally import Summary, Tally

RUN = click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
_LINE_EVERY = 5.0  # seconds between two lines where there is no terminal
_FLAGS = (
    click.option("--mode", type=click.Choice(["code", "llm", "hybrid"]), help="Which judge."),
    click.option("--judge", "-m", "--model", "models", multiple=True, metavar="MODEL[@URL]"),
    click.option("--base-url", help="The judges' server, as in http://localhost:8000/v1."),
    click.option("--vote", type=click.Choice(["majority", "unanimous"]), help="Of several."),
    click.option("--ask", type=click.Choice(["always", "unproven"]), help="Whom to ask about."),
    click.option("--rubric", type=click.Path(), help="A rubric of your own."),
    click.option("--prices", type=click.Path(), help="What models cost, in TOML."),
    click.option("--budget", type=float, help="USD that may be spent now."),
    click.option("-c", "--concurrency", type=int, help="Verdicts that are waited for at once."),
    click.option("--evidence-tokens", type=int, help="Of one question, at most."),
    click.option("--max-tokens", type=int, help="Of one answer."),
    click.option("--temperature", type=float, help="Of the judges."),
    click.option("--timeout", type=float, help="Seconds for one request."),
    click.option("--attempts", type=int, help="Requests for one opinion."),
    click.option("--seed", type=int, help="Sent to the judges."),
    click.option("--cache", type=click.Path(), help="The file of verdicts that were had."),
)


def judge_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The flags that say who judges."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


@click.command("judge")
@RUN
@judge_flags
@click.option("--rewards", type=choice("rewards"), help="Default: the run's.")
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
    if rewards is not None and not given and only is None and has_verdicts:
        summary = run(_reward_again, folder, rewards)
    else:
        settings = settings_of(folder, given)
        rewards = rewards or run_settings(folder).rewards
        summary = run(_judge_again, folder, settings, rewards, only or "all")
    tally.render(summary, console)
    write_json(summary, json_file)


def settings_of(folder: Path, flags: dict[str, Any]) -> JudgeSettings:
    """The judge of a run as it judged last, changed by flags. A model that is named without a
    mode is asked in mode hybrid. Raises SettingsError."""
    for name in ("rubric", "prices", "cache"):
        if name in flags:
            flags[name] = str(Path(flags[name]).absolute())
    began = read_judge(folder)
    if began is None:
        settings = run_settings(folder)
        began = JudgeSettings() if settings.judge == "none" else judge_settings(settings)
    if "models" in flags and "mode" not in flags and began.mode == "code":
        flags["mode"] = "hybrid"
    return merged(began, flags)


async def _judge_again(folder: Path, settings: JudgeSettings, rewards: str, only: Only) -> Summary:
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log(folder, resume=True))
        reader = stack.enter_context(open_reader(folder))
        court = await stack.enter_async_context(court_of(folder, reader, settings, rewards))
        save_judge(folder, settings)
        done = stack.enter_context(progress("judged", len(reader.episodes())))
        return await judge_again(
            rejudging(reader, log),
            court,
            name=court.name,
            rewards=rewards,
            at_once=settings.concurrency,
            only=only,
            done=done,
        )


async def _reward_again(folder: Path, rewards: str) -> Summary:
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log(folder, resume=True))
        reader = stack.enter_context(open_reader(folder))
        done = stack.enter_context(progress("rewarded", len(reader.episodes())))
        return await reward_again(rejudging(reader, log), PROFILES[rewards], done=done)


@asynccontextmanager
async def court_of(
    folder: Path, reader: LogReader, settings: JudgeSettings, rewards: str
) -> AsyncIterator[CodeCourt | ReasoningCourt]:
    """The judge of a logged run. Raises what `open_court`, the pool and the finder raise."""
    worlds = reader.worlds().values()
    async with AsyncExitStack() as stack:
        pool, scenarios = None, []
        if settings.mode != "llm":
            scenario_of = scenario_finder(folder)
            scenarios = [scenario_of(world.scenario, world.package) for world in worlds]
            pool = await stack.enter_async_context(pool_of(run_settings(folder)))
            # The findings of foreign scenarios are in the log.
            await pool.host_all(scenario for scenario in scenarios if scenario.foreign is None)
        court = open_court(
            settings,
            pool=pool,
            scenarios=scenarios,
            scenes={world.package: scene_of(world) for world in worlds},
            profile=PROFILES[rewards],
            folder=folder,
        )
        yield await stack.enter_async_context(court)


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


@contextmanager
def progress(what: str, total: int) -> Iterator[Done]:
    """What is called for each thing done: a bar on a terminal, plain lines elsewhere, on standard
    error."""
    console = Console(stderr=True)
    if console.is_terminal:
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)
        return
    count, said = 0, time.monotonic()

    def done() -> None:
        nonlocal count, said
        count += 1
        if time.monotonic() - said > _LINE_EVERY:
            said = time.monotonic()
            console.print(f"{count} of {total} {what}", highlight=False)

    yield done
