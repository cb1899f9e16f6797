"""Runs of one episode that the viewer plays itself: a task's solution, and a person's play.

Both are `launch` in a thread with an event loop of its own: the same loop, log and judge as those
of `rehearse run`.
"""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.from_thread
import anyio.to_thread
import msgspec
import structlog

from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.messages import Briefing
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.launch import launch
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.harness.policies.human import HumanExchange, HumanPolicy
from rehearsal_room.harness.settings.run import Settings, resolve
from rehearsal_room.harness.setup.parts import OpenJudge
from rehearsal_room.harness.setup.run_folder import fresh_folder
from rehearsal_room.judge.verdicts.opener import judge_opener
from rehearsal_room.viewer.acting.shown import played_calls
from rehearsal_room.viewer.reading.episode import tools_of
from rehearsal_room.viewer.reading.open_runs import NotHereError

_MAX_STEPS = 200  # a person looks around more than a model
_ERROR_PREFIX = "Error: "  # see harness.dialects.base.result_text
_log = structlog.get_logger(__name__)


def solution(name: str, isolate: bool) -> tuple[Trajectory, list[float], ScenarioSnapshot]:
    """The episode in which the oracle plays a task, given as SCENARIO:TASK, with the times of its
    turns. `isolate`: its world runs in workers. It is logged in a folder that is removed. Raises as
    `launch` does."""
    flags = {"scenarios": (name,), "policy": "oracle", "dialogue": True, "isolate": isolate}
    settings = resolve(None, flags)
    settings = msgspec.structs.replace(settings, episodes=1)
    with own_folder("view") as temporary:
        folder = temporary / "run"
        launch(settings, folder, resume=False, open_judge=judge_opener(settings), progress=False)
        with open_reader(folder) as reader:
            row = reader.episodes()[0]
            trajectory = reader.trajectory(row.episode)
            times = reader.turn_times(row.episode, row.attempt)
            return trajectory, times, reader.scenarios()[trajectory.started.scenario_digest]


class BrowserPlay:
    """One task that a person plays in the browser."""

    def __init__(self, name: str, settings: Settings, folder: Path) -> None:
        self.name, self.folder = name, folder
        self._settings = settings
        self._exchange: HumanExchange | None = None
        self._portal: anyio.from_thread.BlockingPortal | None = None
        self._briefing: Briefing | None = None
        self._began = threading.Event()
        self.is_over = False
        self.failure: Exception | None = None

    async def run(self, open_judge: OpenJudge | None) -> None:
        """Play until the person answers or leaves."""
        try:
            await anyio.to_thread.run_sync(
                self._launch, open_judge, limiter=anyio.CapacityLimiter(1)
            )
        except Exception as exc:
            self.failure = exc
            _log.warning("play_failed", task=self.name, why=str(exc))
        finally:
            self.is_over = True
            self._portal = None
            self._began.set()

    async def described(self) -> dict[str, Any]:
        """The task, the calls so far, and whether it is over. Raises what ended it."""
        await anyio.to_thread.run_sync(self._began.wait, abandon_on_cancel=True)
        briefing = self._briefing
        if briefing is None or self._exchange is None:
            raise self.failure or SettingsError("play: the episode did not start")
        return {
            "task": self.name,
            "instruction": briefing.instruction,
            "rules": briefing.rules,
            "user": briefing.user,
            "now": briefing.now,
            "is_dialogue": briefing.is_dialogue,
            "tools": tools_of(briefing.tools),
            "calls": played_calls(self._exchange.calls, _ERROR_PREFIX),
            "ended": self.is_over or self._exchange.over,
        }

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Make a call. Raises SettingsError where the episode is over."""
        made = await self._ask("call", tool, arguments)
        if made is None:
            return {"text": "", "is_error": False, "ended": True}
        return {
            "text": made.text,
            "is_error": made.text.startswith(_ERROR_PREFIX),
            "ended": False,
        }

    async def answer(self, text: str) -> dict[str, Any]:
        """Give the final answer, or say something to the user of a dialogue. Raises
        SettingsError."""
        heard = await self._ask("answer", text)
        return {"user": heard, "ended": heard is None}

    async def leave(self) -> None:
        """End the episode without an answer."""
        if self._portal is not None and self._exchange is not None:
            await anyio.to_thread.run_sync(self._portal.call, self._exchange.leave)

    async def _ask(self, method: str, *arguments: Any) -> Any:
        portal, exchange = self._portal, self._exchange
        if portal is None or exchange is None or exchange.over:
            raise SettingsError("play: the episode is over")
        function = getattr(exchange, method)
        try:
            return await anyio.to_thread.run_sync(partial(portal.call, function, *arguments))
        except ValueError as exc:
            raise SettingsError(f"play: {exc}") from exc

    def _launch(self, open_judge: OpenJudge | None) -> None:
        settings = self._settings
        exchange = HumanExchange(dialect_of(settings.dialect))
        policy = HumanPolicy(exchange, self._surface)

        async def finish(pool: Any, meters: Any) -> None:
            exchange.finish()

        launch(
            settings,
            self.folder,
            resume=False,
            open_judge=open_judge,
            policy=policy,
            after=finish,
            progress=False,
        )

    async def _surface(self, exchange: HumanExchange) -> None:
        async with anyio.from_thread.BlockingPortal() as portal:
            self._exchange = exchange
            self._briefing = await exchange.started()
            self._portal = portal
            self._began.set()
            await exchange.finished()


class Plays:
    """The tasks that are played, by their ids."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._plays: dict[str, BrowserPlay] = {}

    def start(self, source: str, task: str, *, isolate: bool) -> str:
        """Begin to play a task, its world in workers if it is to be isolated; returns its id.
        Raises SettingsError."""
        name = f"{source}:{task}"
        settings = human_settings(name, isolate=isolate)
        folder = fresh_folder(settings).absolute()
        play = BrowserPlay(name, settings, folder)
        key = f"{folder.name}-{len(self._plays)}"
        self._plays[key] = play
        self._group.start_soon(play.run, judge_opener(settings))
        return key

    def get(self, name: str) -> BrowserPlay:
        """The play of an id. Raises NotHereError."""
        if name not in self._plays:
            raise NotHereError(f"there is no play {name!r} here")
        return self._plays[name]

    async def leave_all(self) -> None:
        """End all of them: the server closes."""
        for play in self._plays.values():
            await play.leave()


def human_settings(name: str, *, isolate: bool) -> Settings:
    """The settings of one episode that a person plays; `isolate`: its world runs in workers."""
    settings = resolve(None, {"scenarios": (name,), "dialogue": True, "isolate": isolate})
    limits = msgspec.structs.replace(
        settings.limits, reply_timeout=None, time_limit=None, max_steps=_MAX_STEPS
    )
    policy = msgspec.structs.replace(settings.policy, name="human")
    return msgspec.structs.replace(settings, limits=limits, policy=policy, episodes=1)
