"""One leased session of an OpenEnv environment."""

from typing import Any

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import ToolErrorKind, ToolSpec
from rehearsal_room.envpool.mcp.checks import verify_by_calls
from rehearsal_room.envpool.mcp.unknown_env import UnknownEnv
from rehearsal_room.envpool.mcp.unknown_pool import UnknownPool
from rehearsal_room.envpool.openenv.client import EnvRefused, EnvResult, EnvSession
from rehearsal_room.envpool.openenv.content import STEP, read_observation
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task

_ENDED = "The environment has ended the episode; give your final answer."


class OpenEnvWorld(UnknownEnv):
    """A leased session. It implements envpool.core.types.Env, as far as an environment can.

    A cancelled call leaves the world broken: its answer would be taken for that of the next call.
    """

    def __init__(
        self,
        pool: UnknownPool,
        url: str,
        scenario: Scenario,
        task: Task,
        session: EnvSession,
        start: EnvResult,
        tools: tuple[ToolSpec, ...],
    ) -> None:
        super().__init__(pool, f"the environment {url!r}", tools)
        self._scenario = scenario
        self._task = task
        self._session = session
        self._is_awm = "reward_type" in start.observation  # its tool `verify` gives the verdict
        self._restart = False  # the next call resets the session
        self._total = 0.0  # of the rewards so far
        self._is_done = start.done

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        """What the environment paid, and the checks of the task file."""
        self._raise_if_broken()
        own = await self._verdict(answer) if self._is_awm else self._paid()
        return (own, *await verify_by_calls(self, self._scenario, task, answer))

    def reset(self) -> None:
        """Return to the start: the next call resets the session."""
        self._answered.clear()
        self._total, self._is_done, self._restart = 0.0, False, True

    async def _execute(
        self, name: str, arguments: dict[str, Any]
    ) -> tuple[str, ToolErrorKind | None]:
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
        """The verdict of AWM's tool `verify`. Raises WorldError, also where the tool has none: it
        broke, or the server has no verifier."""
        action = {"type": "call_tool", "tool_name": "verify", "arguments": {"final_answer": answer}}
        try:
            observation = (await self._step(action)).observation
        except EnvRefused as exc:
            raise WorldError(f"verify failed: {exc}") from exc
        found = observation.get("reward_type")
        result = observation.get("verify_result")
        status = result.get("execution_status") if isinstance(result, dict) else None
        if status == "error" or not isinstance(found, str) or _is_of_server(found):
            text, _ = read_observation(observation)
            raise WorldError(f"verify gave no verdict ({found}): {text}")
        return Finding("verify", found == "complete", "complete", found, "goal")


def _is_of_server(kind: str) -> bool:
    """Whether a kind of reward says that there is no verdict on the agent.

    Example: "server_error" and "no_verifier" -> True; "agent_error" and "others" -> False
    """
    is_error = kind.endswith("_error") and kind not in ("agent_error", "format_error")
    return is_error or kind in ("no_verifier", "timeout")
