"""What the verbs of the judge share: flags, settings, the judge of a logged run, progress."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from harness.commands.logged_run import run_settings, scenario_finder
from harness.log.reader import LogReader
from harness.rollout.launch import pool_of
from harness.settings.judge import JudgeSettings, merged, read_judge
from harness.settings.run import judge_settings
from judge.core.evidence import scenario_info
from judge.core.rewards import PROFILES
from judge.verdicts.code_judges import ScenarioJudges
from judge.verdicts.factory import ReasoningCourt, open_judge
from judge.verdicts.rejudge import Done

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


def settings_of(folder: Path, flags: dict[str, Any]) -> JudgeSettings:
    """The judge of a run as it judged last, changed by flags. A model that is named without a
    mode is asked in mode hybrid. Raises SettingsError."""
    for name in ("rubric", "prices", "cache"):
        if flags.get(name):
            flags[name] = str(Path(flags[name]).absolute())
    began = read_judge(folder)
    if began is None:
        settings = run_settings(folder)
        began = (
            JudgeSettings(rewards=settings.rewards)
            if settings.judge == "none"
            else judge_settings(settings)
        )
    if "models" in flags and "mode" not in flags and began.mode == "code":
        flags["mode"] = "hybrid"
    return merged(began, flags)


@asynccontextmanager
async def open_run_judge(
    folder: Path, reader: LogReader, settings: JudgeSettings
) -> AsyncIterator[ScenarioJudges | ReasoningCourt]:
    """The judge of a logged run. Raises what `open_judge`, the pool and the finder raise."""
    worlds = reader.scenarios().values()
    async with AsyncExitStack() as stack:
        pool, scenarios = None, []
        if settings.mode != "llm":
            scenario_of = scenario_finder(folder)
            scenarios = [scenario_of(world.scenario, world.scenario_digest) for world in worlds]
            pool = await stack.enter_async_context(pool_of(run_settings(folder)))
            # The findings of foreign scenarios are in the log.
            await pool.host_all(scenario for scenario in scenarios if scenario.foreign is None)
        court = open_judge(
            settings,
            pool=pool,
            scenarios=scenarios,
            scenes={world.scenario_digest: scenario_info(world) for world in worlds},
            profile=PROFILES[settings.rewards],
            folder=folder,
        )
        yield await stack.enter_async_context(court)


@contextmanager
def counted(what: str) -> Iterator[Callable[[int, int], None]]:
    """What is told how many of how many are done: a bar on a terminal, plain lines elsewhere, on
    standard error."""
    console = Console(stderr=True)
    if console.is_terminal:
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    said = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said > _LINE_EVERY:
            said = time.monotonic()
            console.print(f"{done} of {total} {what}", highlight=False)

    yield tell


@contextmanager
def progress(what: str, total: int) -> Iterator[Done]:
    """What is called for each thing done (see `counted`)."""
    count = 0
    with counted(what) as tell:

        def done() -> None:
            nonlocal count
            count += 1
            tell(count, total)

        yield done
