"""The observations of AWM's environment as data: their fields, reward types and rewards."""

from collections.abc import Mapping
from typing import Any

from rehearsal_room.envpool.core.types import ToolErrorKind, ToolResult
from rehearsal_room.envpool.protocols.episodes import WorldVerdict, shown_findings, shown_reason
from rehearsal_room.envpool.protocols.task_lists import BadTask

Payload = dict[str, Any]  # observation, reward, done, and metadata where there is some
_REWARDS = {"complete": 1.0, "incomplete": 0.1, "format_error": -1.0}
_FORMAT_ERRORS = frozenset({"tool_not_found", "invalid_args", "invalid_action"})
_ERRORS: dict[ToolErrorKind, str] = {
    "unknown_tool": "tool_not_found",
    "arguments": "invalid_args",
    "refused": "tool_refused",
    "timeout": "timeout",
    "internal": "server_error",
}
# OpenEnv's error types of calls that the world did not execute, or could not.
_ERROR_TYPES = {
    "tool_not_found": "tool_not_found",
    "invalid_args": "invalid_args",
    "timeout": "timeout",
    "server_error": "execution_error",
}
_LABELS = {
    "completed": "complete",
    "partially_completed": "incomplete",
    "agent_error": "agent_error",
    "environment_error": "server_error",
}


def worth(kind: str, rewards: Mapping[str, float] | None) -> float:
    """The reward of a reward type. `rewards` None: AWM's own."""
    known = _REWARDS if rewards is None else rewards
    if kind in _FORMAT_ERRORS:
        return known.get("format_error", -1.0)
    return known.get(kind, 0.0)


def kind_of(verdict: WorldVerdict) -> str:
    """The reward type of a verdict."""
    return "judge_error" if verdict.label is None else _LABELS[verdict.label]


def shown_result(result: ToolResult, *, is_awm: bool) -> tuple[str, dict[str, Any]]:
    """The reward type of a call, and the fields that show its result: AWM's own, or OpenEnv's, too.

    Example: a refusal "no such order" -> ("tool_refused", {"error": "no such order"})
    """
    text = result.text
    if result.error is None:
        shown = {"tool_result": text}
        return "tool_call_ok", shown if is_awm else {**shown, "result": text}
    kind = _ERRORS[result.error]
    if is_awm:
        return kind, {"error": text}
    if (error_type := _ERROR_TYPES.get(kind)) is not None:
        return kind, {"error": {"error_type": error_type, "message": text}}
    return kind, {"tool_result": f"Error: {text}", "result": f"Error: {text}"}


def payload(
    reward: float | None,
    *,
    done: bool = False,
    metadata: dict[str, Any] | None = None,
    **fields: Any,
) -> Payload:
    """What `reset` and `step` return. The metadata is in the observation and beside it."""
    observation = {"metadata": metadata or {}}
    observation |= {name: value for name, value in fields.items() if value is not None}
    made: Payload = {"observation": observation, "reward": reward, "done": done}
    if metadata:
        made["metadata"] = metadata
    return made


def reward_config(value: Any) -> dict[str, float] | None:
    """The option `reward_config` of reset; None: it is not given. Raises BadTask."""
    if not value:
        return None
    if not isinstance(value, dict) or not all(
        isinstance(number, int | float) and not isinstance(number, bool)
        for number in value.values()
    ):
        raise BadTask("reward_config: expected an object of reward types and numbers")
    return {str(kind): float(number) for kind, number in value.items()}


def verify_result(verdict: WorldVerdict) -> dict[str, Any]:
    """A verdict as AWM's verifiers return it, with what the judge adds."""
    result: dict[str, Any] = {
        "result": "complete" if verdict.label == "completed" else "others",
        "execution_status": "error" if verdict.label is None else "success",
        "judge": verdict.judge,
        # Without what was expected: a client may show all of this to the agent.
        "findings": shown_findings(verdict),
    }
    if verdict.label is not None:
        result["label"] = verdict.label
    if verdict.unjudged:
        result["error_message"] = shown_reason(verdict)
    return result
