"""For which followers a publisher waits at the end of its run, and for how long.

A visitor keeps nothing: it is awaited until it leaves, is lost, or has been silent for `linger_s`.

A copy keeps what it gets, in a process that may be cut off, or killed and started again. It is
awaited until it says that it leaves. When it is lost or silent, it has `session_s` to come back,
and in any case `linger_s` from the end of the run. All lives of a copy are one follower here: a
later life takes the place of an earlier one, so what the broker says of the earlier one afterwards
(its last will, half a minute late) means nothing.
"""

import math

import msgspec

from rehearsal_room.harness.bus.mqtt_wire import Presence


class _Follower(msgspec.Struct):
    presence: Presence
    seen_at: float  # when it wrote last, or was lost
    is_lost: bool = False


class Awaited:
    """The followers for which a publisher waits. All times are on one clock, in seconds."""

    def __init__(self, *, linger_s: float, session_s: float) -> None:
        self._linger_s = linger_s
        self._session_s = session_s
        self._followers: dict[str, _Follower] = {}  # by the name of its client
        self._ended_at = math.inf

    def __len__(self) -> int:
        return len(self._followers)

    def __repr__(self) -> str:
        return f"<Awaited {len(self)} followers>"

    def end(self, now: float) -> None:
        """The run has ended: who comes for the first time more than `linger_s` later is served
        while the publisher is there, but not awaited."""
        self._ended_at = now

    def come(self, name: str, presence: Presence, now: float) -> bool:
        """A follower says that it is there. Returns whether it is awaited."""
        earlier = [other for other in self._lives_of(presence) if other != name]
        if any(self._followers[other].presence.life > presence.life for other in earlier):
            return False
        is_known = bool(earlier) or name in self._followers
        if not is_known and now > self._ended_at + self._linger_s:
            return False
        for other in earlier:
            del self._followers[other]
        self._followers[name] = _Follower(presence, now)
        return True

    def note_active(self, name: str, now: float) -> bool:
        """A client has requested something. Returns whether it is awaited."""
        follower = self._followers.get(name)
        if follower is None:
            return False
        follower.seen_at, follower.is_lost = now, False
        return True

    def leave(self, name: str) -> bool:
        """A follower says that it leaves. Returns whether it was awaited."""
        return self._followers.pop(name, None) is not None

    def lose(self, name: str, now: float) -> bool:
        """The broker says that a client is lost. Returns whether it was awaited."""
        follower = self._followers.get(name)
        if follower is None:
            return False
        if follower.presence.copy:
            follower.seen_at, follower.is_lost = now, True
        else:
            del self._followers[name]
        return True

    def until(self) -> float:
        """Until when the publisher waits, once the run has ended, if no follower says anything."""
        return max(map(self._until, self._followers.values()), default=-math.inf)

    def _until(self, follower: _Follower) -> float:
        at_least = self._ended_at + self._linger_s
        if not follower.presence.copy:
            return max(at_least, follower.seen_at + self._linger_s)
        patience_s = max(self._session_s, self._linger_s)
        since = follower.seen_at if follower.is_lost else max(follower.seen_at, self._ended_at)
        return max(at_least, since + patience_s)

    def _lives_of(self, presence: Presence) -> list[str]:
        """The names of the clients that this copy has had."""
        return [
            name
            for name, follower in self._followers.items()
            if presence.copy and follower.presence.copy == presence.copy
        ]
