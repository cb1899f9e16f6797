"""Inspect's agents and solvers as ours: they play the episodes of `rehearse`.

    report = await rehearse(
        inspect_solver(generate(), "openai/gpt-5"), ["shop_support"], "runs/mine",
        judge=ScenarioJudges,
    )

Each tool call is a logged step. What the agent says last is its answer. Covers agents and solvers
that work outside of an evaluation of Inspect's; `react()` and what is made from it do not: use
harness.bridges.inspect.rehearsal_task for those.
"""

from collections.abc import Callable
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

from harness.bridges.inspect_tools import tool_of
from harness.core.messages import Briefing
from harness.dialects.native import Native
from harness.library import AgentEnv, AgentFunction, TaskView

MakeAgent = Callable[[list[ToolDef]], Agent]
_native = Native()


def inspect_agent(make: MakeAgent) -> AgentFunction:
    """An agent function for `rehearse` that runs the agent which `make` returns for the tools of an
    episode. The agent names its model itself."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        state: AgentState = await run_agent(make(_tools(env)), _messages(task, env))
        return state.output.completion

    return agent


def inspect_solver(solver: Solver, model: str | Model) -> AgentFunction:
    """The same for a solver, which finds the tools in its state and asks `model`."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        used = get_model(model)
        name, messages = ModelName(used), _messages(task, env)
        state = TaskState(name, task.episode, 1, task.instruction, messages)
        state.tools = [tool.as_tool() for tool in _tools(env)]

        async def generate(state: TaskState, *_: Any, **__: Any) -> TaskState:
            replies, state.output = await used.generate_loop(state.messages, tools=state.tools)
            state.messages += replies
            return state

        return (await solver(state, generate)).output.completion

    return agent


def _tools(env: AgentEnv) -> list[ToolDef]:
    async def call(name: str, arguments: dict[str, Any]) -> str:
        return (await env.call(name, arguments)).text

    return [tool_of(tool, call) for tool in env.tools]


def _messages(task: TaskView, env: AgentEnv) -> list[ChatMessage]:
    briefing = Briefing(task.instruction, task.rules, env.tools, task.user, task.now)
    system, user = _native.opening_messages(briefing)
    return [ChatMessageSystem(content=system.content), ChatMessageUser(content=user.content)]
