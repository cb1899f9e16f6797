"""The command `eval`: third-party benchmarks, played by our harness."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from rehearsal_room.cli.core.flags import flags_of
from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.options import (
    DRY_RUN,
    JSON,
    OUTPUT,
    RESUME,
    console_of,
    settings_of,
    write_json,
)
from rehearsal_room.cli.play.run import play_run, print_settings
from rehearsal_room.cli.play.suite_judge import (
    ModelJudged,
    model_judged,
    soundness_for,
    trust_lines,
)
from rehearsal_room.cli.play.suite_listing import AGENTS, measured_lines
from rehearsal_room.cli.play.suite_table import (
    SuiteTable,
    TableRow,
    percent,
    print_table,
    write_table,
)
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.envpool.sources.suites import SuiteWorlds
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import AGENT
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.outcomes.run_statistics import RunStatistics, statistics_lines
from rehearsal_room.harness.outcomes.units import choose_unit
from rehearsal_room.harness.policies.noop import LAZY
from rehearsal_room.harness.reports.bar_chart import bar_chart, most_first
from rehearsal_room.harness.reports.summary import played_by, write_report
from rehearsal_room.harness.settings.agent import AgentSettings
from rehearsal_room.harness.settings.policy import MODEL_POLICIES
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.harness.setup.run_trust import RUN_FILE
from rehearsal_room.harness.setup.worlds import source_arguments
from rehearsal_room.judge.suites.scores import (
    ScoreRange,
    SuiteScores,
    findings_of,
    scores_of,
)
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.nearest import did_you_mean
from rehearsal_room.scenarios.suites import mcp_universe
from rehearsal_room.scenarios.suites.catalogue import SUITES, Suite, suite

_UNLIMITED = 1_000_000  # calls in a reply
# No model: no limit on a turn's steps.
_FIXED = ("oracle", "mutant", "scripted", "noop", "replay", *LAZY)
_OMITTED = (
    *("scenarios", "suite", "suite_path", "awm", "mcp", "openenv", "group_size"),
    "forked_from",
    "edit",
)


# Names of the flags that `eval --help` shows.
_USUAL = (
    *("policy", "model", "base_url", "category", "exclude", "tries", "episodes", "concurrency"),
    *("temperature", "suite_path", "output", "resume", "dry_run", "config", "json_file"),
)


class SuiteReport(msgspec.Struct, frozen=True):
    """What `rehearse eval --json` writes."""

    suite: str
    version: str  # of the suite's data
    tasks: int
    episodes: int
    scores: dict[str, float]  # by category; a share from 0 to 1
    overall: float | None  # by the suite's own formula; None: not all of it was played
    floor: float | None  # the overall score, or the mean, of doing nothing
    ceiling: float | None  # the same of the reference solutions; None: the suite has none
    unjudged: int
    groups: dict[str, float]
    pass_hat_k: dict[str, float]
    policy: str
    played_by: str = ""  # the policy with its model, as in `openai:gpt-5`
    failures: dict[str, int] = {}  # episodes by kind of failure, as far as verdicts show it
    statistics: RunStatistics | None = None  # None: no episode has a score
    excluded: tuple[str, ...] = ()  # entries that were left out by --exclude
    ranges: dict[str, ScoreRange] = {}  # of `scores`
    group_ranges: dict[str, ScoreRange] = {}  # of `groups`
    overall_range: ScoreRange | None = None  # of `overall`
    lazy: dict[str, float | None] = {}  # what `floor` is, of agents that do no work (--lazy)
    not_played: tuple[str, ...] = ()  # categories that count as 0 in `overall`
    judged_by: ModelJudged | None = None  # None: no model had a part in the scores
    trust: tuple[str, ...] = ()  # how far that model can be trusted, in sentences


@click.command("eval", cls=SectionedCommand, usual=_USUAL)
@click.argument("suite_name", metavar="[SUITE]", required=False)
@flags_of(Settings, omit=_OMITTED)
@click.option(
    "--category", metavar="NAME", help="One category of the suite (default: the usual ones)."
)
@click.option(
    "--task",
    "chosen",
    multiple=True,
    metavar="ENTRY",
    help="An entry of the suite, by its own id; may be repeated (default: all of them).",
)
@click.option(
    "--prompts",
    type=click.Choice(["upstream", "ours"]),
    help="What the model is sent: the benchmark's own messages, tools and temperature (upstream), "
    "or ours (default: upstream, where this is known of the suite).",
)
@click.option(
    "-k",
    "tries",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of episodes of each task; pass^k is reported up to this number.",
)
@click.option(
    "--suite-path",
    "--tau2",
    "suite_path",
    type=click.Path(),
    metavar="DIR",
    help="Folder of the suite's package, or of a checkout of its repository (default: the package "
    "that the interpreter has).",
)
@click.option(
    "--lazy",
    is_flag=True,
    help="Also play agents that do no work (reciting, pasting, listing all answers), beside doing "
    "nothing and the reference solutions.",
)
@click.option(
    "--soundness",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of `judge study --json`: J of the model that judges is shown beside the score.",
)
@click.option(
    "--all-that-runs",
    is_flag=True,
    help="Play every suite that needs no key and no service with what is installed or named, and "
    "write one table of all: suites.md and suites.json in the run folder.",
)
@click.option(
    "--at",
    "places",
    multiple=True,
    metavar="SUITE=DIR",
    help="With --all-that-runs: the --suite-path of one suite; may be repeated.",
)
@click.option(
    "--python-of",
    "pythons",
    multiple=True,
    metavar="SUITE=FILE",
    help="With --all-that-runs: the --suite-python of one suite; may be repeated.",
)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="TOML file of settings."
)
@OUTPUT
@RESUME
@DRY_RUN
@JSON
def eval_command(
    suite_name: str | None,
    json_file: str | None,
    all_that_runs: bool,
    places: tuple[str, ...],
    pythons: tuple[str, ...],
    **flags: Any,
) -> None:
    """Play a third-party benchmark and score it by its own rules.

    \b
        rehearse eval bfcl_v3 -m MODEL --base-url http://localhost:8000/v1
        rehearse eval bfcl_v3 --category multi_turn_base -p oracle
        rehearse eval --all-that-runs --python-of agentdojo=~/dojo/bin/python -m MODEL -o runs/all

    The score of doing nothing (the floor) and that of the suite's reference solutions (the ceiling)
    stand beside each score; both are played here, on the same tasks.
    """
    if all_that_runs:
        if suite_name or flags["category"] or flags["chosen"]:
            raise SettingsError(
                "--all-that-runs plays whole suites: name no suite and no part of one"
            )
        named = named_by_suite("--at", places), named_by_suite("--python-of", pythons)
        _play_all(json_file, *named, flags)
        return
    if places or pythons:
        raise SettingsError("--at and --python-of belong to --all-that-runs")
    if not suite_name:
        raise SettingsError(f"name a suite ({', '.join(SUITES)}), or give --all-that-runs")
    console = console_of(json_file)
    result = _play_suite(suite(suite_name), console, flags)
    if result is not None:
        write_json(result, json_file)


def named_by_suite(flag: str, given: tuple[str, ...]) -> dict[str, str]:
    """What a flag says of each suite. Raises SettingsError.

    Example: ("bfcl_v3=/data/bfcl",) -> {"bfcl_v3": "/data/bfcl"}
    """
    found = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or not value:
            raise SettingsError(f"{flag}: expected SUITE=PATH, found {one!r}")
        found[suite(name).name] = value
    return found


def _play_all(
    json_file: str | None, places: Mapping[str, str], pythons: Mapping[str, str], flags: Any
) -> None:
    """Play what needs neither a key nor a service, suite by suite, and write the table."""
    console = console_of(json_file)
    root = flags["output"] or Path("runs") / "all-suites"
    has = [name for name in ("suites.json", *SUITES) if (root / name).exists()]
    if has and not flags["resume"]:
        raise SettingsError(f"{root} has {has[0]} already: go on with --resume, or name another -o")
    rows: list[TableRow] = []
    unfit: list[SettingsError] = []
    for found in SUITES.values():
        if why := _why_not(found, flags, places):
            rows.append(TableRow(found.name, why_not=why))
            continue
        folder = root / found.name
        mine = {**flags, "output": folder, "resume": (folder / RUN_FILE).is_file()}
        mine["suite_path"] = places.get(found.name) or None
        mine["suite_python"] = pythons.get(found.name) or flags.get("suite_python")
        console.print(f"{found.name}: {found.title}", highlight=False)
        try:
            result = _play_suite(found, console, mine)
        except (PoolError, ScenarioError) as exc:  # it is not installed, or another release is
            rows.append(TableRow(found.name, why_not=str(exc)))
            continue
        except SettingsError as exc:  # of this suite, where others can be played with them
            rows.append(TableRow(found.name, why_not=str(exc)))
            unfit.append(exc)
            continue
        if result is not None:
            rows.append(_row_of(result))
    if unfit and all(row.why_not for row in rows):
        raise unfit[0]
    if flags["dry_run"]:
        return
    table = SuiteTable(tuple(rows))
    write_table(table, root)
    print_table(table, console)
    write_json(table, json_file)


def _why_not(found: Suite, flags: Mapping[str, Any], places: Mapping[str, str]) -> str:
    """Why a suite is not played with all others; empty: it is."""
    if found.is_free:
        return ""
    if not found.needs_user:
        return f"it needs a key or a service: {found.needs}"
    if not flags.get("user_model"):
        return "a model plays its user: name it with --user-model"
    return "" if found.name in places else f"name its checkout: --at {found.name}=DIR"


def _row_of(report: SuiteReport) -> TableRow:
    return TableRow(
        report.suite,
        version=report.version,
        played_by=report.played_by,
        tasks=report.tasks,
        unjudged=report.unjudged,
        score=_total_of(report.overall, report.scores),
        floor=report.floor,
        ceiling=report.ceiling,
        lazy=report.lazy,
        trust=report.trust,
    )


def _play_suite(found: Suite, console: Console, flags: Mapping[str, Any]) -> SuiteReport | None:
    """Play one suite and print its scores; None: the settings were printed only."""
    flags = dict(flags)
    category, chosen, prompts, tries, suite_path, config, output, resume, dry_run, lazy, file = (
        flags.pop(name)
        for name in (
            *("category", "chosen", "prompts", "tries", "suite_path", "config", "output"),
            *("resume", "dry_run", "lazy", "soundness"),
        )
    )
    _require_category(found, category)
    flags |= {
        "scenarios": chosen or ((category,) if category else found.usual or found.categories),
        "suite": found.name,
        "suite_path": suite_path and str(Path(suite_path).absolute()),
        "group_size": tries,
    }
    settings = with_defaults(settings_of(config, output, resume, flags), found, flags)
    _require_judge(found, settings)
    soundness = soundness_for(file, settings)
    has_begun = resume and output is not None and (output / RUN_FILE).is_file()
    if prompts != "ours" and not has_begun:
        settings = _asked_like_upstream(settings, found, flags, is_demanded=prompts is not None)
    if dry_run:
        print_settings(settings)
        return None
    folder = output or fresh(settings)
    report = play_run(settings, folder, resume=resume)
    write_report(folder, report)
    scores = _scores(settings, folder)
    with open_reader(folder) as reader:
        judged_by = model_judged(reader, _categories(settings), soundness)
    names = ["noop", *(["oracle"] if found.has_solutions else ()), *(LAZY if lazy else ())]
    bounds = {
        policy: _bound(settings, policy, scores if settings.player == policy else None)
        for policy in names
    }
    result = SuiteReport(
        suite=_score_name(found, settings),
        version=SuiteWorlds(source_arguments(settings.worlds)).data.version,
        tasks=scores.tasks,
        episodes=scores.episodes,
        scores=scores.scores,
        overall=scores.overall,
        floor=_total(bounds["noop"]),
        ceiling=_total(bounds["oracle"]) if found.has_solutions else None,
        unjudged=scores.unjudged,
        groups=scores.groups,
        pass_hat_k=scores.pass_hat_k,
        policy=settings.policy.name,
        played_by=_player(settings),
        failures=report.failures,
        statistics=report.statistics,
        excluded=settings.exclude,
        ranges=scores.ranges,
        group_ranges=scores.group_ranges,
        overall_range=scores.overall_range,
        lazy={name: _total(bounds[name]) for name in LAZY if name in bounds},
        not_played=scores.not_played,
        judged_by=judged_by,
        trust=() if judged_by is None else tuple(trust_lines(judged_by, scores.episodes, folder)),
    )
    console.print(f"run folder {folder}", highlight=False)
    render(result, bounds, console)
    for line in measured_lines(found.name):
        console.print(line, highlight=False, soft_wrap=True)
    return result


def _require_category(found: Suite, category: str | None) -> None:
    if category and category not in found.categories:
        hint = did_you_mean(category, found.categories)
        hint = hint or f"; categories: {', '.join(found.categories)}"
        raise SettingsError(f"--category: suite {found.name!r} has no category {category!r}{hint}")


def _require_judge(found: Suite, settings: Settings) -> None:
    """Raises SettingsError where only a model can score what the policy plays, and none does."""
    plays = settings.policy.name in MODEL_POLICIES or settings.agent.target
    if found.needs_judge and plays and settings.judge.mode != "hybrid":
        raise SettingsError(
            f"--judge: a model decides on every rubric of suite {found.name!r}: name it with "
            "--judge hybrid --judge-model NAME"
        )


def with_defaults(settings: Settings, found: Suite, flags: Mapping[str, Any]) -> Settings:
    """The settings with the suite's own limits where the user gave none."""
    limits = settings.limits
    if flags.get("max_steps") is None:
        limits = msgspec.structs.replace(limits, max_steps=found.max_steps)
    if flags.get("turn_steps") is None and settings.policy.name not in _FIXED:
        limits = msgspec.structs.replace(limits, turn_steps=found.turn_steps)
    for name in ("max_messages", "max_errors"):
        if flags.get(name) is None:
            limits = msgspec.structs.replace(limits, **{name: getattr(found, name)})
    limits = msgspec.structs.replace(limits, single_messages=found.single_messages)
    worlds = settings.worlds
    if found.names_model and not worlds.suite_model and settings.model.name:
        worlds = msgspec.structs.replace(worlds, suite_model=settings.model.name)
    return msgspec.structs.replace(settings, limits=limits, worlds=worlds)


