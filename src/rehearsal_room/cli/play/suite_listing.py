"""The commands `suites` (also `eval list`) and `eval needs`: which suites there are, and what they
need here."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from rehearsal_room.cli.core.options import JSON, console_of, write_json
from rehearsal_room.envpool.served.needs import ServedSettings
from rehearsal_room.envpool.served.needs import faults as faults_of
from rehearsal_room.envpool.sources.suites import SuiteWorlds
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.settings.worlds import WorldSettings
from rehearsal_room.harness.setup.worlds import source_arguments
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.catalogue import SUITES, Suite, suite
from rehearsal_room.scenarios.suites.measured import MEASURED, Measured

_SHOWN = 17  # categories of a suite that the text names
AGENTS = {
    "noop": "nothing",
    "oracle": "reference",
    "recites": "reciting",
    "pastes": "pasting",
    "lists": "listing",
}  # as columns and lines name policies that ask no model


class SuiteInfo(msgspec.Struct, frozen=True):
    """One suite of `rehearse suites --json`."""

    name: str
    title: str
    categories: tuple[str, ...]
    needs: str  # what the user installs or names
    tasks: int | None = None  # in all categories; null: it depends on the user's data
    licence: str = ""
    exact: str = ""  # what equals the suite's own runner, and what does not
    asks: str = ""  # which models a score asks beside the agent; empty: none
    is_free: bool = False  # it needs neither a key, nor a service, nor a second model
    measured: tuple[Measured, ...] = ()  # floor, ceiling and lazy agents of the whole suite


class CategoryNeeds(msgspec.Struct, frozen=True):
    """One category of `rehearse eval needs --json`."""

    category: str
    tasks: int
    ready: int  # tasks that need nothing more; whether the network is there is not checked
    missing: dict[str, int]  # what is missing -> how many tasks need it


@click.command("list")
@JSON
def list_command(json_file: str | None) -> None:
    """List the suites: their tasks, what each needs, what of its score is exact, what asks a model,
    and what agents get that do no work."""
    console = console_of(json_file)
    for one in SUITES.values():
        for line in suite_lines(one):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    write_json([info_of(one) for one in SUITES.values()], json_file)


def info_of(one: Suite) -> SuiteInfo:
    """A suite as JSON."""
    return SuiteInfo(
        one.name,
        one.title,
        one.categories,
        one.needs,
        one.num_tasks,
        one.licence,
        one.exact,
        one.asks,
        one.is_free,
        MEASURED.get(one.name, ()),
    )


def suite_lines(one: Suite) -> list[str]:
    """A suite as text."""
    count = "the tasks of your copy" if one.num_tasks is None else f"{one.num_tasks:,} tasks"
    shown = ", ".join(one.categories[:_SHOWN])
    if (more := len(one.categories) - _SHOWN) > 0:
        shown += f" and {more} more (--json lists them)"
    lines = [
        f"{one.name}: {one.title}",
        f"  {count}, licence {one.licence or 'not stated'}",
        f"  categories: {shown}",
        f"  needs: {one.needs}",
        f"  exact: {one.exact or 'not compared with its own runner'}",
        f"  asks a model: {one.asks or 'nothing but the agent'}",
    ]
    return [*lines, *(f"  {line}" for line in measured_lines(one.name))]


def measured_lines(name: str) -> list[str]:
    """What was measured of a whole suite without a model; empty: nothing was."""
    found = MEASURED.get(name, ())
    lines = []
    if found:
        scores = ", ".join(f"{AGENTS[one.agent]} {100 * one.score:.2f} %" for one in found)
        lines.append(f"measured of the whole suite: {scores}")
    for one in found:
        parts = [f"{one.seconds:,.0f} s on two cores"] if one.seconds is not None else []
        parts += [f"about {one.tokens:,} prompt tokens"] if one.tokens else []
        if parts:
            lines.append(f"a run of the agent {AGENTS[one.agent]}: {', '.join(parts)}")
    return lines


@click.command("needs")
@click.argument("suite_name", metavar="SUITE")
@click.option("--suite-path", type=click.Path(), metavar="DIR", help="Folder of the checkout.")
@click.option("--suite-servers", type=click.Path(), metavar="FILE", help="See `rehearse eval`.")
@click.option("--suite-python", metavar="FILE", help="See `rehearse eval`.")
@click.option("--mcp-env", multiple=True, metavar="NAME", help="See `rehearse eval`.")
@JSON
def needs_command(suite_name: str, json_file: str | None, **flags: Any) -> None:
    """List which tasks of a suite can be played here, and what the others need.

    It is for suites whose worlds are MCP servers, which are not started.
    """
    if (found := suite(suite_name)).adapter:
        raise SettingsError(f"suite {suite_name!r} starts no MCP servers; it needs {found.needs}")
    given = {name: value for name, value in flags.items() if value}
    worlds = msgspec.structs.replace(WorldSettings(suite=suite_name), **given)
    source = SuiteWorlds(source_arguments(worlds)).data
    served = ServedSettings(worlds.suite_python, worlds.mcp_env)
    result = []
    for category in found.categories:
        try:
            scenarios = source.scenarios(category)
        except ScenarioError:  # the checkout does not have it
            continue
        result.append(_needs_of(category, scenarios, served))
    console = console_of(json_file)
    for one in result:
        console.print(
            f"{one.category}: {one.ready} of {plural(one.tasks, 'task')} can be played here",
            highlight=False,
        )
        for need, count in one.missing.items():
            console.print(f"  {plural(count, 'task')}: {need}", highlight=False, soft_wrap=True)
    write_json(result, json_file)


def _needs_of(
    category: str, scenarios: Iterable[Scenario], settings: ServedSettings
) -> CategoryNeeds:
    missing: Counter[str] = Counter()
    tasks = ready = 0
    for scenario in scenarios:
        assert scenario.suite is not None
        assert scenario.suite.served is not None
        faults = tuple(faults_of(scenario.suite.served, settings))
        tasks, ready = tasks + 1, ready + (not faults)
        missing.update(faults)
    return CategoryNeeds(category, tasks, ready, dict(missing.most_common()))
