"""What a served model wrote earlier in the conversations that its clients keep.

A client has a reply's text and calls, not the ids that were sampled and, of a dialect in text, not
the exact text either. It is found again by its place: the conversation up to there, in which the
ids of calls are ours and unique.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from harness.core.messages import AgentCall


class Said(msgspec.Struct, frozen=True, gc=False):
    """What the model wrote: its text and calls as it had them, and the ids that it sampled."""

    text: str
    calls: tuple[AgentCall, ...]
    token_ids: tuple[int, ...]


class Memory:
    """What the model wrote, by the place in its conversation. The oldest is forgotten first."""

    def __init__(self, most: int = 16_384) -> None:
        self._most = most
        self._said: dict[bytes, Said] = {}

    def __len__(self) -> int:
        return len(self._said)

    def keep(self, place: bytes, said: Said) -> None:
        """Remember it."""
        self._said.pop(place, None)
        while len(self._said) >= self._most:
            del self._said[next(iter(self._said))]
        self._said[place] = said

    def recall(self, place: bytes) -> Said | None:
        """What was said there; None: it is not known."""
        return self._said.get(place)


def identity_of(text: str, calls: Sequence[AgentCall]) -> bytes:
    """By what a reply is known again: its calls' ids, else its text."""
    return msgspec.json.encode([call.id for call in calls] if calls else text)


def place_after(before: bytes, what: bytes) -> bytes:
    """The place behind a reply of this identity; of no `before`, the beginning of a conversation
    that begins with this."""
    return blake2b(what, key=before, digest_size=16).digest()
