"""The stage that specifies the tools."""

import keyword
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rehearsal_room.scenarios.synth.core.answer_parsing import UnreadableAnswer, json_of
from rehearsal_room.scenarios.synth.core.attempts import CheckedAnswer
from rehearsal_room.scenarios.synth.core.coverage import missing_functions
from rehearsal_room.scenarios.synth.core.world_drafts import ToolDraft, ToolParameter
from rehearsal_room.scenarios.synth.stages.common import DraftStage
from rehearsal_room.scenarios.value_checks import NAME

_TYPES = ("string", "integer", "number", "boolean", "array", "null")
_MAX_BOUND = 2**53
_NAMES = "a lower-case identifier that is not a keyword of Python"


class _ToolAnswer(msgspec.Struct):
    name: str
    description: str = ""
    parameters: dict[str, ToolParameter] = {}
    reads: list[str] = []
    writes: list[str] = []


class _ToolsAnswer(msgspec.Struct):
    tools: list[_ToolAnswer]


class ToolsStage(DraftStage):
    """The specification of the tools."""

    name = "tools"

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "tools": self._sizes.stated("tools")}

    async def check(self, text: str) -> CheckedAnswer[tuple[ToolDraft, ...]]:
        """Check that names are valid and unique, and that types and tables are known."""
        try:
            answer = json_of(text, _ToolsAnswer)
        except UnreadableAnswer as exc:
            return CheckedAnswer(None, (str(exc),))
        tools = tuple(
            ToolDraft(
                name=tool.name,
                description=tool.description,
                parameters=_required_first(tool.parameters),
                reads=tuple(tool.reads),
                writes=tuple(tool.writes),
            )
            for tool in answer.tools
        )
        if not tools:
            return CheckedAnswer(None, ("there is no tool",))
        tables = {table.name for table in self._draft.tables}
        counts = Counter(tool.name for tool in tools)
        faults = [f"tool {name} is there {n} times" for name, n in counts.items() if n > 1]
        faults += [fault for tool in tools for fault in _tool_faults(tool, tables)]
        faults += missing_functions(self._draft.plan, counts)
        named = {name for tool in tools for name in (*tool.reads, *tool.writes)}
        notes = [f"no tool uses table {name}" for name in sorted(tables - named)]
        notes += self._sizes.notes("tools", len(tools))
        return CheckedAnswer(tools, tuple(faults), tuple(notes))


def _tool_faults(tool: ToolDraft, tables: set[str]) -> list[str]:
    faults = []
    if not _is_name(tool.name):
        faults.append(f"tool {tool.name!r}: its name must be {_NAMES}")
    if not tool.description.strip():
        faults.append(f"tool {tool.name}: it has no description")
    for name, parameter in tool.parameters.items():
        words = parameter.type if isinstance(parameter.type, list) else [parameter.type]
        if not _is_name(name):
            faults.append(f"tool {tool.name}: parameter {name!r} must be {_NAMES}")
        for word in words:
            kind = word.get("type") if isinstance(word, dict) else word
            if kind not in _TYPES:
                faults.append(f"tool {tool.name}: parameter {name}: {kind!r} is not a type")
        if fault := _range_fault(parameter, words):
            faults.append(f"tool {tool.name}: parameter {name}: {fault}")
    unknown = [table for table in (*tool.reads, *tool.writes) if table not in tables]
    return [*faults, *(f"tool {tool.name}: there is no table {table!r}" for table in unknown)]


def _required_first(parameters: Mapping[str, ToolParameter]) -> dict[str, ToolParameter]:
    """The parameters in an order that Python accepts, otherwise as they were written."""
    ordered = sorted(parameters.items(), key=lambda item: not item[1].required)
    return dict(ordered)


def _range_fault(parameter: ToolParameter, types: Sequence[Any]) -> str:
    """Why its minimum or maximum cannot be used; empty: they can, or it has none."""
    low, high = parameter.minimum, parameter.maximum
    bounds = [bound for bound in (low, high) if bound is not None]
    if not bounds:
        return ""
    if not {"integer", "number"}.intersection(word for word in types if isinstance(word, str)):
        return f"a range is for an integer or a number, found {parameter.type!r}"
    if not all(abs(bound) <= _MAX_BOUND for bound in bounds):
        return "its minimum or maximum is too large"
    if "integer" in types and any(bound != int(bound) for bound in bounds):
        return "the range of an integer must be in integers"
    if low is not None and high is not None and low > high:
        return f"its minimum {low} is larger than its maximum {high}"
    return ""


def _is_name(text: str) -> bool:
    """Whether Python accepts the text as the name of a function or a parameter."""
    return NAME.fullmatch(text) is not None and not keyword.iskeyword(text)
