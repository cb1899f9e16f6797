"""What makes a scenario one of a suite: a benchmark whose worlds and scoring are not ours.

The state of such a world is Python objects in a process of the suite (envpool.objects); its
canonical form is rows of the table `records`, so that log, replay and diffs know it like any other.
Or the world is MCP servers (envpool.served): then its state is unknown.
"""

from typing import Any, Literal

import msgspec

from rehearsal_room.scenarios.core.served_worlds import ServedWorld

RECORDS_SQL = """CREATE TABLE records (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (kind, key)
);
"""


class Said(msgspec.Struct, frozen=True):
    """What was said before the task's instruction."""

    role: Literal["user", "assistant"]
    text: str


class SuiteRecord(msgspec.Struct, frozen=True):
    """The part of a scenario that belongs to its suite."""

    suite: str  # as in `bfcl_v3`
    version: str  # of the suite's data
    category: str
    world: dict[str, Any]  # from which the suite's program makes the world; JSON
    scoring: dict[str, dict[str, Any]] = {}  # task id -> what its program needs to score it; JSON
    # What a call of a tool gives that its caller does not have; `{name}` is the tool's, and empty
    # leaves it to the harness.
    no_tool: str = ""
    served: ServedWorld | None = None  # set: the world is MCP servers, and `world` is empty
    earlier: tuple[Said, ...] = ()  # the talk before the instruction, with which a task begins
    # How often an agent is asked from the start, in the world as it is, while its last reply has no
    # content. Above 1, none of the calls is made in a reply that reaches the limit of replies.
    attempts: int = 1
    # Tools that the suite executes though the agent, or the user, was not shown them.
    unlisted: tuple[str, ...] = ()
    users_unlisted: tuple[str, ...] = ()
    # How many replies without words and calls, one after the other, end an episode as malformed;
    # the agent is asked again after those before. 0: such a reply is an answer.
    empty_replies: int = 0
    # Whether the agent sees the words that open the talk in its name (see ModelUser.opening).
    shows_opening: bool = True
    # Whether a call of a tool that the agent does not have makes its reply malformed.
    ends_on_unknown_tool: bool = False
    # Whether its program writes the rules of each episode, from the state in which it begins.
    renders_rules: bool = False
    unscored: bool = False  # it has no score: it is played for those that begin where it ends