def _asked_like_upstream(
    settings: Settings, found: Suite, flags: Mapping[str, Any], *, is_demanded: bool
) -> Settings:
    """The settings with which a model is asked as the suite's own runner asks it. Raises
    SettingsError where that is demanded and cannot be done."""
    upstream = found.upstream
    has_dialect = flags.get("dialect") is not None or settings.dialect != "native"
    if upstream is None or settings.agent.target or has_dialect:
        if is_demanded:
            who = f"suite {found.name!r}" if upstream is None else "an agent, or another dialect,"
            raise SettingsError(f"--prompts: {who} cannot be asked as upstream asks a model")
        return settings
    model, user, limits = settings.model, settings.user, settings.limits
    if model.temperature is None:
        model = msgspec.structs.replace(model, temperature=upstream.temperature)
    if user.temperature is None:
        user = msgspec.structs.replace(user, temperature=upstream.temperature)
    if not model.extra_body and upstream.fields and settings.policy.name == "openai":
        fields = msgspec.json.encode(upstream.fields).decode()
        model = msgspec.structs.replace(model, extra_body=fields)
    if not upstream.has_seed and "without:seed" not in model.adapt:
        model = msgspec.structs.replace(model, adapt=(*model.adapt, "without:seed"))
    if flags.get("max_calls") is None:
        most = _UNLIMITED if found.max_calls is None else found.max_calls
        limits = msgspec.structs.replace(limits, max_calls=most)
    settings = msgspec.structs.replace(
        settings, model=model, user=user, limits=limits, dialect=upstream.dialect
    )
    return _like_its_agent(settings, found, flags) if found.name == mcp_universe.NAME else settings


