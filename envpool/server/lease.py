"""A world that is leased to a client: its calls, one at a time, and the state that the client
expects here. This module does not depend on HTTP."""

import secrets
import time
from collections import OrderedDict

import anyio
import msgspec
from msgspec import Raw, structs

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.remote_states import CallOutcome, Snapshot
from rehearsal_room.envpool.core.talks import TALK, LeasedTalk
from rehearsal_room.envpool.core.types import Env, StoredState, ToolResult
from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.api import NewWorld, WorldStatus
from rehearsal_room.envpool.server.jsonrpc import INVALID_JSON, CallExtension, RpcError
from rehearsal_room.envpool.server.mcp_methods import CallAnswer, McpMethods
from rehearsal_room.envpool.server.signed_states import SignedState
from rehearsal_room.envpool.server.state_transfer import StateTransfer, transfer_of
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Task

_FOREIGN_STATE = (
    "This server did not make the state that was sent. If it made it before a restart: start it "
    "with --state-key FILE, so that its states stay valid."
)
_REMEMBERED = 8  # call ids whose results a world remembers
_pack = msgspec.msgpack.Encoder().encode
_read_snapshot = msgspec.msgpack.Decoder(Snapshot).decode


class RecordedCall(msgspec.Struct, frozen=True, gc=False):
    """One call of a leased world, as an episode has it."""

    name: str
    arguments: object  # as the client sent them, decoded
    result: ToolResult
    seconds: float = 0.0  # in the world


class Family:
    """A leased world and its forks: the pool's lease ends when the last of them is released."""

    def __init__(self) -> None:
        self.size = 1
        self.ended = anyio.Event()

    def join(self) -> None:
        """Count one world more."""
        self.size += 1

    def leave(self) -> None:
        """Count one world less."""
        self.size -= 1
        if not self.size:
            self.ended.set()


class LeaseOrigin(msgspec.Struct, frozen=True):
    """Which states a leased world may be put in."""

    scenario: str  # the digest of its package
    start: Snapshot | None  # the state in which it was leased; None: states cannot be transferred
    key: bytes  # that signs the states of this server


