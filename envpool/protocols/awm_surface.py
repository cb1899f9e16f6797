"""One OpenEnv episode as AgentWorldModel's environment shows it (`agent_world_model_env`): what
`reset` and `step` return, field by field.

Fields that are None are left out of an observation: clients choose by the keys that exist. Rewards:
what `verify` finds has the judge's reward, an unreadable action -1, all else 0; `reward_config` of
`reset` replaces these. AWM's clients name the `scenario` in `reset`. For clients that do not,
the observation of a call has OpenEnv's own fields, too: `result`, and `error` as {"error_type",
"message"} where the world did not execute the call. Where this server differs from AWM's own:

- the first `verify` is final, and its reward is given once: a later one repeats the verdict with
  reward 0 and a `warning`. Else an agent could try until it is paid, or be paid twice;
- `done` with `final_answer` judges, too, where nothing was verified: a client of OpenEnv needs no
  more than that;
- a tool that refuses has reward type `tool_refused` (reward 0): it is neither a tool that was not
  found nor a failure of the server;
- `reset` without any parameter begins the world's first task, and `seed` alone chooses one;
- there are no files (`trajectory_path`, `session_dir`).
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.talks import TALK
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.envpool.protocols.awm_results import (
    Payload,
    kind_of,
    payload,
    reward_config,
    shown_result,
    verify_result,
    worth,
)
from rehearsal_room.envpool.protocols.sessions import NotBegun, Session, SessionError, Sessions
from rehearsal_room.envpool.protocols.task_lists import BadTask, default_tasks, task_at, task_of
from rehearsal_room.envpool.server.leases import LeaseRefused
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.format import Scenario, Task

SPECIAL = ("verify", "done", "__list_scenarios__")
_HOW_TO_END = (
    "When the task is finished or must be declined, call the tool `done` with the argument "
    "final_answer, your answer in plain words; it ends the episode and gives its reward."
)


class AwmEpisodes:
    """The episodes of one session, one after the other. `mounted` is the world of its path."""

    def __init__(self, sessions: Sessions, session: Session, mounted: Scenario) -> None:
        self._sessions = sessions
        self._session = session
        self.mounted = mounted
        self._scenario = mounted
        self._task: Task | None = None
        self._instruction: str | None = None  # None: the episode has no task
        self._rewards: Mapping[str, float] | None = None  # None: the judge's own
        self._is_awm = False  # the client named the scenario, as AWM's clients do
        self._is_done = False
        self._was_paid = False
        self.episode_id: str | None = None  # None: none has begun
        self.step_count = 0

    @property
    def session(self) -> Session:
        """The session that holds the world."""
        return self._session

    def state(self) -> dict[str, Any]:
        """OpenEnv's state."""
        return {"episode_id": self.episode_id, "step_count": self.step_count}

    async def tools(self) -> tuple[ToolSpec, ...]:
        """The tools of the episode, before the first one those of the mounted world. Raises
        PoolError."""
        tools = await self._sessions.tools(self._scenario)
        task = self._task
        return (*tools, TALK) if task and isinstance(task.user, UserAutomaton) else tools

    # Reset ---------------------------------------------------------------------------------------

    async def reset(self, options: Mapping[str, Any]) -> Payload:
        """Begin an episode. Raises LeaseRefused where there are too many worlds."""
        await self._session.end()
        self._is_done = self._was_paid = False
        self._task = self._instruction = None
        try:
            self._choose(options)
            await self._session.begin(self._scenario, self._task, reserved=SPECIAL)
            tools = await self.tools()
        except (BadTask, PoolError, SessionError) as exc:
            return payload(None, reward_type="reset_error", error=str(exc))
        episode_id = options.get("episode_id")
        self.episode_id = episode_id if isinstance(episode_id, str) else str(uuid4())
        self.step_count = 0
        return payload(
            None,
            metadata=self._metadata(tools),
            reward_type="reset_ok",
            scenario=self._scenario.name,
            task=self._instruction,
            task_idx=self._task_idx,
            has_verifier=self._has_verifier,
            num_tools=len(tools),
        )

    def _choose(self, options: Mapping[str, Any]) -> None:
        """Choose world, task and rewards. Raises BadTask."""
        name = options.get("scenario")
        if not isinstance(name, str | None):
            raise BadTask("scenario: expected the name of a world")
        served = self._sessions.leases.scenarios
        found = self.mounted if not name else served.get(name)
        if found is None:
            raise BadTask(f"Scenario {name!r} not found; this server has {', '.join(served)}")
        self._scenario = found
        self._is_awm = bool(name)
        self._rewards = reward_config(options.get("reward_config"))
        self._task = _task_in(found, options, has_scenario=bool(name))
        text = options.get("task")
        own = text if isinstance(text, str) else None
        self._instruction = own if own or self._task is None else self._task.instruction

    @property
    def _task_idx(self) -> int | None:
        return None if self._task is None else self._scenario.tasks.index(self._task)

    @property
    def _has_verifier(self) -> dict[str, bool] | None:
        task, awm = self._task, self._scenario.awm
        if task is None:
            return None
        if awm is None:
            return {"sql": False, "code": True}
        known = awm.verifiers.get(task.id)
        has = {"sql": bool(known and known.sql), "code": bool(known and known.code)}
        return has if any(has.values()) else None

    def _metadata(self, tools: tuple[ToolSpec, ...]) -> dict[str, Any]:
        """What is not among AWM's fields: the prompt of a task, and how to end it."""
        if self._task is None:
            return {}
        opening = self._sessions.episodes.opening(self._scenario, self._task, tools)
        return {
            "task_id": self._task.id,
            "scenario_digest": self._scenario.digest,
            "messages": [{"role": one.role, "content": one.text} for one in opening],
            "how_to_end": _HOW_TO_END,
        }

    # Steps ---------------------------------------------------------------------------------------

    async def list_tools(self) -> Payload:
        """The step `list_tools`."""
        if (ended := self._after_end()) is not None:
            return ended
        self.step_count += 1
        listed = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in await self.tools()
        ]
        return payload(None, tools=listed)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Payload:
        """The step `call_tool`: a tool of the world, or a special one."""
        if (ended := self._after_end()) is not None:
            return ended
        self.step_count += 1
        match name:
            case "verify":
                return await self._verify(arguments)
            case "done":
                return await self._done(arguments)
            case "__list_scenarios__":
                return self._listed_scenarios()
        if self._session.verdict is not None:
            return self._judged_already(name)
        try:
            result = await self._session.call(name, arguments)
        except (SessionError, PoolError) as exc:
            return self._failure(exc)
        return self._called(name, result)

    def _after_end(self) -> Payload | None:
        """The answer to a step after the end of the episode."""
        if not self._is_done:
            return None
        return payload(
            None,
            done=True,
            reward_type="episode_already_done",
            error="Episode has ended. Call reset() to start a new episode.",
        )

    def _judged_already(self, name: str) -> Payload:
        """The answer to a call after the verdict, which is final."""
        why = "The episode is verified and takes no more calls: call done, or reset()."
        error = why if self._is_awm else {"error_type": "execution_error", "message": why}
        return payload(None, reward_type="episode_already_done", tool_name=name, error=error)

    def _called(self, name: str, result: ToolResult) -> Payload:
        kind, shown = shown_result(result, is_awm=self._is_awm)
        return self._paid(kind, tool_name=name, **shown)

    def _failure(self, exc: Exception, **fields: Any) -> Payload:
        """A step that failed for a reason of the server's. The episode is over where it had begun:
        its world broke, or it was idle for too long."""
        is_lost = self.episode_id is not None and not isinstance(exc, LeaseRefused)
        self._is_done = is_lost
        hint = "" if is_lost else ": call reset() first"
        return self._paid("server_error", done=is_lost, error=f"{exc}{hint}", **fields)

    async def _verify(self, arguments: Mapping[str, Any]) -> Payload:
        if self._session.lease is None:
            why = NotBegun("Cannot verify: no episode is live")
            return self._failure(why)
        if self._task is None:
            return self._paid("no_verifier", error="Cannot verify: no task specified at reset")
        mode = arguments.get("verifier_mode", "code")
        if mode not in ("code", "sql"):
            why_not = f"Invalid verifier_mode {mode!r}. Must be one of: code, sql"
            return self._paid("invalid_args", error=why_not)
        about = self._about()
        if not (self._has_verifier or {}).get(mode):
            error = f"No {mode} verifier available for this task"
            return self._paid("no_verifier", error=error, **about)
        return await self._judged(arguments.get("final_answer"), **about)

    async def _done(self, arguments: Mapping[str, Any]) -> Payload:
        answer = arguments.get("final_answer")
        if self._session.lease is None:
            self._is_done = True
            error = "Cannot call done: no episode is live"
            return self._paid("server_error", done=True, error=error)
        about = {**self._about(), "steps_taken": self.step_count}
        if arguments.get("keep_session"):
            about["warning"] = "keep_session: this server keeps no files of an episode"
        if answer is not None and self._task is not None and not self._was_paid:
            ended = await self._judged(answer, done=True, **about)
        else:
            ended = self._paid("episode_done", done=True, **about)
        self._is_done = True
        await self._session.end()
        return ended

    async def _judged(self, answer: Any, *, done: bool = False, **about: Any) -> Payload:
        """The judge's verdict, with its reward where that was not given before."""
        try:
            verdict = await self._session.judge(
                "openenv", answer if isinstance(answer, str) else ""
            )
        except (SessionError, PoolError) as exc:
            return self._failure(exc, **about)
        kind = kind_of(verdict)
        about.setdefault("steps_taken", self.step_count)
        if self._was_paid:
            reward = 0.0
            about["warning"] = "this episode was verified before, and its reward was given then"
        elif self._rewards is None and verdict.reward is not None:
            reward = verdict.reward
        else:
            reward = worth(kind, self._rewards)
        self._was_paid = True
        return payload(
            reward, done=done, reward_type=kind, verify_result=verify_result(verdict), **about
        )

    def _listed_scenarios(self) -> Payload:
        listed = [
            {"name": one.name, "description": one.description, "num_tasks": len(one.tasks)}
            for one in self._sessions.leases.scenarios.values()
        ]
        return payload(None, reward_type="tool_call_ok", scenarios=listed, total=len(listed))

    def _about(self) -> dict[str, Any]:
        return {
            "scenario": self._scenario.name,
            "task": self._instruction,
            "task_idx": self._task_idx,
        }

    def _paid(self, kind: str, *, done: bool = False, **fields: Any) -> Payload:
        return payload(worth(kind, self._rewards), done=done, reward_type=kind, **fields)


def _task_in(scenario: Scenario, options: Mapping[str, Any], *, has_scenario: bool) -> Task | None:
    """The task that the options of `reset` choose; None: none. Raises BadTask."""
    index, seed = options.get("task_idx"), options.get("seed")
    if index is not None:
        if not isinstance(index, int) or isinstance(index, bool):
            raise BadTask(f"task_idx: expected a whole number, got {type(index).__name__}")
        return task_at(scenario, index)
    if options.get("task_id") is not None:
        return task_of(scenario, {"id": options["task_id"]})
    usual = default_tasks(scenario)
    if options.get("task") is not None or not usual:
        return None
    if isinstance(seed, int) and not isinstance(seed, bool):
        return usual[seed % len(usual)]
    return None if has_scenario else usual[0]
