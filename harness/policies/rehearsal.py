"""The outcome of a request that was sent before the run, for the episode that begins with it."""

import anyio
import msgspec

from rehearsal_room.harness.chat.retry import AttemptFailure
from rehearsal_room.harness.core.messages import Reply


class Rehearsal:
    """One request; `body` is that of its latest form. Its outcome is taken once."""

    __slots__ = ("_began", "_done", "_outcome", "_seconds", "body")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self._began = anyio.current_time()
        self._seconds = 0.0
        self._done = anyio.Event()
        self._outcome: Reply | AttemptFailure | None = None  # None: it is in flight

    def settle(self, outcome: Reply | AttemptFailure) -> None:
        """The request has ended."""
        self._outcome = outcome
        self._seconds = anyio.current_time() - self._began
        self._done.set()

    async def outcome(self) -> Reply | AttemptFailure:
        """Its outcome. A reply says how long it took before it was asked for here."""
        waited = anyio.current_time() - self._began
        await self._done.wait()
        outcome = self._outcome
        assert outcome is not None
        if isinstance(outcome, AttemptFailure):
            return outcome
        return msgspec.structs.replace(outcome, early_s=min(waited, self._seconds))
