"""The interfaces of policies and their agents, as the episode loop uses them."""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

import msgspec

from rehearsal_room.harness.chat.request_metrics import RequestObserver
from rehearsal_room.harness.core.events import HistorySummarized, StepTaken
from rehearsal_room.harness.core.messages import Briefing, Reply, Window
from rehearsal_room.scenarios.format import Scenario, Task


class Assignment(msgspec.Struct, frozen=True):
    """One episode of the plan, for the agent that plays it.

    Only policies that do not ask a model (oracle, mutant, scripted, replay) use more than the
    briefing and the seed.
    """

    episode: str
    scenario: Scenario
    task: Task
    seed: int  # of this episode's own randomness (mutations, sampling)
    briefing: Briefing
    member: int = 0  # 0 .. group_size - 1
    # What was replied in the episode before this agent takes over: the logged turns of a fork or of
    # an episode that is resumed. The agent goes on after them; empty: it begins the episode.
    kept: tuple[StepTaken | HistorySummarized, ...] = ()
    attempt: int = 1  # at the episode


class Agent(Protocol):
    """A policy's agent for one episode."""

    async def reply(self, window: Window) -> Reply:
        """Reply to what the window shows. Raises PolicyError when there is no reply.

        A window may ask for a summary instead of the next step (`Window.summarise`). Its messages
        say so, too: only agents that do not read them need the flag.

        Cancellation passes through and abandons a request in flight.
        """


class Policy(Protocol):
    """Makes agents. All episodes of a run share one policy; it is an async context manager where it
    holds connections. `tests/contracts/test_policy.py` states what every policy promises."""

    @property
    def name(self) -> str:
        """The policy's name in the log, as in `oracle` or `openai:gpt-5`."""

    def agent(self, assignment: Assignment) -> Agent:
        """Make an agent for one episode."""


class OpenPolicy(Policy, AbstractAsyncContextManager[Any], Protocol):
    """A policy that holds a resource (connections, a model) inside of its `async with` block."""

    def statistics(self) -> dict[str, float]:
        """Counts since the start, as in requests, prompt_tokens, completion_tokens."""


@runtime_checkable
class Rehearses(AbstractAsyncContextManager[Any], Protocol):
    """A policy whose first request can be sent before the run."""

    async def find_server(self) -> None:
        """Check that a server is there; the policy need not be open. Raises ModelServerError."""

    async def rehearse(self, first: Assignment, window: Window) -> None:
        """Send the request with which this episode begins, and keep its outcome for the episode.
        Raises ModelServerError where every episode of the run would end so."""


@runtime_checkable
class Observable(Protocol):
    """A policy whose requests to a model server can be observed."""

    @property
    def base_url(self) -> str:
        """The URL of the server's API, as in `http://127.0.0.1:8000/v1`."""

    def observe(self, observer: RequestObserver) -> None:
        """Let an observer see every attempt from now on."""
