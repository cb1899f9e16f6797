"""The promises of every source of worlds: local packages, AWM records, a pool's URL, an MCP server,
an OpenEnv environment, suites."""

import sys
from pathlib import Path

import pytest

from rehearsal_room.envpool.sources.base import McpTarget, SourceArguments, WorldSource
from rehearsal_room.envpool.sources.registry import SOURCES, source_of
from rehearsal_room.scenarios.errors import ScenarioError, UnknownScenario
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags
from tests.support.paths import AWM, LIBRARY, MCP_SERVERS, SUITES

_TASKS = (
    'name = "notes"\ndescription = "Notes"\n[[task]]\nid = "a"\ninstruction = "Go."\nanswer = "1"\n'
)
_MCP = f"{sys.executable} {MCP_SERVERS / 'notes.py'}"
_BFCL = SourceArguments(suite="bfcl_v3", suite_flags=SuiteFlags(str(SUITES / "bfcl_eval")))
_SERVED = SourceArguments(suite="mcpmark", suite_flags=SuiteFlags(str(SUITES / "mcpmark_checkout")))
_ARGUMENTS = {
    "local": SourceArguments(),
    "awm": SourceArguments(awm=str(AWM)),
    "pool": SourceArguments(pool="http://127.0.0.1:1"),
    "mcp": SourceArguments(mcp=(McpTarget(_MCP),)),
    "openenv": SourceArguments(openenv="http://127.0.0.1:1"),
    "suite": _BFCL,
    "served suite": _SERVED,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=_ARGUMENTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source(kind: str) -> WorldSource:
    return source_of(_ARGUMENTS[kind])


@pytest.fixture
def name(kind: str, source: WorldSource, tmp_path: Path) -> str:
    """A scenario that the source has."""
    if kind in ("mcp", "openenv"):
        (tmp_path / "tasks.toml").write_text(_TASKS)
        return str(tmp_path / "tasks.toml")
    if "suite" in kind:
        return source.names(["multi_turn_base" if kind == "suite" else "filesystem"])[0]
    return "E-Commerce Lab 1" if kind == "awm" else str(LIBRARY)


def test_the_cases_are_all_sources() -> None:
    """Each entry of the registry is tested here."""
    assert set(SOURCES) <= set(_ARGUMENTS)


def test_a_scenario_is_found_and_found_again(source: WorldSource, name: str) -> None:
    """The name gives a scenario; what a log has of it, name or path, gives the same one."""
    scenario = source.find(name)
    assert scenario.tasks
    assert source.names([name]) == [name]
    find = source.logged_finder()
    found = []
    for place in (str(scenario.path.absolute()), scenario.name):
        try:
            found.append(find(place).digest)
        except ScenarioError:
            continue
    assert set(found) == {scenario.digest}


def test_what_is_not_there_is_refused(source: WorldSource) -> None:
    """A name that the source does not have raises ScenarioError."""
    with pytest.raises(ScenarioError):
        source.find("nowhere/at-all")


async def test_the_pool_that_runs_the_worlds(kind: str, source: WorldSource) -> None:
    """Worlds of this machine have no pool of their own, and their calls need no timeout here; other
    worlds have one, and only a suite's own program ends calls itself."""
    opened = source.pool()
    assert (opened is None) == (kind in ("local", "awm"))
    assert source.needs_call_timeout == (kind not in ("local", "awm", "suite"))
    if opened is not None:
        async with opened as pool:
            assert pool.num_live == 0


def test_a_category_stands_for_its_entries() -> None:
    """A suite's category is replaced by the names of its entries, other names stay."""
    source = source_of(_BFCL)
    names = source.names(["multi_turn_base", "mine"])
    assert names[-1] == "mine" and len(names) > 1
    assert all(source.find(one).name == one for one in names[:-1])


def test_leased_worlds_are_found_where_they_would_be_found_here() -> None:
    """With a pool's URL the scenarios are those of the other arguments; solutions, too."""
    leased = SourceArguments(pool="http://127.0.0.1:1", awm=str(AWM))
    assert source_of(leased).find("E-Commerce Lab 1").awm is not None
    assert not source_of(_SERVED).has_solutions
    assert source_of(_BFCL).has_solutions


def test_an_unknown_suite_is_refused() -> None:
    """The name of the suite is checked before its data is read."""
    with pytest.raises(UnknownScenario, match="suite 'bfcl_v5' not found"):
        source_of(SourceArguments(suite="bfcl_v5"))