def _like_its_agent(settings: Settings, found: Suite, flags: Mapping[str, Any]) -> Settings:
    """The settings of MCP-Universe's own agent, whose prompt and limit a checkout has."""
    if flags.get("max_steps") is not None:
        raise SettingsError(
            "max_steps: the prompt of MCP-Universe's agent names its limit of steps; --prompts "
            "ours plays another number"
        )
    worlds = msgspec.structs.replace(settings.worlds, suite_prompts=True)
    data = SuiteWorlds(source_arguments(worlds)).data
    assert isinstance(data, mcp_universe.McpUniverseData)
    categories = [
        next((one for one in found.categories if str(name).startswith(one)), str(name))
        for name in settings.scenarios
    ]
    most = data.max_iterations(categories)
    return msgspec.structs.replace(
        settings,
        worlds=worlds,
        limits=msgspec.structs.replace(settings.limits, max_steps=most),
        format=msgspec.structs.replace(settings.format, rules="off"),
    )


def _score_name(found: Suite, settings: Settings) -> str:
    """The suite as scores name it. Where a model could be asked as upstream asks it, and was not,
    that is a part of the name."""
    is_ours = found.upstream is not None and settings.dialect != found.upstream.dialect
    return f"{found.name} (prompts: ours)" if is_ours else found.name


