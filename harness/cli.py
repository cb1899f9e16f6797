"""The command line: the roof, which chooses the real parts, wires them, and prints.

Every verb ends with 0, with 1 when the thing asked about failed, or with 2 for bad input, which is
told in one sentence on standard error. Results go to standard output, progress to standard error.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from envpool.errors import PoolError
from envpool.local import LocalPool
from envpool.world import World
from harness.bench import BenchReport, measure
from harness.config import Settings, choices_of, difference, resolve, swept
from harness.errors import HarnessError, LogError, SettingsError
from harness.events import Ending, Label
from harness.export import export as write_export
from harness.launch import CourtOf, described, fresh_folder, launch, planned
from harness.log_reader import open_reader
from harness.log_writer import open_log
from harness.mqtt import MqttBus, status_of
from harness.mqtt_settings import MqttSettings
from harness.plan import chosen_tasks
from harness.process import quiet_logs, run
from harness.recorder import Recorder
from harness.replay import replay as replay_log
from harness.replay import what_if
from harness.replay_report import render_replay, render_what_if
from harness.report import RunReport, render_bench, render_run_report, render_sweep, report_of
from harness.session import only
from harness.show import render_episode, render_run
from harness.show_world import render_world, world_report
from harness.store import write_atomically
from harness.watch import watch as watch_run
from judge.court import CodeCourt
from judge.errors import JudgeError
from judge.gate import check_scenario
from judge.gate_report import merged, render
from judge.judging import Tally, judge_log
from judge.rewards import PROFILES
from scenarios.catalogue import bundled_names, find
from scenarios.errors import PackageError, ScenarioError
from scenarios.format import Scenario

_EXPECTED = (HarnessError, ScenarioError, PoolError, JudgeError)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rehearsal")
@click.option("-v", "--verbose", count=True, help="Log what happens (-vv: everything).")
def cli(verbose: int) -> None:
    """A rehearsal room for tool-using agents."""
    quiet_logs(verbose)


def main() -> None:
    """The command `rehearse`."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted; a run goes on with --resume", err=True)
        sys.exit(130)
    except click.ClickException as exc:
        exc.show()
        sys.exit(2)
    except click.exceptions.Exit as exc:
        sys.exit(exc.exit_code)
    except KeyboardInterrupt:
        click.echo("interrupted; a run goes on with --resume", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as exc:
        known = only(exc)
        if not isinstance(known, _EXPECTED):
            raise
        click.echo(f"error: {known}", err=True)
        sys.exit(2)


# Flags ------------------------------------------------------------------------------------------


def _choice(field: str) -> click.Choice[str]:
    return click.Choice(choices_of(field))


def _writable(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse a file that cannot be there before the work, not after it."""
    if value is not None and value != "-" and not Path(value).absolute().parent.is_dir():
        raise SettingsError(f"--json: {value} cannot be written: its folder does not exist")
    return value


_JSON = click.option(
    "--json",
    "json_file",
    metavar="FILE",
    callback=_writable,
    help="Write the result as JSON; - for standard output.",
)
_RUN_FLAGS = (
    click.argument("scenarios", nargs=-1, metavar="[SCENARIO[:TASK]]..."),
    click.option("-p", "--policy", type=_choice("policy"), help="Who plays."),
    click.option("-m", "--model", help="The model's name, for policy openai."),
    click.option("--base-url", help="The model server's URL, as in http://localhost:8000/v1."),
    click.option("--client", type=_choice("client"), help="package: the openai package's own."),
    click.option("--script", help="The file of calls, for policy scripted."),
    click.option("-n", "--episodes", type=int, help="Episodes in all; default: one of each task."),
    click.option("-g", "--group-size", type=int, help="Episodes of one task in a row."),
    click.option("-c", "--concurrency", type=int, help="Episodes live at once."),
    click.option("--seed", type=int, help="What everything drawn at random follows from."),
    click.option("--history", help="full, last:W or tokens:N."),
    click.option("--dialect", type=_choice("dialect"), help="How tools are shown and calls read."),
    click.option("--format-rules", type=_choice("format_rules"), help="What is malformed."),
    click.option("--format-stop/--no-format-stop", default=None, help="End at a malformed step."),
    click.option("--format-reward", type=float, help="Of a malformed step; default -1."),
    click.option("--max-steps", type=int, help="Steps of an episode."),
    click.option("--token-limit", type=int, help="Tokens generated in an episode."),
    click.option("--time-limit", type=float, help="Seconds of an episode."),
    click.option("--reply-timeout", type=float, help="Seconds for a reply, retries included."),
    click.option("--call-timeout", type=float, help="Seconds for a tool call."),
    click.option("--request-timeout", type=float, help="Seconds for one request to the model."),
    click.option("--max-attempts", type=int, help="Requests for one reply."),
    click.option("--temperature", type=float, help="Of the model."),
    click.option("--top-p", type=float, help="Of the model."),
    click.option("--max-tokens", type=int, help="Of one reply."),
    click.option("--think", metavar="LOW:HIGH", help="Seeded think time before each reply, s."),
    click.option("--judge", type=_choice("judge"), help="Who judges."),
    click.option("--rewards", type=_choice("rewards"), help="What a label is worth."),
    click.option("--bus", metavar="URL", help="Publish on a broker: mqtt[s]://user@host:port."),
    click.option("--config", type=click.Path(path_type=Path), help="Settings in TOML."),
    click.option("-o", "--output", type=click.Path(path_type=Path), help="The run's folder."),
    click.option("--resume", is_flag=True, help="Go on with the run in the folder."),
    click.option("--dry-run", is_flag=True, help="Print the resolved settings and stop."),
    _JSON,
)


def _run_flags(command: Callable[..., None]) -> Callable[..., None]:
    for flag in reversed(_RUN_FLAGS):
        command = flag(command)
    return command


def _settings(config: Path | None, output: Path | None, resume: bool, flags: Any) -> Settings:
    """The resolved settings; a run that goes on has those with which it began."""
    began = output / "run.toml" if resume and output is not None else None
    if began is None or not began.is_file():
        return resolve(config, flags)
    settings = resolve(config or began, flags)
    if (changed := difference(began, settings)) is not None:
        raise SettingsError(f"{began}: {changed}")
    return settings


def _write_json(result: Any, json_file: str | None) -> None:
    """Write the machine-readable result where it was asked for."""
    if json_file is None:
        return
    data = msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"
    if json_file == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        write_atomically(Path(json_file), data)
    except OSError as exc:
        raise SettingsError(f"--json: {json_file} cannot be written: {exc}") from exc


def _console(json_file: str | None) -> Console:
    """Where a person reads: standard error when JSON takes standard output."""
    return Console(stderr=json_file == "-")


# Running ----------------------------------------------------------------------------------------


@cli.command("run")
@_run_flags
def run_command(
    config: Path | None,
    output: Path | None,
    resume: bool,
    dry_run: bool,
    json_file: str | None,
    **flags: Any,
) -> None:
    """Run episodes and log them."""
    settings = _settings(config, output, resume, flags)
    if output is None:
        output = fresh_folder(settings)
    if dry_run:
        _print_settings(settings)
        return
    launch(settings, output, resume=resume, court_of=_court_of(settings)).pool.close()
    report = _report(output)
    write_atomically(output / "report.json", msgspec.json.format(msgspec.json.encode(report)))
    console = _console(json_file)
    console.print(f"run folder {output}", highlight=False)
    render_run_report(report, console)
    _write_json(report, json_file)


@cli.command("bench")
@_run_flags
@click.option("--sweep", metavar="FIELD=A,B,C", help="Bench once for each value of a setting.")
def bench_command(
    config: Path | None,
    output: Path | None,
    resume: bool,
    dry_run: bool,
    json_file: str | None,
    sweep: str | None,
    **flags: Any,
) -> None:
    """Run episodes and measure them."""
    if resume:
        raise SettingsError("--resume: a benchmark is measured in one go; `rehearse run` resumes")
    settings = _settings(config, output, resume, flags)
    if dry_run:
        _print_settings(settings)
        return
    console = _console(json_file)
    if sweep is None:
        report = _bench(settings, output)
        render_bench(report, console)
        _write_json(report, json_file)
        return
    name, runs = swept(settings, sweep)
    reports = []
    for value, one in runs:
        folder = None if output is None else output / f"{name}-{value}"
        reports.append((value, _bench(one, folder)))
    render_sweep(name, reports, console)
    _write_json({"sweep": name, "runs": [{name: v, "bench": r} for v, r in reports]}, json_file)


def _bench(settings: Settings, output: Path | None) -> BenchReport:
    if output is not None:
        report = _measured(settings, output)
        write_atomically(output / "report.json", msgspec.json.format(msgspec.json.encode(report)))
        return report
    with tempfile.TemporaryDirectory(prefix="rehearse-") as folder:
        return _measured(settings, Path(folder) / "bench")


def _measured(settings: Settings, folder: Path) -> BenchReport:
    launched = launch(settings, folder, resume=False, court_of=_court_of(settings))
    with closing(launched.pool) as pool:
        scenarios = {scenario.name: scenario for scenario, _ in chosen_tasks(settings.scenarios)}
        return measure(
            folder,
            launched.meters,
            {name: pool.host(scenario) for name, scenario in scenarios.items()},
            concurrency=settings.concurrency,
            policy=launched.policy,
        )


def _court_of(settings: Settings) -> CourtOf:
    return lambda pool, scenarios: CodeCourt(pool, scenarios, PROFILES[settings.rewards])


def _print_settings(settings: Settings) -> None:
    tasks, plans = planned(settings)
    click.echo(described(settings, tasks).decode(), nl=False)
    click.echo(f"# {len(plans)} episodes of {len(tasks)} tasks")


def _report(folder: Path) -> RunReport:
    with open_reader(folder) as reader:
        return report_of(reader.episodes())


# Looking back -----------------------------------------------------------------------------------

_RUN = click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))


@cli.command("show")
@_RUN
@click.argument("episode", required=False)
def show_command(folder: Path, episode: str | None) -> None:
    """Show a run, or one episode of it, turn by turn."""
    console = Console()
    with open_reader(folder) as reader:
        if episode is None:
            render_run(reader, console)
        else:
            render_episode(reader.trajectory(episode), console)


@cli.command("replay")
@_RUN
@click.option("--world", type=click.Path(path_type=Path), help="What if: a changed package.")
@_JSON
def replay_command(folder: Path, world: Path | None, json_file: str | None) -> None:
    """Execute every call again and compare; ends with 1 when something diverged."""
    console = _console(json_file)
    with open_reader(folder) as reader, closing(LocalPool()) as pool:
        if world is not None:
            changed = find(str(world))
            judge = CodeCourt(pool, [changed], PROFILES[_rewards(folder)])
            changes = what_if(reader, pool, changed, judge.judge)
            render_what_if(changes, console)
            _write_json(changes, json_file)
            return
        report = replay_log(reader, pool, _scenario_of(folder))
    render_replay(report, console)
    _write_json(report, json_file)
    if report.divergences:
        sys.exit(1)


def _rewards(folder: Path) -> str:
    """The reward profile with which the run was judged."""
    began = folder / "run.toml"
    return resolve(began, {}).rewards if began.is_file() else "awm"


@cli.command("judge")
@_RUN
@click.option("--mode", type=click.Choice(["code"]), default="code", help="Which judge.")
@click.option("--rewards", type=click.Choice(sorted(PROFILES)), help="Default: the run's.")
@_JSON
def judge_command(folder: Path, mode: str, rewards: str | None, json_file: str | None) -> None:
    """Judge a run again from its log; the new verdicts are appended to it."""
    run(_judge_again, folder, rewards or _rewards(folder), json_file)


async def _judge_again(folder: Path, rewards: str, json_file: str | None) -> None:
    scenario_of = _scenario_of(folder)
    tally = Tally()
    async with AsyncExitStack() as stack:
        with open_reader(folder):
            pass  # a folder without a log is refused, and gets none
        log = await stack.enter_async_context(open_log(folder, resume=True))
        reader = stack.enter_context(open_reader(folder))
        pool = stack.enter_context(closing(LocalPool()))
        worlds = reader.worlds().values()
        scenarios = [scenario_of(world.scenario, world.package) for world in worlds]
        court = CodeCourt(pool, scenarios, PROFILES[rewards])
        progress = reader.progress()
        recorder = Recorder(log)
        for trajectory, judged in judge_log(reader.trajectories(), court):
            tally.add(trajectory, judged)
            recorder.open(trajectory.episode, seq=progress[trajectory.episode].next_seq)
            await recorder.record(trajectory.episode, trajectory.attempt, judged)
            recorder.close(trajectory.episode)
        await log.flush()
    summary = tally.summary()
    console = _console(json_file)
    reward = "none" if summary.mean_reward is None else f"{summary.mean_reward:.3f}"
    console.print(f"{summary.episodes} episodes judged, mean reward {reward}", highlight=False)
    for label, count in summary.labels.items():
        console.print(f"  {label:<20} {count:,}", highlight=False)
    for left in summary.unjudged_episodes:
        console.print(f"  unjudged {left.episode}: {left.why}", highlight=False)
    _write_json(summary, json_file)


def _scenario_of(folder: Path) -> Callable[[str, str], Scenario]:
    """Finds the package of a logged world: where it was when the run began, or bundled."""
    with open_reader(folder) as reader:
        places = {world.package: world.place for world in reader.worlds().values()}

    def scenario_of(name: str, package: str) -> Scenario:
        found = [_found(place) for place in (places.get(package) or name, name)]
        known = [scenario for scenario in found if scenario is not None and scenario.name == name]
        for scenario in known:
            if scenario.digest == package:
                return scenario
        if not known:
            raise LogError(f"{folder}: the package of scenario {name!r} is no longer where it was")
        raise LogError(
            f"{folder}: scenario {name!r} has changed since the run: its package was {package}, "
            f"and is {known[0].digest} now (replay --world asks what would change)"
        )

    return scenario_of


def _found(place: str) -> Scenario | None:
    try:
        return find(place)
    except ScenarioError:
        return None


@cli.command("export")
@_RUN
@click.option("--to", type=click.Choice(["jsonl", "parquet", "sft"]), default="jsonl")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write.")
@click.option("--dumps", is_flag=True, help="Add the final state of every table.")
@click.option("--label", "labels", multiple=True, type=click.Choice([str(x) for x in Label]))
@click.option("--ending", "endings", multiple=True, type=click.Choice([str(x) for x in Ending]))
def export_command(
    folder: Path,
    to: Any,
    output: Path | None,
    dumps: bool,
    labels: Sequence[str],
    endings: Sequence[str],
) -> None:
    """Write a run's episodes: JSON lines, Parquet, or chats for supervised training."""
    names = {"jsonl": "episodes.jsonl", "parquet": "episodes.parquet", "sft": "chats.jsonl"}
    path = output or folder / names[to]
    with open_reader(folder) as reader:
        count = write_export(
            reader,
            path,
            to=to,
            dumps=dumps,
            labels=[Label(label) for label in labels] or None,
            endings=[Ending(ending) for ending in endings] or None,
        )
    click.echo(f"{count} episodes in {path}")


@cli.command("watch")
@click.argument("name", metavar="[RUN]", required=False)
@click.option("--bus", required=True, metavar="URL", help="mqtt[s]://user@host:port")
@click.option("--events", is_flag=True, help="A line for each event.")
def watch_command(name: str | None, bus: str, events: bool) -> None:
    """Follow a run over a broker, from its beginning, until it ends."""
    run(_watch, name, MqttSettings(url=bus), events)


async def _watch(name: str | None, settings: MqttSettings, events: bool) -> None:
    if name is None:
        name = (await status_of(settings)).run
        click.echo(f"watching {name}", err=True)
    async with MqttBus(settings, name) as bus, bus.subscribe() as follower:
        await watch_run(follower, Console(), events=events, status=lambda: follower.status)


# Worlds -----------------------------------------------------------------------------------------


@cli.group("scenarios")
def scenarios_group() -> None:
    """The catalogue of worlds and their quality gate."""


@scenarios_group.command("list")
@_JSON
def list_command(json_file: str | None) -> None:
    """List the bundled worlds."""
    table = Table("name", "title", "tasks", "description", box=None, pad_edge=False)
    rows = []
    for name in bundled_names():
        scenario = find(name)
        tasks = len(scenario.tasks)
        table.add_row(name, scenario.title, str(tasks), scenario.description)
        rows.append({"name": name, "title": scenario.title, "tasks": tasks})
    _console(json_file).print(table)
    _write_json(rows, json_file)


@scenarios_group.command("show")
@click.argument("name")
@_JSON
def show_scenario_command(name: str, json_file: str | None) -> None:
    """Show a world: its tables, tools, rules and tasks."""
    with closing(World(find(name))) as world:
        about = world_report(world)
    render_world(about, _console(json_file))
    _write_json(about, json_file)


@scenarios_group.command("check")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@_JSON
def check_command(paths: Sequence[str], json_file: str | None) -> None:
    """Prove worlds: the quality gate. Ends with 1 when a check fails."""
    reports = []
    for path in paths:
        try:
            reports.append(check_scenario(path))
        except PackageError as exc:
            raise SettingsError(str(exc)) from exc
    render(reports, _console(json_file))
    total = merged(reports)
    _write_json(total, json_file)
    if not total.ok:
        sys.exit(1)


if __name__ == "__main__":
    main()
