"""Inspect's agents and solvers as ours: they play the episodes of `rehearse`.

    report = await rehearse(
        inspect_solver(generate(), "openai/gpt-5"), ["shop_support"], "runs/mine",
        judge=ScenarioJudges,
    )

Each tool call is a logged step. What the agent says last is its answer. In a dialogue it has the
tool `talk_to_user`. Where its model is out of reach, the episode has no verdict; any other
exception is its failure. Covers agents and solvers that work outside of an evaluation of Inspect's;
`react()` and what is made from it do not: use bridges.inspect.rehearsal_task for those.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from inspect_ai.agent import Agent, AgentState
from inspect_ai.agent import run as run_agent
from inspect_ai.model import (
    ChatMessage,
    ChatMessageSystem,
    ChatMessageUser,
    Model,
    ModelName,
    get_model,
)
from inspect_ai.solver import Solver, TaskState
from inspect_ai.tool import ToolDef

from rehearsal_room.bridges.inspect_tools import tool_of
from rehearsal_room.envpool.core.talks import ENDED, TALK
from rehearsal_room.harness.agents.agent_env import AgentEnv, AgentFunction, TaskView
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import Briefing
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.outcomes.model_failures import is_outage

MakeAgent = Callable[[list[ToolDef]], Agent]
_native = Native()


def inspect_agent(make: MakeAgent) -> AgentFunction:
    """An agent function for `rehearse` that runs the agent which `make` returns for the tools of an
    episode. The agent names its model itself."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        with _outage_is_named():
            state: AgentState = await run_agent(make(_tools(task, env)), _messages(task, env))
        return state.output.completion

    return agent


def inspect_solver(solver: Solver, model: str | Model) -> AgentFunction:
    """The same for a solver, which finds the tools in its state and asks `model`."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        used = get_model(model)
        name, messages = ModelName(used), _messages(task, env)
        state = TaskState(name, task.episode, 1, task.instruction, messages)
        state.tools = [tool.as_tool() for tool in _tools(task, env)]

        async def generate(state: TaskState, *_: Any, **__: Any) -> TaskState:
            replies, state.output = await used.generate_loop(state.messages, tools=state.tools)
            state.messages += replies
            return state

        with _outage_is_named():
            return (await solver(state, generate)).output.completion

    return agent


@contextmanager
def _outage_is_named() -> Iterator[None]:
    """A block in which an exception of a model's client that means an outage becomes a
    PolicyError."""
    try:
        yield
    except Exception as exc:
        if is_outage(exc):
            raise PolicyError(f"{type(exc).__name__}: {exc}") from exc
        raise


def _tools(task: TaskView, env: AgentEnv) -> list[ToolDef]:
    is_over = False

    async def call(name: str, arguments: dict[str, Any]) -> str:
        return (await env.call(name, arguments)).text

    async def say(_name: str, arguments: dict[str, Any]) -> str:
        nonlocal is_over
        heard = None if is_over else await env.say(str(arguments.get("text", "")))
        is_over = heard is None
        return ENDED if heard is None else heard

    tools = [tool_of(tool, call) for tool in env.tools]
    return [*tools, tool_of(TALK, say)] if task.is_dialogue else tools


def _messages(task: TaskView, env: AgentEnv) -> list[ChatMessage]:
    briefing = Briefing(task.instruction, task.rules, env.tools, task.user, task.now)
    system, user = _native.opening_messages(briefing)
    return [ChatMessageSystem(content=system.content), ChatMessageUser(content=user.content)]
