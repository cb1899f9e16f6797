"""The suites that there are, and where their data is found."""

import os
import subprocess  # nosec B404
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rehearsal_room.scenarios.errors import PackageError, UnknownScenario
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.nearest import did_you_mean
from rehearsal_room.scenarios.suites import (
    agentdojo,
    enterpriseops,
    mcp_universe,
    mcpmark,
    tau2,
    tau2_banking,
    toolsandbox,
    vitabench,
)
from rehearsal_room.scenarios.suites import bfcl_entries as bfcl
from rehearsal_room.scenarios.suites.bfcl import agentic
from rehearsal_room.scenarios.suites.entries import identifier
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags


class SuiteSource(Protocol):
    """The data of a suite, read."""

    @property
    def version(self) -> str:
        """The version of the data."""

    def scenarios(self, category: str) -> list[Scenario]:
        """The scenarios of a category. Raises PackageError."""

    def options(self) -> dict[str, Any]:
        """What the suite's adapter in envpool.objects needs."""


class UpstreamPrompts(msgspec.Struct, frozen=True):
    """How a benchmark's own runner asks a model."""

    dialect: str  # of its messages
    temperature: float | None = None  # None: it sends none
    fields: dict[str, Any] = {}  # more fields of each request
    has_seed: bool = False  # whether a request has a seed


class Suite(msgspec.Struct, frozen=True):
    """A suite: what it is, and how its data is read."""

    name: str
    title: str
    categories: tuple[str, ...]
    adapter: str  # module in envpool/objects/adapters; empty: its worlds are MCP servers
    needs: str  # what the user installs or names, in a sentence
    open: Callable[[SuiteFlags], SuiteSource]
    usual: tuple[str, ...] = ()  # categories that are played where none is named; empty: all
    preludes: tuple[str, ...] = ()  # of entries that others follow; they have no score
    names_model: bool = False  # whether its worlds contain the name of the model
    has_solutions: bool = True  # reference solutions, which `-p oracle` plays
    max_steps: int = 200  # of an episode
    turn_steps: int | None = None  # of a model between two turns of the user; None: no limit
    max_messages: int | None = None  # of a talk; None: no limit
    single_messages: bool = False  # whether each call and each result is one of them
    max_calls: int | None = None  # of a reply, where it is asked as upstream asks; None: no limit
    # Whether the names of its scenarios begin with their category.
    names_begin_with_category: bool = True
    max_errors: int | None = None  # failed calls that end an episode; None: no limit
    upstream: "UpstreamPrompts | None" = None  # how upstream asks a model; None: we do not
    needs_judge: bool = False  # whether its score is nothing without a model that judges
    num_tasks: int | None = None  # in all categories; None: it depends on the user's data
    licence: str = ""  # of the suite's data and code
    exact: str = ""  # what equals the suite's own runner, and what does not, in a sentence
    asks: str = ""  # which models a score asks beside the agent, in a sentence; empty: none
    # Whether the usual categories need neither a key, nor a service, nor another model than the
    # agent's: `rehearse eval --all-that-runs` plays them.
    is_free: bool = False
    needs_user: bool = False  # whether a model must play the user: then `--user-model` is enough


def suite(name: str) -> Suite:
    """A suite by its name. Raises UnknownScenario."""
    if name in SUITES:
        return SUITES[name]
    if why := tau2_banking.refusal(name):
        raise UnknownScenario(why)
    hint = did_you_mean(name, SUITES) or f"; suites: {', '.join(SUITES)}"
    raise UnknownScenario(f"suite {name!r} not found{hint}")


def scenarios_of(source: SuiteSource, one: Suite, category: str) -> list[Scenario]:
    """The scenarios of a category, or of all (empty). Raises UnknownScenario."""
    if category and category not in one.categories:
        hint = did_you_mean(category, one.categories)
        hint = hint or f"; categories: {', '.join(one.categories)}"
        raise UnknownScenario(f"suite {one.name!r} has no category {category!r}{hint}")
    chosen = (category,) if category else one.categories
    return [scenario for name in chosen for scenario in source.scenarios(name)]


