"""What an OpenEnv server publishes about itself: `/schema`, `/metadata`, `/openapi.json`."""

from typing import Any

from rehearsal_room.scenarios.format import Scenario

Schema = dict[str, Any]
VERSION = "0.10"  # of OpenEnv's protocol


def _object(title: str, properties: Schema, *required: str, more: bool = False) -> Schema:
    made: Schema = {"title": title, "type": "object", "properties": properties}
    if required:
        made["required"] = list(required)
    return {**made, "additionalProperties": more}


_METADATA = {"type": "object", "default": {}, "description": "Additional metadata"}
_LIST_TOOLS = _object(
    "ListToolsAction",
    {"type": {"const": "list_tools", "default": "list_tools"}, "metadata": _METADATA},
)
_CALL_TOOL = _object(
    "CallToolAction",
    {
        "type": {"const": "call_tool", "default": "call_tool"},
        "tool_name": {"type": "string", "description": "Name of the tool to call"},
        "arguments": {"type": "object", "default": {}, "description": "Arguments of the tool"},
        "metadata": _METADATA,
    },
    "tool_name",
)
# The title `Action` says that tools are listed by a step (verifiers' taskset reads it).
ACTION: Schema = {
    "title": "Action",
    "oneOf": [_LIST_TOOLS, _CALL_TOOL],
    "discriminator": {"propertyName": "type"},
}
_TEXT, _NUMBER, _ANY = {"type": "string"}, {"type": "integer"}, {"type": "object"}
OBSERVATION = _object(
    "AWMObservation",
    {
        "done": {"type": "boolean", "default": False},
        "reward": {"type": ["number", "null"], "default": None},
        "metadata": _METADATA,
        "reward_type": {**_TEXT, "description": "What the reward was given for"},
        "scenario": {**_TEXT, "description": "Name of the world"},
        "task": {**_TEXT, "description": "What the agent is asked to do"},
        "task_idx": {**_NUMBER, "description": "Index of the task"},
        "has_verifier": {**_ANY, "description": "Which verifiers the task has: sql, code"},
        "num_tools": {**_NUMBER, "description": "Number of tools"},
        "tools": {"type": "array", "items": {"type": "object"}, "description": "The tools"},
        "tool_name": {**_TEXT, "description": "Name of the tool that was called"},
        "tool_result": {"description": "Result of the call"},
        "error": {**_TEXT, "description": "Why the step failed"},
        "warning": {**_TEXT, "description": "What else a client should know"},
        "verify_result": {**_ANY, "description": "The judge's verdict"},
        "steps_taken": {**_NUMBER, "description": "Steps of the episode"},
        "scenarios": {"type": "array", "items": _ANY, "description": "Worlds of the server"},
        "total": {**_NUMBER, "description": "Number of worlds of the server"},
        "trajectory_path": _TEXT,
        "session_dir": _TEXT,
    },
)
STATE = _object(
    "State",
    {
        "episode_id": {"type": ["string", "null"], "default": None},
        "step_count": {**_NUMBER, "minimum": 0, "default": 0},
    },
    more=True,
)
SCHEMAS = {
    "action": ACTION,
    "observation": OBSERVATION,
    "reset_observation": OBSERVATION,
    "state": STATE,
}
_RESET = _object(
    "ResetRequest",
    {
        "seed": {"type": ["integer", "null"], "description": "Chooses a task where none is named"},
        "episode_id": {"type": ["string", "null"], "maxLength": 255},
        "scenario": {**_TEXT, "description": "Name of the world (default: the one of the path)"},
        "task_idx": {**_NUMBER, "description": "Index of the task"},
        "task_id": {**_TEXT, "description": "Id of the task"},
        "reward_config": {**_ANY, "description": "Reward of each reward type"},
    },
    more=True,
)
_STEP = _object(
    "StepRequest",
    {"action": ACTION, "timeout_s": {"type": ["number", "null"]}},
    "action",
    more=True,
)
_RESULT = _object(
    "StepResponse",
    {
        "observation": OBSERVATION,
        "reward": {"type": ["number", "null"]},
        "done": {"type": "boolean"},
        "metadata": {"type": "object"},
    },
    "observation",
)
_SPLIT = _object("ListTasksRequest", {"split": _TEXT}, "split")


def metadata(scenario: Scenario) -> dict[str, str]:
    """The answer to `/metadata`."""
    return {
        "name": scenario.name,
        "description": scenario.description or scenario.title,
        "readme_content": scenario.rules,
        "version": scenario.version,
    }


def openapi(scenario: Scenario) -> Schema:
    """The answer to `/openapi.json`."""
    env = f"/{scenario.name}"
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"OpenEnv: {scenario.title}",
            "version": scenario.version,
            "description": f"OpenEnv {VERSION}. Episodes are played over the WebSocket /ws.",
        },
        "paths": {
            "/reset": _post("Reset a fresh world", _RESULT, _RESET),
            "/step": _post("Step a fresh world", _RESULT, _STEP),
            "/state": _get("State of a fresh world", STATE),
            "/health": _get("Health", _ANY),
            "/metadata": _get("Name and description of the world", _ANY),
            "/schema": _get("Schemas of action, observation and state", _ANY),
            "/mcp": _post("JSON-RPC: tools/list, tools/call, openenv/session/*", _ANY, _ANY),
            "/list_environments": _get("Names of the environments", {"type": "array"}),
            f"{env}/splits": _get("Splits of the tasks", {"type": "array"}),
            **{
                f"{env}/{name}": _post("Tasks of the world", _ANY, _SPLIT)
                for name in ("tasks", "num_tasks", "task", "task_range")
            },
        },
    }


def _get(summary: str, answer: Schema) -> Schema:
    return {"get": {"summary": summary, "responses": {"200": _content(answer)}}}


def _post(summary: str, answer: Schema, body: Schema) -> Schema:
    request = {"content": {"application/json": {"schema": body}}}
    responses = {"200": _content(answer), "422": {"description": "The request is not valid"}}
    return {"post": {"summary": summary, "requestBody": request, "responses": responses}}


def _content(schema: Schema) -> Schema:
    return {"description": "OK", "content": {"application/json": {"schema": schema}}}
