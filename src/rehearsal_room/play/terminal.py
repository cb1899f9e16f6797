"""A person plays an episode at a terminal: one line is one action.

    > get_order order_id=4101
    > get_order {"order_id": 4101}
    > answer Order 4101 now goes to Duluth.

The lines may come from a pipe, too. The end of the input without an answer ends the episode.
"""

import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any

import anyio.to_thread
import msgspec
from rich.console import Console
from rich.text import Text

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import Briefing
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.policies.human import HumanExchange
from rehearsal_room.scenarios.files import UNREADABLE

HELP = """\
TOOL KEY=VALUE …   make a call; also TOOL {"KEY": VALUE, …}
answer TEXT        give the final answer; in a dialogue, say something to the user
task, rules        show the task, the rules
tools, help TOOL   list the tools, describe one
quit               leave without an answer"""


class TerminalSurface:
    """Reads actions from standard input and prints what they bring.

    `read_line` returns the next line, or "" at the end; it runs in a thread.
    """

    def __init__(self, console: Console, read_line: Callable[[], str] | None = None) -> None:
        self._console = console
        self._read_line = read_line or sys.stdin.readline

    async def __call__(self, exchange: HumanExchange) -> None:
        """Let the person act until the episode is over or the input ends."""
        briefing = await exchange.started()
        if briefing is None:
            return
        self._print(describe_task(briefing))
        self._print(HELP)
        while not exchange.over:
            self._console.print("> ", end="")
            line = await anyio.to_thread.run_sync(self._read_line, abandon_on_cancel=True)
            if not line or line.strip() == "quit":
                return
            await self._handle(line.strip(), briefing, exchange)

    async def _handle(self, line: str, briefing: Briefing, exchange: HumanExchange) -> None:
        word, _, rest = line.partition(" ")
        if not word:
            return
        try:
            if word == "answer":
                if (heard := await exchange.answer(rest.strip())) is not None:
                    self._print(f"user: {heard}")
            elif (text := describe(word, rest.strip(), briefing)) is not None:
                self._print(text)
            else:
                await self._call(word, rest.strip(), briefing, exchange)
        except ValueError as exc:
            self._print(f"{exc} (`help` lists what you can type)")

    async def _call(
        self, tool: str, text: str, briefing: Briefing, exchange: HumanExchange
    ) -> None:
        spec = next((one for one in briefing.tools if one.name == tool), None)
        if spec is None:
            raise ValueError(f"there is no tool {tool!r}")
        made = await exchange.call(tool, read_arguments(text, spec))
        self._print("The episode is over." if made is None else made.text)

    def _print(self, text: str) -> None:
        self._console.print(Text(printable(text)), soft_wrap=True)


def describe(word: str, rest: str, briefing: Briefing) -> str | None:
    """The text that a word asks for; None: it does not ask for a text. Raises ValueError for an
    unknown tool."""
    if word == "help" and rest:
        spec = next((one for one in briefing.tools if one.name == rest), None)
        if spec is None:
            raise ValueError(f"there is no tool {rest!r}")
        return "\n".join(describe_tool(spec))
    texts: dict[str, Callable[[], str]] = {
        "help": lambda: HELP,
        "rules": lambda: briefing.rules or "This world has no rules.",
        "task": lambda: describe_task(briefing),
        "tools": lambda: "\n".join(_signature(spec) for spec in briefing.tools),
    }
    return texts[word]() if word in texts and not rest else None


def describe_task(briefing: Briefing) -> str:
    """The task with its user and time."""
    who = f"You are logged in as {briefing.user}. " if briefing.user else ""
    when = f"The time is {briefing.now}. " if briefing.now else ""
    rules = "`rules` shows the rules." if briefing.rules else ""
    talk = "\nThe user answers questions: `answer TEXT`.\n" if briefing.is_dialogue else ""
    return f"{who}{when}{rules}".strip() + f"\n\n{briefing.instruction}\n{talk}"


def describe_tool(spec: ToolSpec) -> Iterator[str]:
    """A tool's signature and description, and a line for each argument."""
    yield _signature(spec)
    yield spec.description
    for name, schema in spec.schema.get("properties", {}).items():
        shown = {key: value for key, value in schema.items() if key != "title"}
        yield f"  {name}: {msgspec.json.encode(shown).decode()}"


def _signature(spec: ToolSpec) -> str:
    required = spec.schema.get("required", ())
    names = spec.schema.get("properties", {})
    return " ".join([spec.name, *(name if name in required else f"[{name}]" for name in names)])


def read_arguments(text: str, spec: ToolSpec) -> dict[str, Any]:
    """The arguments of a call as a person types them: a JSON object, or KEY=VALUE.

    A value is read as JSON, unless the tool's schema asks for a text. Raises ValueError.

    Example: 'order_id=4101 note="too late"' -> {"order_id": 4101, "note": "too late"}
    """
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except UNREADABLE as exc:
            raise ValueError(f"the arguments are not a JSON object: {exc}") from None
    arguments = {}
    for word in shlex.split(text):
        name, found, value = word.partition("=")
        if not found:
            raise ValueError(f"{word!r} is not KEY=VALUE")
        arguments[name] = _value(value, spec.schema.get("properties", {}).get(name, {}))
    return arguments


def _value(text: str, schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return text