class SuiteFinder:
    """Finds the scenarios of a suite by name; reads each category once."""

    def __init__(self, one: Suite, source: SuiteSource) -> None:
        self._suite = one
        self._source = source
        self._known: dict[str, dict[str, Scenario]] = {}  # category -> its scenarios by name

    def find(self, name: str) -> Scenario:
        """A scenario, by its name or by the benchmark's own id. Raises UnknownScenario and
        PackageError."""
        given, name = name, identifier(name)
        # The longest category that the name begins with comes first.
        for category in sorted(
            (*self._suite.categories, *self._suite.preludes), key=len, reverse=True
        ):
            if name.startswith(category) and (found := self.of(category).get(name)) is not None:
                return found
        for category in () if self._suite.names_begin_with_category else self._suite.categories:
            if (found := self.of(category).get(name)) is not None:
                return found
        raise UnknownScenario(
            f"suite {self._suite.name!r} has no entry {given!r}; categories: "
            f"{', '.join(self._suite.categories)}"
        )

    def of(self, category: str) -> dict[str, Scenario]:
        """The scenarios of a category by their names. Raises PackageError, for entries of another
        shape, too: what a suite's data should have is known to its own code alone."""
        if category not in self._known:
            try:
                scenarios = self._source.scenarios(category)
            except (AttributeError, LookupError, TypeError, ValueError) as exc:
                raise PackageError(
                    f"suite {self._suite.name!r}: an entry of {category!r} cannot be read "
                    f"({type(exc).__name__}: {exc}); is the checkout complete and unchanged?"
                ) from exc
            self._known[category] = {scenario.name: scenario for scenario in scenarios}
        return self._known[category]


def _open_bfcl(flags: SuiteFlags) -> SuiteSource:
    package, version = installed_package("bfcl_eval", "bfcl-eval", flags.folder, flags.python)
    return bfcl.BfclData(package, bfcl.release_of(package, version))


def _open_bfcl_v4(flags: SuiteFlags) -> SuiteSource:
    package, version = installed_package("bfcl_eval", "bfcl-eval", flags.folder, flags.python)
    name = bfcl.NAME_V4
    release = bfcl.release_of(package, version, suite=name)
    return bfcl.BfclData(package, release, suite=name, keys=flags.values(agentic.KEYS))


def _open_agentdojo(flags: SuiteFlags) -> SuiteSource:
    if flags.folder:
        raise PackageError(
            "--suite-path: agentdojo is read where an interpreter has it: name that with "
            "--suite-python"
        )
    package, version = installed_package(
        "agentdojo", "agentdojo", "", flags.python, advice=agentdojo.INSTALL
    )
    agentdojo.require_release(package, version)
    return agentdojo.AgentDojoData(flags.python, flags.model)


_FIND = (  # the current folder, which comes first with -c, may be anybody's
    "import sys; sys.path[:] = filter(None, sys.path);"
    "import importlib.metadata, importlib.util;"
    "found = importlib.util.find_spec(sys.argv[1]);"
    "print(list(found.submodule_search_locations)[0] if found else '');"
    "print(importlib.metadata.version(sys.argv[2]) if found else '')"
)


def installed_package(
    module: str, project: str, folder: str, python: str, *, advice: str = ""
) -> tuple[Path, str]:
    """The folder of a package and its version: that in `folder` where one is named,
    otherwise that which the interpreter has (empty: ours). Nothing of it is imported. Raises
    PackageError, with what to do where nothing has it."""
    if folder:
        path = Path(folder)
        package = path if (path / "__init__.py").is_file() else path / module
        if not package.is_dir():
            raise PackageError(f"{folder}: there is no package {module!r} in this folder")
        return package.absolute(), "unknown"
    command = [python or sys.executable, "-c", _FIND, module, project]
    try:
        found = subprocess.run(  # nosec B603
            command, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ)
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise PackageError(f"{command[0]} cannot be started: {exc}") from exc
    lines = found.stdout.splitlines()
    if found.returncode or len(lines) < 2 or not lines[0]:
        where = python or "this environment"
        advice = advice or f"pip install --no-deps {project} there, or name its folder"
        raise PackageError(f"{where} has no package {module!r}: {advice}")
    return Path(lines[0]), lines[1]


# Category -> its tasks, and what in them a model judges, if one is asked.
_TAU2_TASKS = {
    "retail": (114, "the assertions in words of 40 tasks"),
    "airline": (50, ""),
    "telecom": (114, ""),
    "banking": (97, "one assertion in words"),
}