class ClientLease:
    """A world that is leased to a client."""

    def __init__(
        self,
        new: NewWorld,
        client: str,
        env: Env,
        *,
        owner: int | None,
        mcp: McpMethods,
        family: Family,
        origin: LeaseOrigin,
        talk: LeasedTalk | None = None,
    ) -> None:
        self.id = secrets.token_urlsafe(24)  # 192 random bits: it cannot be guessed
        self.new = new
        self.client = client
        self.owner = owner  # the number of the token that it was leased with; None: without tokens
        self.mcp = mcp
        self.family = family
        self.origin = origin
        self.talk = talk  # with the user of a dialogue; None: its task is none
        self.num_calls = 0
        self.recorded: list[RecordedCall] | None = None  # None: calls are not recorded
        self.used_at = anyio.current_time()
        self.busy = False
        self.released = False
        self._env = env
        self._lock = anyio.Lock(fast_acquire=True)
        self._answered: OrderedDict[str, CallAnswer] = OrderedDict()
        self._transfer = transfer_of(env)
        # The state that our own client expects here: the number of its world and its version, and
        # the state itself. None: unknown, since another client has called.
        self._holds: tuple[int, int] | None = None
        self._known: SignedState | None = None

    def __repr__(self) -> str:
        return f"<ClientLease of {self.new.scenario!r} [{self.num_calls} calls]>"

    def sibling(self, env: Env, client: str) -> "ClientLease":
        """The lease of a fork of this world."""
        return ClientLease(
            self.new,
            client,
            env,
            owner=self.owner,
            mcp=self.mcp,
            family=self.family,
            origin=self.origin,
            talk=None if self.talk is None else self.talk.fork(),
        )

    def status(self) -> WorldStatus:
        """Its status for the API."""
        idle_s = 0.0 if self.busy else anyio.current_time() - self.used_at
        return WorldStatus(
            self.id,
            self.new.scenario,
            self.new.task,
            self.new.seed,
            self.num_calls,
            self._env.digest,
            self._env.start_digest,
            round(idle_s, 3),
        )

    async def call(self, name: str, arguments: Raw, extension: CallExtension | None) -> CallAnswer:
        """Execute one call, or answer it from memory. Raises RpcError."""
        async with self._lock:
            if self.released:
                raise RpcError(m.BROKEN, "This world has been released.")
            if extension is not None and extension.id in self._answered:
                return self._answered[extension.id]
            self.busy = True
            try:
                answer = await self._execute(name, m.parse_value(arguments), extension)
            except PoolError as exc:
                raise RpcError(m.BROKEN, str(exc)) from exc
            finally:
                self.busy = False
                self.used_at = anyio.current_time()
            if extension is not None:
                self._answered[extension.id] = answer
                if len(self._answered) > _REMEMBERED:
                    self._answered.popitem(last=False)
            return answer

    async def execute(self, name: str, arguments: object) -> ToolResult:
        """Execute one call of a client that holds no state. Raises PoolError."""
        async with self._lock:
            self._check_live()
            self.busy = True
            try:
                return await self._run(name, arguments)
            finally:
                self.busy = False
                self.used_at = anyio.current_time()

    async def finish(self, task: Task, answer: str) -> tuple[StoredState, tuple[Finding, ...]]:
        """The state now, and the findings that only the live world can give (see Env.check). Raises
        PoolError."""
        async with self._lock:
            self._check_live()
            checked = await self._env.check(task, answer)
            self.used_at = anyio.current_time()
            return self._env.state(), checked

    @property
    def start_digest(self) -> str:
        """The digest of the state in which it was leased."""
        return self._env.start_digest

    def _check_live(self) -> None:
        if self.released:
            raise PoolError("This world has been released.")

    async def reset(self) -> None:
        """Return to the start."""
        async with self._lock:
            self._holds = None
            self._answered.clear()
            if self.recorded is not None:
                self.recorded.clear()
            self.used_at = anyio.current_time()
            self._env.reset()
            if self.talk is not None:
                self.talk.reset()

    async def fork(self) -> Env:
        """A second world that continues from here."""
        async with self._lock:
            self.used_at = anyio.current_time()
            return self._env.fork()

    async def end(self) -> None:
        """Refuse further calls, after the running one is done."""
        async with self._lock:
            self.released = True

    async def _execute(
        self, name: str, arguments: object, extension: CallExtension | None
    ) -> CallAnswer:
        needs_outcome = extension is not None and extension.world is not None
        if extension is not None and needs_outcome:
            self._prepare_state(extension)
        held = self._holds
        result = await self._run(name, arguments)
        if not needs_outcome or held is None:
            return CallAnswer(result.text, result.is_error)
        outcome = self._outcome(result)
        self._holds = (held[0], held[1] + 1)
        return CallAnswer(result.text, result.is_error, _pack(outcome))

    async def _run(self, name: str, arguments: object) -> ToolResult:
        self._holds = None
        self.num_calls += 1
        call_id = f"m{self.num_calls}"
        began = time.perf_counter()
        if self.talk is not None and name == TALK.name:
            result = await self.talk.say(self._env, arguments, call_id)
        else:
            result = await self._env.call(name, arguments, call_id)
        if self.recorded is not None:
            seconds = time.perf_counter() - began
            self.recorded.append(RecordedCall(name, arguments, result, seconds))
        return result

    def _outcome(self, result: ToolResult) -> CallOutcome:
        """The effect of the call that was just executed, for a client that holds the state."""
        assert self._transfer is not None and self._known is not None
        before = self._known.snapshot
        # The state of a world in this process does not count its calls; the client does.
        after = structs.replace(self._transfer.snapshot(), num_calls=before.num_calls + 1)
        self._known, pages = self._known.after(after)
        return CallOutcome(
            id=0,
            text="",  # the result has it already
            error=result.error,
            changes=result.changes,
            digest=result.digest,
            pages=pages,
            num_pages=after.num_pages,
            module_state=None if after.module_state == before.module_state else after.module_state,
            mac=self._known.mac,
        )

    def _prepare_state(self, extension: CallExtension) -> None:
        """Put the world in the state that the call needs. Raises RpcError."""
        assert extension.world is not None
        needed = (extension.world, extension.version)
        if self._transfer is None:
            raise RpcError(m.INVALID_PARAMS, "The state of this world cannot be transferred.")
        if extension.state is not None:
            self._holds = None
            self._known = self._restore(self._transfer, extension.state)
        elif needed != self._holds:
            raise RpcError(m.STALE, "This world is not in the state of this call.")
        self._holds = needed

    def _restore(self, transfer: StateTransfer, sent: bytes) -> SignedState:
        """Continue from a state that a client sent. Raises RpcError for a state that this server
        did not make, and StateError."""
        try:
            state = SignedState(
                _read_snapshot(sent), key=self.origin.key, scenario=self.origin.scenario
            )
        except (*INVALID_JSON, OverflowError) as exc:
            raise RpcError(m.INVALID_PARAMS, f"Invalid params: state: {exc}") from exc
        if state.snapshot != self.origin.start and not state.is_genuine():
            raise RpcError(m.INVALID_PARAMS, _FOREIGN_STATE)
        transfer.restore(state.snapshot)
        # The pages of the world now; they are compared by identity after the call.
        now = structs.replace(transfer.snapshot(), num_calls=state.snapshot.num_calls)
        return state.after(now)[0]