def _player(settings: Settings) -> str:
    if settings.agent.target:
        return f"{AGENT}{settings.agent.shown_name}"
    name = settings.policy.name
    return f"{name}:{settings.model.name}" if name in MODEL_POLICIES else name


def fresh(settings: Settings) -> Path:
    """runs/<suite>-<policy>-<number>, the first that does not exist yet."""
    number = 1
    while (folder := Path("runs") / f"{settings.worlds.suite}-{settings.player}-{number}").exists():
        number += 1
    return folder


def _categories(settings: Settings) -> dict[str, str]:
    """The category of each scenario that has a score."""
    return {
        scenario.name: scenario.suite.category
        for scenario, _ in planned(settings)[0]
        if scenario.suite is not None and not scenario.suite.unscored
    }


def _scores(settings: Settings, folder: Path) -> SuiteScores:
    categories = _categories(settings)
    with open_reader(folder) as reader:
        findings = findings_of(reader)
        rows = [row for row in reader.episodes() if row.scenario in categories]
        unit = choose_unit(((row.scenario, row.task) for row in rows if row.ending), settings.unit)
        suite_name = settings.worlds.suite
        return scores_of(suite_name, rows, categories, findings, unit=unit.unit)


def _bound(settings: Settings, policy: str, known: SuiteScores | None) -> SuiteScores:
    """The scores of a policy without a model on the same tasks."""
    if known is not None:
        return known
    plain = msgspec.structs.replace(
        settings,
        policy=msgspec.structs.replace(settings.policy, name=policy),
        agent=AgentSettings(),
        limits=msgspec.structs.replace(settings.limits, turn_steps=None),
        group_size=1,
        concurrency=None,
        chaos="",
    )
    with own_folder("baseline") as made:
        folder = made / policy
        play_run(plain, folder, resume=False, progress=False)
        return _scores(plain, folder)