def _tau2(
    name: str, title: str, category: str, open_: Callable[[SuiteFlags], SuiteSource], needs: str
) -> Suite:
    num_tasks, words = _TAU2_TASKS[category]
    judged = f"; {words} (--judge hybrid), otherwise taken as met" if words else ""
    return Suite(
        name,
        f"τ²-bench {title}: an agent and a customer",
        (category,),
        "tau",
        f"a checkout of tau2-bench (--tau2), an interpreter with its packages{needs} "
        "(--suite-python), and a model that plays the customer (--user-model)",
        open_,
        max_messages=200,
        max_errors=10,
        num_tasks=num_tasks,
        licence="MIT",
        exact="requests, rewards and final states equal those of version 1.0.1's runner; "
        "assertions in words are judged by the model that you name",
        asks=f"the customer (--user-model){judged}",
        needs_user=True,
        upstream=UpstreamPrompts("tau2", 0.0, {"tool_choice": "auto"}, has_seed=True),
    )


def _tau2_domain(domain: str) -> Suite:
    return _tau2(
        f"tau2_{domain}", domain, domain, lambda flags: tau2.Tau2Data(flags.folder, domain), ""
    )


def _tau2_banking(variant: str) -> Suite:
    return _tau2(
        f"tau2_banking_{variant}",
        f"banking_knowledge with {variant}",
        tau2_banking.CATEGORY,
        lambda flags: tau2_banking.BankingData(flags.folder, variant),
        ", rank-bm25 and openai" if "bm25" in variant or "grep" in variant else "",
    )


def _vitabench(name: str, language: str) -> Suite:
    return Suite(
        name,
        f"VitaBench, {language} tasks: an agent that orders, books and travels for a customer",
        tuple(vitabench.DOMAINS),
        "vitabench",
        "a checkout of meituan-longcat/vitabench (--suite-path), an interpreter with its packages "
        "(--suite-python), a model that plays the customer (--user-model), and one that decides on "
        "the rubrics (--judge hybrid --judge-model)",
        lambda flags: vitabench.VitaBenchData(flags.folder, name),
        has_solutions=False,
        max_steps=1_000,
        max_messages=300,
        num_tasks=400,
        licence="MIT",
        exact="requests, texts of tools, windows and rubrics equal those of its runner; a task "
        "that it would leave out counts as failed; ota and the whole of cross were not compared",
        asks="the customer (--user-model), and the judge of every rubric (--judge hybrid)",
        upstream=UpstreamPrompts("vita", 0.0, {"tool_choice": "auto"}),
        needs_judge=True,
    )


