"""Worlds of a suite that are MCP servers of the user: how one begins, and how it is checked.

In commands and variables, `{{NAME}}` stands for a variable: one that the world's start defines, or
one of the user's environment, which the user must have named. Values of the user's variables are
filled in when a world begins; they are never part of a scenario.
"""

import re
from typing import Any

import msgspec

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
PYTHON = "{python}"  # in a command: the interpreter of --suite-python


class ServerSpec(msgspec.Struct, frozen=True):
    """A server that is started for each episode and speaks over its standard streams."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = {}
    tools: tuple[str, ...] = ()  # those that the task may use; empty: all


class FolderStart(msgspec.Struct, frozen=True, tag="folder"):
    """The world begins with a copy of a folder, whose path is in a variable."""

    folder: str
    variable: str


class DatabaseStart(msgspec.Struct, frozen=True, tag="database"):
    """The world begins with a new Postgres database: a copy of the server's database of this name,
    or else restored from the dump, or else empty, filled by the script."""

    database: str
    dump: str  # path; the file may be missing
    script: str  # path; empty: there is none


class EvaluatorCheck(msgspec.Struct, frozen=True, tag="evaluators"):
    """MCP-Universe's evaluators decide, on the final answer."""

    config: dict[str, Any]  # the task, as its file has it


class ScriptCheck(msgspec.Struct, frozen=True, tag="script"):
    """A script decides by its exit status: 0 is passed."""

    path: str
    packages: tuple[str, ...] = ()  # modules that the interpreter must have


class ServedWorld(msgspec.Struct, frozen=True):
    """The world of one task."""

    root: str  # of the checkout
    servers: tuple[ServerSpec, ...]
    check: EvaluatorCheck | ScriptCheck
    start: FolderStart | DatabaseStart | None = None
    unfilled: tuple[str, ...] = ()  # variables of the question that have no value

    @property
    def own_variables(self) -> frozenset[str]:
        """The variables that the world's start defines."""
        match self.start:
            case FolderStart():
                return frozenset({self.start.variable})
            case DatabaseStart():
                return frozenset({"POSTGRES_DATABASE", "DATABASE_URL"})
        return frozenset()


def variables_of(server: ServerSpec) -> tuple[str, ...]:
    """The names of the variables that a server's command and environment contain."""
    texts = (*server.command, *server.environment.values())
    return tuple(dict.fromkeys(name for text in texts for name in variables_in(text)))


def variables_in(text: str) -> tuple[str, ...]:
    """The names of the variables in a text.

    Example: variables_in("Bearer {{ KEY }} of {{USER}}") -> ("KEY", "USER")
    """
    return tuple(_VARIABLE.findall(text))


def filled(text: str, values: dict[str, str]) -> str:
    """A text with the values of its variables; one without a value stays as it is.

    Example: filled("--dir={{DIR}}", {"DIR": "/tmp/a"}) -> "--dir=/tmp/a"
    """
    return _VARIABLE.sub(lambda found: values.get(found[1], found[0]), text)
