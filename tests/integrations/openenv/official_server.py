"""Run with the Python that has `openenv`: official_server.py trivial|counter (prints its URL)

OpenEnv's own server. `trivial` answers each step at once; `counter` is an environment with tools of
which only it knows the reward: `add` and `finish`.
"""

import socket
import sys
from typing import Any
from uuid import uuid4

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.types import Action, Observation, State


class TrivialAction(Action):
    value: int = 0


class TrivialObservation(Observation):
    value: int = 0


class Trivial(Environment):
    """Returns what it gets."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: Any = None, episode_id: Any = None, **kwargs: Any) -> Observation:
        return TrivialObservation()

    def step(self, action: Any, timeout_s: Any = None, **kwargs: Any) -> Observation:
        return TrivialObservation(value=action.value, reward=0.0)

    @property
    def state(self) -> State:
        return State()


class CounterAction(Action):
    """Either action of an environment with tools."""

    @classmethod
    def model_validate(cls, obj: Any, **kwargs: Any) -> Any:
        kind = ListToolsAction if obj.get("type") == "list_tools" else CallToolAction
        return kind.model_validate(obj)


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [
    Tool(name="add", description="Add a number.", input_schema=NUMBER),
    Tool(name="finish", description="State the sum.", input_schema=NUMBER),
]


class Counter(Environment):
    """`add` numbers, then `finish` with their sum: reward 1 where it is right and not 0."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._sum, self._state = 0, State()

    def reset(self, seed: Any = None, episode_id: Any = None, **kwargs: Any) -> Observation:
        self._sum, self._state = 0, State(episode_id=episode_id or str(uuid4()))
        return Observation()

    def step(self, action: Any, timeout_s: Any = None, **kwargs: Any) -> Observation:
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=TOOLS)
        self._state.step_count += 1
        match action.tool_name, action.arguments:
            case "add", {"n": int(number)}:
                self._sum += number
                return CallToolObservation(tool_name="add", result=self._sum, reward=0.0)
            case "finish", {"n": int(number)}:
                reward = 1.0 if number == self._sum != 0 else 0.0
                return CallToolObservation(
                    tool_name="finish", result="ok", reward=reward, done=True
                )
        kind = ToolErrorType.TOOL_NOT_FOUND
        error = ToolError(error_type=kind, message=f"no tool {action.tool_name}")
        return CallToolObservation(tool_name=action.tool_name, error=error, reward=0.0)

    @property
    def state(self) -> State:
        return self._state


APPS = {
    "trivial": (Trivial, TrivialAction, TrivialObservation),
    "counter": (Counter, CounterAction, CallToolObservation),
}
app = create_app(*APPS[sys.argv[1]], env_name=sys.argv[1], max_concurrent_envs=256)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
sys.stdout.flush()
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