SUITES: dict[str, Suite] = {
    bfcl.NAME: Suite(
        bfcl.NAME,
        "Berkeley Function Calling Leaderboard v3",
        bfcl.CATEGORIES,
        "bfcl",
        "pip install --no-deps bfcl-eval==2026.3.23 mpmath==1.3.0",
        _open_bfcl,
        turn_steps=21,  # upstream stops a model that goes on calling after 20
        num_tasks=4_441,
        licence="Apache-2.0",
        exact="requests, verdicts and end states equal those of its runner",
        is_free=True,
        upstream=UpstreamPrompts("bfcl", 0.001, {"store": False}),
    ),
    bfcl.NAME_V4: Suite(
        bfcl.NAME_V4,
        "Berkeley Function Calling Leaderboard v4",
        (*bfcl.CATEGORIES, *agentic.CATEGORIES),
        "bfcl",
        agentic.NEEDS,
        _open_bfcl_v4,
        usual=(*bfcl.CATEGORIES, *agentic.USUAL),
        preludes=agentic.PRELUDES,
        turn_steps=21,
        num_tasks=5_106,
        licence="Apache-2.0",
        exact="requests, verdicts, end states and the overall score equal those of its runner; "
        "memory_vector and format sensitivity are not played, web search was not compared",
        is_free=True,
        upstream=UpstreamPrompts("bfcl", 0.001, {"store": False}),
    ),
    agentdojo.NAME: Suite(
        agentdojo.NAME,
        "AgentDojo: utility, and resistance to injected instructions",
        agentdojo.CATEGORIES,
        "dojo",
        agentdojo.INSTALL,
        _open_agentdojo,
        usual=agentdojo.USUAL,
        names_model=True,
        max_steps=48,  # of three attempts
        turn_steps=16,  # of an attempt
        num_tasks=11_056,
        licence="MIT",
        exact="requests, utility and security equal those of its runner",
        is_free=True,
        upstream=UpstreamPrompts("agentdojo", None, {"tool_choice": "auto"}),
    ),
    **{f"tau2_{domain}": _tau2_domain(domain) for domain in tau2.DOMAINS},
    **{f"tau2_banking_{name}": _tau2_banking(name) for name in tau2_banking.VARIANTS},
    **{name: _vitabench(name, language) for name, language in vitabench.LANGUAGES.items()},
    toolsandbox.NAME: Suite(
        toolsandbox.NAME,
        "ToolSandbox: a phone, and a user whom a model plays",
        toolsandbox.CATEGORIES,
        "sandbox",
        f"{toolsandbox.NEEDS}; and a model that plays the user (--user-model)",
        lambda flags: toolsandbox.ToolSandboxData(flags.folder, flags.python),
        usual=toolsandbox.VARIANTS,
        has_solutions=False,
        max_steps=toolsandbox.MAX_MESSAGES,
        max_messages=toolsandbox.MAX_MESSAGES,
        single_messages=True,
        max_calls=toolsandbox.MAX_CALLS,
        names_begin_with_category=False,
        num_tasks=1_032,
        licence="Apple's own, which permits use and changes",
        exact="similarity, requests of both models, texts of tools and tables equal those of its "
        "runner with one clock and one order of ids; the rows of its page differ",
        asks="the user (--user-model)",
        needs_user=True,
        upstream=UpstreamPrompts("toolsandbox"),
    ),
    mcp_universe.NAME: Suite(
        mcp_universe.NAME,
        "MCP-Universe: questions that real MCP servers answer",
        mcp_universe.CATEGORIES,
        "",
        "a checkout of MCP-Universe (--suite-path), an interpreter with its packages "
        "(--suite-python), and what its servers need: the network, keys (each named with "
        "--mcp-env), npx, docker, Blender. `rehearse eval needs mcp_universe` lists it",
        mcp_universe.McpUniverseData,
        has_solutions=False,
        max_steps=100,
        licence="Apache-2.0",
        exact="requests and evaluators equal those of its agent `function_call` and its runner "
        "(package 1.1.3, tasks of our own); other agents of it are not played",
        asks="some answers of web_search (the checkout's own evaluator asks gpt-4.1)",
        upstream=UpstreamPrompts(
            mcp_universe.NAME,
            1.0,
            {
                "top_p": 1.0,
                "frequency_penalty": 0.0,
                "presence_penalty": 0.0,
                "max_completion_tokens": 10_000,
                "seed": 12345,
                "parallel_tool_calls": True,
            },
            has_seed=True,  # one for all: `fields` has it
        ),
    ),
    mcpmark.NAME: Suite(
        mcpmark.NAME,
        "MCPMark: files and Postgres databases, changed through MCP servers",
        mcpmark.CATEGORIES,
        "",
        "a checkout of MCPMark (--suite-path). filesystem: npx, and the folders that MCPMark "
        "downloads in test_environments. postgres: a Postgres server and its client programs, "
        "pipx, psycopg2 in the interpreter (--suite-python), and the dumps in postgres_state. "
        "Without network or keys otherwise; github, notion and playwright tasks are not played",
        mcpmark.McpMarkData,
        has_solutions=False,
        max_steps=100,
        licence="Apache-2.0",
        exact="its scripts decide; the prompt is ours, and no run was compared with its runner",
    ),
    enterpriseops.NAME: Suite(
        enterpriseops.NAME,
        "EnterpriseOps-Gym: office tasks in MCP servers with SQL databases",
        enterpriseops.CATEGORIES,
        "enterprise",
        "a checkout of EnterpriseOps-Gym (--suite-path) with gym_dbs.zip unpacked, its tasks in a "
        "folder (--suite-tasks), an interpreter with httpx and langchain-core (--suite-python), "
        "and its servers, which run in docker containers",
        enterpriseops.EnterpriseOpsData,
        has_solutions=False,
        max_steps=enterpriseops.ROUNDS,
        turn_steps=enterpriseops.ROUNDS,
        licence="Apache-2.0",
        exact="verifiers, requests and both columns equal those of its runner on a stub of its "
        "servers; its containers and its data set were not run",
        asks="the judge of answers, in tasks with a response check (--judge hybrid)",
        upstream=UpstreamPrompts("enterpriseops", 0.0, {"max_completion_tokens": 4096}),
    ),
}
