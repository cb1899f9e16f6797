"""The tool with which an agent folds its own history (history window `fold`).

The harness answers it, and no world sees it: the turn in which it is called, with the summary as
its argument, stays, and everything before it is no longer shown. It is a step like any other, and
counts as one; the log has what was folded, and judges read the log.
"""

from typing import Any

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.messages import AgentCall

HISTORY = "fold"  # the history window that has the tool
FOLD = ToolSpec(
    "fold",
    "Replace everything that you have seen and done in this task so far by a summary. From then on"
    " you are shown the task, this call, and what comes after it. Use it when your history is long,"
    " and write down what you need to go on: what you found (names, ids, amounts, dates, rules that"
    " apply), what you changed, and what is left to do.",
    {
        "type": "object",
        "properties": {"summary": {"type": "string", "minLength": 1}},
        "required": ["summary"],
        "additionalProperties": False,
    },
)
FOLDED = "Folded: what came before this call is no longer shown."
_SUCCESS = ToolResult(FOLDED)
_FAILURE = ToolResult(
    "fold takes one argument, summary, a text that is not empty. Nothing was folded.", "arguments"
)
_MAX_REMEMBERED = 256
_extended: dict[int, tuple[Any, tuple[ToolSpec, ...]]] = {}


def with_fold(tools: tuple[ToolSpec, ...], history: str) -> tuple[ToolSpec, ...]:
    """The tools of an agent under a history window: those of its world, and `fold` where the window
    has it. Equal tuples give one tuple, since texts that describe it are shared by its identity."""
    if history != HISTORY:
        return tools
    known = _extended.get(id(tools))
    if known is None:
        if len(_extended) >= _MAX_REMEMBERED:
            _extended.clear()
        known = _extended[id(tools)] = (tools, (*tools, FOLD))
    return known[1]


def fold_result(call: AgentCall, tools: tuple[ToolSpec, ...]) -> ToolResult | None:
    """The result of a call of `fold` by an agent that has these tools; None: it is another call."""
    if call.name != FOLD.name or FOLD not in tools:
        return None
    summary = call.arguments.get("summary") if isinstance(call.arguments, dict) else None
    if len(call.arguments) == 1 and isinstance(summary, str) and summary.strip():
        return _SUCCESS
    return _FAILURE


def is_of_fold(call: AgentCall, result: ToolResult) -> bool:
    """Whether a logged result is the harness's own to a call of `fold`."""
    return call.name == FOLD.name and result in (_SUCCESS, _FAILURE)


def has_folded(call: AgentCall, result: ToolResult) -> bool:
    """Whether a logged call folded the history."""
    return call.name == FOLD.name and result == _SUCCESS
