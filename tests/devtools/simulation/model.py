"""A model that plays the oracle's calls, with virtual delays and failures."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Self

import anyio
import msgspec

from rehearsal_room.harness.chat.request_metrics import RequestObserver
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import AgentCall, Reply, Usage, Window
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.policies.base import Agent, Assignment
from tests.devtools.simulation.ledger import Ledger, Life
from tests.devtools.simulation.parts.choices import Choices

_SLOW_REPLY = 0.2  # share of the replies that take long
_FAILED_REPLY = 0.01


class SimulatedModel:
    """A policy whose agents play the oracle's calls, some not all. It implements
    harness.policies.base.OpenPolicy and, as if it were a server's, Observable."""

    name = "simulated"
    base_url = "http://simulated/v1"

    def __init__(
        self,
        process: Life,
        choices: Choices,
        ledger: Ledger,
        life: int,
        num_live: Callable[[], int],
    ) -> None:
        """`num_live`: the worlds that are leased now, in all processes."""
        self.process, self.choices, self.ledger = process, choices, ledger
        self.life = life
        self.observer: RequestObserver | None = None
        self._num_live = num_live

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing was opened."""

    def observe(self, observer: RequestObserver) -> None:
        self.observer = observer

    def statistics(self) -> dict[str, float]:
        return {}

    def agent(self, assignment: Assignment) -> Agent:
        if self.observer is None:
            self.ledger.saw_live(self.process, self._num_live())
        return _SimulatedAgent(self, assignment)


class _SimulatedAgent:
    def __init__(self, model: SimulatedModel, assignment: Assignment) -> None:
        self._model = model
        self._episode = assignment.episode
        self._replies = replies_of(assignment)
        self._turn = sum(isinstance(kept, StepTaken) for kept in assignment.kept)

    async def reply(self, window: Window) -> Reply:
        model, turn = self._model, self._turn
        if not model.process.is_dead:
            model.ledger.asked.append((model.life, self._episode, turn))
        self._observe("asked")
        seconds = 0.05 + model.choices.amount("slow_reply", 5.0, rate=_SLOW_REPLY)
        with model.ledger.asking(model.process, model.life):
            await anyio.sleep(seconds)
        if model.choices.option("failed_reply", 2, rate=_FAILED_REPLY):
            self._observe("failed")
            raise PolicyError("the simulated model failed")
        self._observe("replied", seconds)
        self._turn += 1
        if not model.process.is_dead:
            model.ledger.answered.append((model.life, self._episode, turn))
        return _with_tokens(self._replies[min(turn, len(self._replies) - 1)], window, turn)

    def _observe(self, what: str, *values: Any) -> None:
        if self._model.observer is not None:
            getattr(self._model.observer, what)(*values)


def _with_tokens(reply: Reply, window: Window, turn: int) -> Reply:
    """The reply with tokens, so that it can be trained. Its prompt stands for what was shown."""
    shown = blake2b(msgspec.json.encode(window.messages), digest_size=8).digest()
    return msgspec.structs.replace(
        reply,
        prompt_ids=encode_ids(list(shown)),
        token_ids=encode_ids([turn, len(reply.calls)]),
        logprobs=encode_logprobs([-0.25, -0.5]),
        weights="v1",
    )


def replies_of(assignment: Assignment) -> list[Reply]:
    """The moves of an episode: the oracle's calls, for every third one call fewer."""
    task = assignment.task
    calls = task.oracle[: len(task.oracle) - (int(assignment.episode[1:]) % 3 == 2)]
    replies = [
        Reply("", (AgentCall(call.name, dict(call.arguments), f"c{n}"),), "tool_calls", Usage())
        for n, call in enumerate(calls)
    ]
    return [*replies, Reply(task.answer or "Done.")]
