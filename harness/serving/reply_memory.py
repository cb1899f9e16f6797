"""The earlier replies of a served model, in the conversations that its clients store.

A client has the text and the calls of a reply, not the sampled ids and, for a text dialect, not the
exact text either. A reply is found again by a key of its position: a hash of the conversation up to
it, in which the ids of calls were made by the server and are unique.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from rehearsal_room.harness.core.messages import AgentCall


class RememberedReply(msgspec.Struct, frozen=True, gc=False):
    """A reply as the model wrote it: its exact text and calls, and the sampled ids."""

    text: str
    calls: tuple[AgentCall, ...]
    token_ids: tuple[int, ...]


class ReplyMemory:
    """The replies of the model, by the key of their position. The oldest is forgotten first."""

    def __init__(self, max_replies: int = 16_384) -> None:
        self._max_replies = max_replies
        self._replies: dict[bytes, RememberedReply] = {}

    def __len__(self) -> int:
        return len(self._replies)

    def remember(self, key: bytes, reply: RememberedReply) -> None:
        """Store a reply under the key of its position."""
        self._replies.pop(key, None)
        while len(self._replies) >= self._max_replies:
            del self._replies[next(iter(self._replies))]
        self._replies[key] = reply

    def recall(self, key: bytes) -> RememberedReply | None:
        """The reply at a position; None: it is not known."""
        return self._replies.get(key)


def identity_of(text: str, calls: Sequence[AgentCall]) -> bytes:
    """What identifies a reply in its conversation: the ids of its calls, else its text."""
    return msgspec.json.encode([call.id for call in calls] if calls else text)


def next_key(key: bytes, content: bytes) -> bytes:
    """The key of the position after `content`, which follows the position of `key`; an empty
    `key` is the beginning of every conversation."""
    return blake2b(content, key=key, digest_size=16).digest()
