"""What a policy is to the episode loop."""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from harness.core.messages import Briefing, Reply, Window
from scenarios.format import Scenario, Task


class Assignment(msgspec.Struct, frozen=True):
    """One episode, as the plan has it. Only scripted policies look at more than the briefing."""

    episode: str
    scenario: Scenario
    task: Task
    seed: int  # of this episode's own randomness (scripted mistakes, sampling)
    briefing: Briefing
    member: int = 0  # 0 .. group_size - 1


class Agent(Protocol):
    """A policy at work on one episode."""

    async def reply(self, window: Window) -> Reply:
        """Answer what the window shows. Raises PolicyError when no answer can be had.

        A window may ask for a summary instead of the next step (`Window.summarise`). Its messages
        say so, too: only agents that do not read them need the flag.

        Cancellation passes through: the request in flight is given up.
        """


class Policy(Protocol):
    """Makes agents. Shared by all episodes of a run; an async context manager where it holds
    connections."""

    @property
    def name(self) -> str:
        """As it is logged, as in `oracle` or `openai:gpt-5`."""

    def agent(self, assignment: Assignment) -> Agent:
        """An agent for one episode."""


class OpenPolicy(Policy, AbstractAsyncContextManager[Any], Protocol):
    """A policy that holds something (connections, a model) while its block lasts."""

    def statistics(self) -> dict[str, float]:
        """Counts since the start, as in requests, prompt_tokens, completion_tokens."""
