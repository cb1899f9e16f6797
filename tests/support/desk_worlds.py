"""Worlds of the help desk that speaks MCP (tests.support.mcp_servers.desk), written as packages."""

import sys
from pathlib import Path

from rehearsal_room.scenarios.format import Scenario, read
from tests.support.paths import MCP_SERVERS

DESK = f"{sys.executable} {MCP_SERVERS / 'desk.py'}"
_HEAD = """\
format = "mcp"
name = "desk"
title = "Help desk"
version = "1"
description = "Tickets and stock."
clock = "2026-03-02T09:00:00Z"

[user]
id = "u1"
name = "Ada Okafor"
role = "owner"

"""
_TASKS = """\
[[task]]
id = "open"
instruction = "Open a ticket 'Door sticks' for ada."
difficulty = "simple"
kind = "change"
answer = "It is done."
oracle = [ { name = "add_ticket", arguments = { title = "Door sticks", owner = "ada" } } ]

[[task]]
id = "close"
instruction = "Close ticket T-1."
difficulty = "simple"
kind = "change"
answer = "It is done."
oracle = [ { name = "close_ticket", arguments = { ticket_id = "T-1" } } ]
"""
VERIFY = """\
from rehearsal_room.scenarios.api import State
from rehearsal_room.scenarios.checks import Check, Finding


def open(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created("tickets", title="Door sticks", owner="ada", state="open")
    check.allow("log", new=1)
    check.nothing_else()
    return check.findings


def close(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.updated("tickets", "T-1", state="closed")
    check.nothing_else()
    return check.findings
"""


def write_desk(
    parent: Path,
    how: str = "",
    *,
    state: str = 'sqlite = "{scratch}/desk.db"',
    server: str = "",
    verify: str = VERIFY,
) -> Path:
    """The folder of a desk's package. `how`: the last words of the command; `state` and `server`:
    lines of the tables of these names."""
    folder = parent / "desk"
    folder.mkdir()
    command = f"{DESK} {{scratch}}/desk.db {how}".strip()
    (folder / "scenario.toml").write_text(
        f'{_HEAD}[server]\ncommand = "{command}"\n{server}\n[state]\n{state}\n'
    )
    (folder / "tasks.toml").write_text(_TASKS)
    (folder / "verify.py").write_text(verify)
    (folder / "policy.md").write_text("")
    return folder


def desk(parent: Path, how: str = "", **given: str) -> Scenario:
    """The same, as a scenario."""
    return read(write_desk(parent, how, **given))
