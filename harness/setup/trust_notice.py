"""The line that names the packages whose code runs in this process, with the user's rights.

It is written to standard error before their code runs, and names each package once in the life of a
command. Packages that this process has made itself, with this project's own generator, are not
named.
"""

import sys
from collections.abc import Iterable, Sequence

from rehearsal_room.harness.core.terminal_text import plural, printable
from rehearsal_room.scenarios.format import Scenario

_SHOWN = 5  # packages that are named; the others are counted
_known: set[str] = set()  # digests of packages that were named, or made here


def forget_named() -> None:
    """Begin a new command."""
    _known.clear()


def set_own(digests: Iterable[str]) -> None:
    """Do not name these packages: this process has made them."""
    _known.update(digests)


def name_trusted(scenarios: Sequence[Scenario]) -> None:
    """Write the line about the packages that were not named yet."""
    new = [scenario for scenario in scenarios if scenario.digest not in _known]
    if new:
        _known.update(scenario.digest for scenario in new)
        served = [one for one in new if one.server is not None]
        if code := [one.name for one in new if one.server is None]:
            sys.stderr.write(trust_line(code) + "\n")
        if served:
            sys.stderr.write(server_line(served) + "\n")


def server_line(scenarios: Sequence[Scenario]) -> str:
    """The line on worlds of MCP servers.

    Example: -> "with your rights, and in no sandbox: notes and its MCP server (notes-mcp)"
    """
    shown = [
        f"{printable(one.name, one_line=True)} and its MCP server "
        f"({printable(one.server.commands, one_line=True)})"
        for one in scenarios[:_SHOWN]
        if one.server is not None
    ]
    more = len(scenarios) - len(shown)
    tail = f" and {plural(more, 'world')} more" if more else ""
    return f"with your rights, and in no sandbox: {', '.join(shown)}{tail}"


def trust_line(names: Sequence[str]) -> str:
    """The line.

    Example: ["my_world"] -> "trusted like rehearse itself, in this process: my_world (--isolate …"
    """
    shown = ", ".join(printable(name, one_line=True) for name in names[:_SHOWN])
    more = f" and {plural(len(names) - _SHOWN, 'package')} more" if len(names) > _SHOWN else ""
    return (
        f"trusted like rehearse itself, in this process: {shown}{more} (--isolate runs its code in "
        "sandboxed workers, --sandbox required all code that is not bundled)"
    )
