"""Where worlds come from, and how untrusted code is confined."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rehearsal_room.envpool.mcp.asks import AskMode
from rehearsal_room.envpool.workers.pool import MAX_WORKERS
from rehearsal_room.scenarios.format import Seeding


class WorldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where scenarios are found, and how their worlds are hosted."""

    awm: Annotated[
        str,
        Meta(
            description="Folder of AgentWorldModel-1K's jsonl files in which scenarios are found.",
            extra={"metavar": "DIR", "default": "the catalogue"},
        ),
    ] = ""
    seeding: Annotated[
        Seeding, Meta(description="How the databases of AWM records are seeded.")
    ] = "awm"
    isolate: Annotated[
        bool,
        Meta(
            description="Whether packages in our format run in sandboxed workers, too, and not in "
            "this process."
        ),
    ] = False
    workers: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_WORKERS)] | None,
        Meta(
            description="Number of worker processes that may execute untrusted code at a time.",
            extra={"default": "one per core", "may_change": True},
        ),
    ] = None
    worker_memory_mb: Annotated[
        int,
        Meta(ge=256, description="Memory limit per worker, in MB.", extra={"may_change": True}),
    ] = 2048
    sandbox: Annotated[
        Literal["best", "required"],
        Meta(
            description="Use the best sandbox that this machine offers, or refuse to run without "
            "the full one (required).",
            extra={"may_change": True},
        ),
    ] = "best"
    pool: Annotated[
        str,
        Meta(
            description="URL of a `rehearse serve` process from which worlds are leased, for "
            "example http://host:8765.",
            extra={"metavar": "URL", "default": "worlds of this machine", "may_change": True},
        ),
    ] = ""
    mcp: Annotated[
        tuple[str, ...] | str,
        Meta(
            description="URL or command of an MCP server that is the world; scenarios are then "
            "files of tasks. Headers for a URL: --mcp-header. May be repeated, also as "
            "NAME=TARGET: one world of several servers.",
            extra={"metavar": "TARGET"},
        ),
    ] = ()
    openenv: Annotated[
        str,
        Meta(
            description="URL of an OpenEnv environment that is the world; scenarios are then files "
            "of tasks.",
            extra={"metavar": "URL", "once": "a run has one OpenEnv environment"},
        ),
    ] = ""
    suite: Annotated[
        str,
        Meta(
            description="Suite (a benchmark of others) whose entries are the scenarios; "
            "`rehearse eval list` names them.",
            extra={"metavar": "SUITE", "default": "no suite"},
        ),
    ] = ""
    suite_path: Annotated[
        str,
        Meta(
            description="Folder with the suite's data: a package, or a checkout of its repository.",
            extra={"metavar": "DIR", "default": "the package that the interpreter has"},
        ),
    ] = ""
    suite_python: Annotated[
        str,
        Meta(
            description="Python interpreter that runs the suite's own code.",
            extra={"metavar": "FILE", "default": "the one that runs this program"},
        ),
    ] = ""
    suite_servers: Annotated[
        str,
        Meta(
            description="JSON file with commands of MCP servers, which replace those of the suite "
            "by name (in the format of MCP-Universe's server_list.json).",
            extra={"metavar": "FILE", "default": "the suite's own"},
        ),
    ] = ""
    suite_tasks: Annotated[
        str,
        Meta(
            description="Folder with the suite's tasks, where they are apart from its code "
            "(EnterpriseOps-Gym).",
            extra={"metavar": "DIR", "default": "those of the checkout"},
        ),
    ] = ""
    suite_model: Annotated[
        str,
        Meta(
            description="Name of the model that the attacks of a suite address (AgentDojo).",
            extra={"metavar": "NAME", "default": "that of --model"},
        ),
    ] = ""
    suite_prompts: Annotated[
        bool,
        Meta(
            description="Whether tasks of a suite have the whole prompt of its own agent as their "
            "instruction (MCP-Universe); `rehearse eval --prompts` sets it."
        ),
    ] = False
    mcp_env: Annotated[
        tuple[str, ...],
        Meta(
            description="Name of an environment variable that MCP servers may have: the commands "
            "of --mcp (SERVER:NAME: that one alone), or those servers of a suite that ask for it, "
            "and its checks; may be repeated.",
            extra={"metavar": "NAME"},
        ),
    ] = ()
    mcp_header: Annotated[
        tuple[str, ...],
        Meta(
            description="Header for the URL of --mcp, whose value an environment variable has, for "
            "example X-Api-Key=NOTES_KEY, or notes:X-Api-Key=NOTES_KEY for the server named notes; "
            "may be repeated.",
            extra={"metavar": "NAME=VARIABLE"},
        ),
    ] = ()
    mcp_ask: Annotated[
        AskMode,
        Meta(
            description="Answers to what an MCP server asks during a call (elicitation, "
            "sampling): none (refuse), by the task's user (user), or by the run's model (model)."
        ),
    ] = "refuse"
    mcp_resources: Annotated[
        bool,
        Meta(
            description="Whether the agent has tools that list and read the resources and prompts "
            "of the MCP servers."
        ),
    ] = False

    def __post_init__(self) -> None:
        if isinstance(self.mcp, str):  # as runs wrote it that had one server
            msgspec.structs.force_setattr(self, "mcp", (self.mcp,) if self.mcp else ())

    @property
    def mcp_servers(self) -> tuple[str, ...]:
        """The texts of `mcp`: TARGET or NAME=TARGET."""
        assert isinstance(self.mcp, tuple)
        return self.mcp
