"""One leased session of an OpenEnv environment."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

from envpool.core.errors import PoolError, WorldError
from envpool.core.types import StoredState, ToolError, ToolResult, ToolSpec
from envpool.mcp.checks import verify_by_calls
from envpool.mcp.unknown_states import UNKNOWN
from envpool.openenv.client import EnvRefused, EnvResult, EnvSession
from envpool.openenv.content import STEP, read_observation
from scenarios.checks import Finding
from scenarios.format import Scenario, Task

_REMEMBERED = 8  # call ids whose results a lease remembers
_ENDED = "The environment has ended the episode; give your final answer."


class CallCounter(Protocol):
    """The pool, as its worlds see it."""

    url: str
    num_calls: int


class OpenEnvWorld:
    """A leased session. It implements envpool.core.types.Env, as far as an environment can.

    A cancelled call leaves the world broken: its answer would be taken for that of the next call.
    """

    awaits = True  # a call takes as long as the server does
    start_digest = ""
    digest = ""  # unknown

    def __init__(
        self,
        pool: CallCounter,
        scenario: Scenario,
        task: Task,
        session: EnvSession,
        start: EnvResult,
        tools: tuple[ToolSpec, ...],
    ) -> None:
        self._pool = pool
        self._scenario = scenario
        self._task = task
        self._session = session
        self._is_awm = "reward_type" in start.observation  # its tool `verify` gives the verdict
        self._tools = tools
        self._broken = ""  # why the world can no longer be used; empty: it is usable
        self._restart = False  # the next call resets the session
        self._total = 0.0  # of the rewards so far
        self._is_done = start.done
        self._answered: OrderedDict[str, ToolResult] = OrderedDict()

    def __repr__(self) -> str:
        return f"<OpenEnvWorld {self._pool.url!r} [{self._broken or 'live'}]>"

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the environment listed when the lease began."""
        return self._tools

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        self._raise_if_broken()
        if call_id in self._answered:
            return self._answered[call_id]
        self._pool.num_calls += 1
        text, error = await self._execute(name, arguments)
        result = self._answered[call_id] = ToolResult(text, error)
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return result

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        """What the environment paid, and the checks of the task file."""
        self._raise_if_broken()
        own = await self._verdict(answer) if self._is_awm else self._paid()
        return (own, *await verify_by_calls(self, self._scenario, task, answer))

    def state(self) -> StoredState:
        """Unknown. Raises WorldError when the world is broken."""
        self._raise_if_broken()
        return UNKNOWN

    def fork(self) -> "OpenEnvWorld":
        """Not available: raises WorldError."""
        raise WorldError(
            f"a world of the environment {self._pool.url!r} cannot be forked: its state is unknown"
        )

    def reset(self) -> None:
        """Return to the start: the next call resets the session."""
        self._answered.clear()
        self._total, self._is_done, self._restart = 0.0, False, True

    def _raise_if_broken(self) -> None:
        if self._broken:
            raise WorldError(self._broken)

    async def _execute(self, name: str, arguments: Any) -> tuple[str, ToolError | None]:
        if all(tool.name != name for tool in self._tools):
            known = ", ".join(tool.name for tool in self._tools)
            return f"There is no tool {name!r}. Tools: {known}.", "unknown_tool"
        if not isinstance(arguments, dict):
            found = "null" if arguments is None else f"a {type(arguments).__name__}"
            return f"{name}: expected an object of arguments, got {found}.", "arguments"
        if self._is_done:
            return _ENDED, "refused"
        try:
            result = await self._step(self._action(name, arguments))
        except EnvRefused as exc:
            return str(exc), "arguments" if exc.code == "VALIDATION_ERROR" else "internal"
        text, error = read_observation(result.observation)
        return (f"{text}\n{_ENDED}" if result.done else text), error

    def _action(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if name == STEP and len(self._tools) == 1:
            return arguments
        return {"type": "call_tool", "tool_name": name, "arguments": arguments}

    async def _step(self, action: dict[str, Any]) -> EnvResult:
        """The result of a step, whose reward is added. Raises EnvRefused, and WorldError where the
        connection is lost."""
        try:
            if self._restart:
                assert self._scenario.foreign is not None and self._scenario.foreign.resets
                await self._session.reset(self._scenario.foreign.resets[self._task.id])
                self._restart = False
            result = await self._session.step(action)
        except EnvRefused:
            raise
        except PoolError as exc:
            self._broken = str(exc)
            raise WorldError(self._broken) from exc
        except BaseException:
            self._broken = "a call was stopped before the environment had answered it"
            raise
        self._total += result.reward or 0.0
        self._is_done = result.done
        return result

    def _paid(self) -> Finding:
        assert self._scenario.foreign is not None and self._scenario.foreign.rewards is not None
        needed = self._scenario.foreign.rewards[self._task.id]
        return Finding(
            "rewards of the environment",
            self._total >= needed - 1e-9,
            f"at least {needed:g} in all",
            f"{self._total:g}",
            "goal",
        )

    async def _verdict(self, answer: str) -> Finding:
        """The verdict of AWM's tool `verify`. Raises WorldError."""
        action = {"type": "call_tool", "tool_name": "verify", "arguments": {"final_answer": answer}}
        try:
            found = (await self._step(action)).observation.get("reward_type")
        except EnvRefused as exc:
            found = f"error: {exc}"
        return Finding("verify", found == "complete", "complete", str(found), "goal")
