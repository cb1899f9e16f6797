"""The agent that the settings name, open for a run, as the driver of its episodes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog

from rehearsal_room.harness.agents.agent_env import AgentFunction
from rehearsal_room.harness.agents.commands import CommandAgent, check_command
from rehearsal_room.harness.agents.driver import driver_of
from rehearsal_room.harness.agents.endpoints import EndpointAgent
from rehearsal_room.harness.agents.functions import load_agent
from rehearsal_room.harness.agents.gateway import AgentGateway, Check
from rehearsal_room.harness.core.events import AGENT
from rehearsal_room.harness.model_api.request import ModelRequest
from rehearsal_room.harness.model_api.sampling_fields import sampling_fields
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.rollout.episode import EpisodeDriver
from rehearsal_room.harness.settings.agent import AgentSettings
from rehearsal_room.harness.settings.run import Settings

_OF_THE_RUN = ("temperature", "top_p", "max_tokens", "seed")
_log = structlog.get_logger(__name__)


def check_agent(settings: AgentSettings) -> None:
    """Check an agent before anything is opened. Raises SettingsError."""
    if not settings.target:
        return
    if settings.kind == "function":
        load_agent(settings.target)
    elif settings.kind == "command":
        check_command(settings)


@asynccontextmanager
async def opened_agent(
    settings: Settings, folder: Path | None
) -> AsyncIterator[EpisodeDriver | None]:
    """What takes the episodes' steps in the block; None: no agent of the user's own does, but the
    policy, turn by turn. `folder` is the run's, which isolated agents do not see (None: it is on
    another machine). Raises SettingsError."""
    draws = settings.policy.name in ("vllm", "local")
    check = _check_of_sampling() if draws else None
    async with opened_driver(settings.agent, model_of(settings), folder, check=check) as driver:
        yield driver


def _check_of_sampling() -> Check:
    """Refuses the fields of a request that policies `vllm` and `local` cannot follow, and warns
    once of those that they leave to the run's settings."""
    said: set[str] = set()

    def check(request: ModelRequest) -> None:
        fields = sampling_fields(request)
        asked = {name for name in _OF_THE_RUN if getattr(fields, name) is not None}
        if new := sorted(asked - said):
            said.update(new)
            _log.warning(
                "agent_sampling_not_followed",
                fields=new,
                hint="policies vllm and local draw tokens as the run's settings say, for example "
                "--temperature",
            )

    return check


@asynccontextmanager
async def opened_driver(
    agent: AgentSettings, model: str, folder: Path | None, *, check: Check | None = None
) -> AsyncIterator[EpisodeDriver | None]:
    """The same for a model of this name at the agent's URL, which is the policy of each episode's
    context. `check` refuses requests that the model cannot follow."""
    if not agent.target:
        yield None
        return
    takes_answer = agent.kind == "command" and agent.answer == "tool"
    gateway = AgentGateway(model, check=check, takes_answer=takes_answer)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(gateway)
        function: AgentFunction
        if agent.kind == "function":
            function = load_agent(agent.target)
        elif agent.kind == "command":
            function = await stack.enter_async_context(CommandAgent(agent, gateway, folder))
        else:
            function = await stack.enter_async_context(EndpointAgent(agent.target))
        yield driver_of(function, gateway)


def model_of(settings: Settings) -> str:
    """The name of the model behind the agent, as requests have it; empty: the run names none."""
    if settings.policy.name == "agent":
        return ""
    return settings.model.name or settings.policy.name


class NoModel:
    """The policy of a run whose agent brings its own model."""

    name = "agent"

    def agent(self, assignment: Assignment) -> Agent:
        """There is no model to ask."""
        raise AssertionError("the agent takes its own steps, and the run names no model")


class NamedForAgent:
    """The model's policy under the name that the log has where an agent of the user's own plays.

    Example: agent "refund", policy "openai:gpt-5" -> "agent:refund+openai:gpt-5"
    """

    def __init__(self, policy: Policy, settings: AgentSettings) -> None:
        behind = "" if isinstance(policy, NoModel) else f"+{policy.name}"
        self.name = f"{AGENT}{settings.shown_name}{behind}"
        self._policy = policy

    def agent(self, assignment: Assignment) -> Agent:
        """The model for one episode."""
        return self._policy.agent(assignment)


def named_for_agent(policy: Policy, settings: AgentSettings) -> Policy:
    """The policy under the name of the agent, if one plays."""
    return NamedForAgent(policy, settings) if settings.target else policy
