"""A world that is leased out: its calls, one at a time, and the state that a client believes to be
here. Nothing here knows HTTP."""

import secrets
from collections import OrderedDict

import anyio
import msgspec
from msgspec import Raw

from envpool.core.errors import PoolError
from envpool.core.host_answers import Answer, Snapshot
from envpool.core.types import Env
from envpool.server import jsonrpc as m
from envpool.server.api import NewWorld, WorldNow
from envpool.server.jsonrpc import Asked, Fault
from envpool.server.mcp import Called, Face
from envpool.server.state_transfer import mover_of

_REMEMBERED = 8  # call ids whose results a world still knows
_pack = msgspec.msgpack.Encoder().encode
_read_snapshot = msgspec.msgpack.Decoder(Snapshot).decode


class Family:
    """A leased world and its forks: the pool has them back when the last of them is released."""

    def __init__(self) -> None:
        self.size = 1
        self.over = anyio.Event()

    def join(self) -> None:
        """One more."""
        self.size += 1

    def leave(self) -> None:
        """One less."""
        self.size -= 1
        if not self.size:
            self.over.set()


class Lease:
    """A world that is leased out."""

    def __init__(self, new: NewWorld, client: str, env: Env, face: Face, family: Family) -> None:
        self.id = secrets.token_urlsafe(16)
        self.new = new
        self.client = client
        self.face = face
        self.family = family
        self.num_calls = 0
        self.used_at = anyio.current_time()
        self.busy = False
        self.gone = False
        self._env = env
        self._lock = anyio.Lock(fast_acquire=True)
        self._answered: OrderedDict[str, Called] = OrderedDict()
        self._mover = mover_of(env)
        # The state that our own client believes to be here: its world, its version, and what it
        # has of pages and module state. None: somebody else has called since.
        self._at: tuple[int, int] | None = None
        self._known = Snapshot({}, 0, "")

    def __repr__(self) -> str:
        return f"<Lease of {self.new.scenario!r} [{self.num_calls} calls]>"

    def now(self) -> WorldNow:
        """How it stands."""
        idle_s = 0.0 if self.busy else anyio.current_time() - self.used_at
        return WorldNow(
            self.id,
            self.new.scenario,
            self.new.task,
            self.new.seed,
            self.num_calls,
            self._env.digest,
            self._env.start_digest,
            round(idle_s, 3),
        )

    async def call(self, name: str, arguments: Raw, asked: Asked | None) -> Called:
        """Execute one call, or answer it from memory. Raises Fault."""
        async with self._lock:
            if self.gone:
                raise Fault(m.BROKEN, "This world has been given back.")
            if asked is not None and asked.id in self._answered:
                return self._answered[asked.id]
            self.busy = True
            try:
                called = await self._called(name, m.value_of(arguments), asked)
            except PoolError as exc:
                raise Fault(m.BROKEN, str(exc)) from exc
            finally:
                self.busy = False
                self.used_at = anyio.current_time()
            if asked is not None:
                self._answered[asked.id] = called
                if len(self._answered) > _REMEMBERED:
                    self._answered.popitem(last=False)
            return called

    async def reset(self) -> None:
        """Back to the start."""
        async with self._lock:
            self._at = None
            self._answered.clear()
            self.used_at = anyio.current_time()
            self._env.reset()

    async def fork(self) -> Env:
        """A second world that goes on from here."""
        async with self._lock:
            self.used_at = anyio.current_time()
            return self._env.fork()

    async def end(self) -> None:
        """Let no more calls in, once the one that runs is done."""
        async with self._lock:
            self.gone = True

    async def _called(self, name: str, arguments: object, asked: Asked | None) -> Called:
        outcome = asked is not None and asked.world is not None
        if asked is not None and outcome:
            self._bring(asked)
        at, self._at = self._at, None
        self.num_calls += 1
        result = await self._env.call(name, arguments, f"m{self.num_calls}")
        if not outcome or at is None:
            return Called(result.text, result.is_error)
        assert self._mover is not None
        before, self._known = self._known, self._mover.snapshot()
        after = self._known
        self._at = (at[0], at[1] + 1)
        answer = Answer(
            id=0,
            text="",  # which the result bears already
            error=result.error,
            changes=result.changes,
            digest=result.digest,
            pages={n: p for n, p in after.pages.items() if before.pages.get(n) is not p},
            num_pages=after.num_pages,
            memory=None if after.memory == before.memory else after.memory,
        )
        return Called(result.text, result.is_error, _pack(answer))

    def _bring(self, asked: Asked) -> None:
        """Have the world in the state for which the call is meant. Raises Fault."""
        assert asked.world is not None
        at = (asked.world, asked.version)
        if self._mover is None:
            raise Fault(m.INVALID_PARAMS, "The state of this world cannot be carried elsewhere.")
        if asked.state is not None:
            try:
                snapshot = _read_snapshot(asked.state)
            except msgspec.MsgspecError as exc:
                raise Fault(m.INVALID_PARAMS, f"Invalid params: state: {exc}") from exc
            self._mover.restore(snapshot)
            self._known = self._mover.snapshot()
        elif at != self._at:
            raise Fault(m.STALE, "This world is in another state than the call is meant for.")
        self._at = at
