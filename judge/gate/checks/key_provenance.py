"""The gate's check of where an oracle's keys come from: an agent must be able to know each of them.

An agent knows the instruction, the policy, the tools' descriptions and the results of its earlier
calls. An oracle that passes a key which none of them contains lacks the call that finds it.
Amounts, dates and other words may be derived, and are not checked; nor are the look-ups before a
refusal, which no verifier demands.
"""

from collections.abc import Iterator
from typing import Any

from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.harness.policies.mutations import is_id
from rehearsal_room.judge.playback.playback import Played, format_call
from rehearsal_room.scenarios.checks import has_whole
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.format import Task

_SMALL = 10  # smaller keys occur in so many texts that the check would prove nothing


def known_from_the_start(world: BlockingWorld) -> str:
    """All texts that an agent sees before its task."""
    scenario = world.scenario
    tools = "\n".join(
        f"{tool.description}\n{' '.join(_words(tool.schema))}" for tool in world.tools
    )
    user = f"{scenario.user.id} {scenario.user.name} {scenario.user.role}"
    return "\n".join((scenario.rules, user, scenario.clock, tools))


def unknown_keys(task: Task, oracle: Played, start: str) -> Iterator[str]:
    """A sentence for each key that the oracle passes and that the agent cannot know then. What
    comes after a failing call is not checked: that call might have found the key."""
    if task.kind == "decline":
        return
    lines = task.user.lines if isinstance(task.user, UserAutomaton) else ()
    texts = "\n".join((task.instruction, *(line.text for line in lines)))  # see checks.dialogues
    read = f"{start}\n{texts}".casefold()
    for index, (call, result) in enumerate(zip(oracle.calls, oracle.results, strict=True)):
        for name, value in _leaves("", call.arguments):
            if _is_key(name, value) and not _contains(read, value):
                yield (
                    f"call {index + 1}, {format_call(call)}, passes {name}={value!r}, which is "
                    "neither in the instruction nor in the result of an earlier call"
                )
        if result.error is not None:
            return
        read += "\n" + result.text.casefold()


def _words(schema: Any) -> Iterator[str]:
    """The words and values that a schema lists or describes; its bounds are not keys of rows."""
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


def _contains(text: str, value: Any) -> bool:
    return has_whole(text, str(value).casefold(), not_after=".")


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(key, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(name, inner)
    else:
        yield name, value
