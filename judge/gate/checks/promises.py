"""The gate's check that a tool exists which the description of another one promises.

"Begin a draft. Further products are added one by one, then it is sent." promises a tool that adds
to a draft, and one that sends it. Covers these two sentences: something is done "one by one", and
"then it is" done; the other tool must have the verb, and a noun of the promising tool's name.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.judge.gate.checks.tools import EFFECT_VERBS

_PROMISE = re.compile(
    r"\b(?:is|are) (?P<each>[a-z]+) one by one\b|\bthen (?:it is|they are) (?P<then>[a-z]+)\b"
)
_IRREGULAR = {"sent": "send", "paid": "pay", "lent": "lend", "set": "set", "written": "write"}


def missing_tools(tools: Sequence[ToolSpec]) -> Iterator[str]:
    """A sentence for each deed that a description promises and no other tool does."""
    for tool in tools:
        nouns = set(tool.name.split("_")[1:])
        for found in _PROMISE.finditer(" ".join(tool.description.split())):
            participle = found["each"] or found["then"]
            verb = _verb_of(participle)
            if verb and not any(_does(one, verb, nouns) for one in tools if one is not tool):
                yield (
                    f"{tool.name} says {found[0]!r}, and there is no tool that does {verb!r} with "
                    f"{' or '.join(sorted(nouns))}: add it, or say something else"
                )


def _verb_of(participle: str) -> str:
    """Example: "added" -> "add"; "sent" -> "send"; "red" -> "" """
    if participle in _IRREGULAR:
        return _IRREGULAR[participle]
    stem = participle.removesuffix("ed")
    for verb in (stem, f"{stem}e", stem[:-1], f"{stem[:-1]}y"):
        if stem != participle and verb in EFFECT_VERBS:
            return verb
    return ""


def _does(tool: ToolSpec, verb: str, nouns: set[str]) -> bool:
    """Whether a tool is named so, or has an action of this name."""
    names = [tool.name, *(f"{action}_{tool.name}" for action in _enumerated(tool.schema))]
    return any(name.split("_")[0] == verb and nouns & set(name.split("_")) for name in names)


def _enumerated(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (value for value in schema.get("enum", ()) if isinstance(value, str))
        for inner in schema.values():
            yield from _enumerated(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _enumerated(inner)
