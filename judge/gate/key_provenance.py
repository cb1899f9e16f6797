"""The gate's check that an oracle knows what it passes: keys and codes must have been told before.

An agent has the instruction, the policy, the tools' descriptions and what earlier calls gave. An
oracle that passes a key which none of them names has left out the call that finds it. Amounts,
dates and other words may be worked out, and are not checked; nor are the look-ups before a refusal,
which no verifier asks for.
"""

import re
from collections.abc import Iterator
from typing import Any

from envpool.inprocess.world import HostedScenario
from harness.policies.mutations import is_id
from judge.playback.playback import Played, told
from scenarios.format import Task

_SMALL = 10  # keys below are in so many texts that nothing is learned of them


def known_from_the_start(world: HostedScenario) -> str:
    """What an agent has read before it knows its task."""
    scenario = world.scenario
    tools = "\n".join(
        f"{tool.description}\n{' '.join(_words(tool.schema))}" for tool in world.tools
    )
    user = f"{scenario.user.id} {scenario.user.name} {scenario.user.role}"
    return "\n".join((scenario.rules, user, scenario.clock, tools))


def untold(task: Task, oracle: Played, start: str) -> Iterator[str]:
    """A sentence for each key that the oracle passes and that nothing has told before."""
    if task.kind == "decline":
        return
    read = f"{start}\n{task.instruction}".casefold()
    for index, (call, result) in enumerate(zip(oracle.calls, oracle.results, strict=True)):
        for name, value in _leaves("", call.arguments):
            if _is_key(name, value) and not _says(read, value):
                yield (
                    f"call {index + 1}, {told(call)}, passes {name}={value!r}, which neither the "
                    "instruction nor an earlier call has told"
                )
        read += "\n" + result.text.casefold()


def _words(schema: Any) -> Iterator[str]:
    """The words and values that a schema lists or describes; its bounds are no news of a row."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("enum", "description", "const", "default"):
                yield str(value)
            else:
                yield from _words(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _words(item)


def _is_key(name: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return False
    if isinstance(value, int) and value < _SMALL:
        return False
    return is_id(name) or is_id(name.removesuffix("s"))


def _says(text: str, value: Any) -> bool:
    wanted = re.escape(str(value).casefold())
    return re.search(rf"(?<![\w.]){wanted}(?!\w)", text) is not None


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(key, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(name, inner)
    else:
        yield name, value