def _total(scores: SuiteScores) -> float | None:
    """The overall score; the mean of the categories where the suite has none for these."""
    return _total_of(scores.overall, scores.scores)


def _total_of(overall: float | None, scores: Mapping[str, float]) -> float | None:
    if overall is not None or not scores:
        return overall
    return sum(scores.values()) / len(scores)


def render(report: SuiteReport, bounds: Mapping[str, SuiteScores], console: Console) -> None:
    """Print the scores as a table."""
    table = Table(box=None, pad_edge=False)
    names = [AGENTS[policy] for policy in bounds]
    for name in (f"{report.suite} {report.version}", report.policy, "95 % interval", *names):
        table.add_column(name, justify="left" if name.startswith(report.suite) else "right")
    others = bounds.values()
    for name, value in report.scores.items():
        cells = (percent(b.scores.get(name)) for b in others)
        table.add_row(name, percent(value), _interval(report.ranges.get(name)), *cells)
    for name in report.not_played:
        table.add_row(name, "not played", *("–" for _ in ("interval", *names)))
    for name, value in report.groups.items():
        cells = (percent(b.groups.get(name)) for b in others)
        found = report.group_ranges.get(name)
        table.add_row(f"= {name}", percent(value), _interval(found), *cells)
    overall = percent(report.overall), _interval(report.overall_range)
    table.add_row("overall", *overall, *(percent(one.overall) for one in others))
    console.print(table)
    console.print(played_by(report.played_by), highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"{plural(report.tasks, 'task')}, {plural(report.episodes, 'episode')}, "
        f"{report.unjudged:,} unjudged",
        highlight=False,
    )
    for line in report.trust:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if report.unjudged and (found := report.overall_range) is not None:
        console.print(
            f"whatever the unjudged had been, the overall score is between {percent(found.least)} "
            f"and {percent(found.most)}",
            highlight=False,
            soft_wrap=True,
        )
    if report.excluded:
        excluded = ", ".join(report.excluded)
        console.print(
            f"{plural(len(report.excluded), 'task')} left out (--exclude): {excluded}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    for line in () if report.statistics is None else statistics_lines(report.statistics):
        console.print(line, highlight=False, soft_wrap=True)
    if report.failures:
        console.print(bar_chart("failures", most_first(report.failures)))


def _interval(found: ScoreRange | None) -> str:
    """Example: 62.10 to 84.62"""
    return "–" if found is None else f"{100 * found.lower:.2f} to {100 * found.upper:.2f}"
