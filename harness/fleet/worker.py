"""A rollout process: plays the episodes that the coordinator assigns to it, with a loop and a pool
of its own, and streams their records back. It writes no file of the run.

It has the parts of a run that this process plays, and where the judge asks no models the judge. In
place of a log it has a stream to the coordinator. It ends when the coordinator closes the
connection.
"""

import os
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec

from rehearsal_room.harness.agents.opening import opened_agent
from rehearsal_room.harness.bus.local import LocalBus
from rehearsal_room.harness.chaos.chaos import Chaos
from rehearsal_room.harness.chaos.settings import ChaosFile
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.continuation.resumed_turns import KeptTurns, open_resumed_turns
from rehearsal_room.harness.core.events import encode
from rehearsal_room.harness.core.loop_lag import LagMonitor
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.fleet.admission import REPORT_S, RequestLog
from rehearsal_room.harness.fleet.carried import CarriedAttempts
from rehearsal_room.harness.fleet.connection import FrameConnection
from rehearsal_room.harness.fleet.faults import failed_of
from rehearsal_room.harness.fleet.fork_server import leave_signals_to_coordinator
from rehearsal_room.harness.fleet.messages import (
    AdmissionShare,
    EpisodeAssignment,
    EpisodeAssignments,
    Heartbeat,
    Measured,
    ProcessReady,
    SendWorlds,
    Stop,
    Stored,
    WorldSnapshots,
    to_worker,
)
from rehearsal_room.harness.fleet.stream import StreamSink
from rehearsal_room.harness.fleet.transport import Transport
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.policies.base import Observable, OpenPolicy
from rehearsal_room.harness.rollout.episode import RunContext
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.rollout.remaining import scenarios_of
from rehearsal_room.harness.rollout.running import attended
from rehearsal_room.harness.rollout.session import (
    RunParts,
    context_of,
    play,
    snapshot_of,
    sole_exception,
)
from rehearsal_room.harness.rollout.slots import Slots
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.parts import OpenJudge, make_parts
from rehearsal_room.harness.setup.trust_notice import name_trusted
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.harness.users.opening import users_of
from rehearsal_room.scenarios import distribution
from rehearsal_room.scenarios.format import Scenario, Task

PlayOne = Callable[[EpisodeAssignment], Coroutine[Any, Any, None]]  # plays one assigned episode
HEARTBEAT_S = 0.5  # seconds between two heartbeats


class WorkerSpec(msgspec.Struct, frozen=True):
    """What a rollout process plays with. `settings` have this process's share of the run's."""

    settings: Settings
    # Of the run; its log is read for the turns that an episode keeps. None: the run has its folder
    # on another machine, and the assignments carry what is needed.
    folder: Path | None
    tasks: Sequence[tuple[Scenario, Task]]
    plans: Sequence[EpisodePlan]  # of the whole run
    policy: OpenPolicy | None  # None: the settings name one that needs no opening
    open_judge: OpenJudge | None  # None: the episodes are not judged here
    beginning: Beginning | None
    names_trusted: bool  # whether to name the packages that run in this process
    chaos: ChaosFile = ChaosFile()  # faults on purpose


def work(spec: WorkerSpec, sock: socket.socket) -> None:
    """Be a rollout process until the coordinator says that all is done, or goes away."""
    leave_signals_to_coordinator()

    async def serve() -> None:
        await RolloutWorker(spec, FrameConnection(sock)).serve()

    run(serve)


class RolloutWorker:
    """One rollout process. `serve` is its whole life."""

    def __init__(self, spec: WorkerSpec, connection: Transport) -> None:
        self._spec = spec
        self._connection = connection
        self._lag = LagMonitor()
        self._bus = LocalBus()
        publish = None if spec.open_judge is None else self._bus.publish
        self._sink = StreamSink(self._connection, publish)
        self._waiting: deque[EpisodeAssignment] = deque()
        self._assigned = anyio.Event()
        self._worlds_wanted = anyio.Event()
        self._stopped = anyio.Event()
        self._episodes = anyio.CancelScope()
        self._resumed_turns: KeptTurns | None = None  # None: no episode has kept any yet
        self._slots: Slots | None = None  # None: nothing is played yet
        self._requests: RequestLog | None = None  # None: the number of episodes is given
        self._share = spec.settings.number_at_once  # episodes at once
        connection.hurry(True)  # until there are assignments
        if spec.settings.is_adaptive and isinstance(spec.policy, Observable):
            self._requests, self._share = RequestLog(), 0

    async def serve(self) -> None:
        """Play until the coordinator stops it; then send what was measured, or what failed."""
        connection = self._connection
        async with anyio.create_task_group() as tasks:
            for task in (connection.send_all, self._receive, self._beat):
                tasks.start_soon(task)
            tasks.start_soon(self._sink.send_batches)
            tasks.start_soon(self._sink.publish_stored)
            try:
                await self._play()
            except Exception as exc:
                await self._sink.flush()  # the endings of the other episodes
                connection.put(failed_of(sole_exception(exc)))
            await connection.wait_until_sent()
            tasks.cancel_scope.cancel()

    async def _receive(self) -> None:
        while True:
            try:
                data = await self._connection.receive()
            except anyio.EndOfStream:
                os._exit(1)  # the coordinator is gone: nothing can be stored
            match to_worker(data):
                case EpisodeAssignments(assignments):
                    self._waiting += assignments
                    self._hurry_for_leases()
                    self._assigned.set()
                case Stored(batch):
                    self._sink.on_stored(batch)
                case SendWorlds():
                    self._worlds_wanted.set()
                case AdmissionShare(limit):
                    self._take_share(limit)
                case Stop(cancel):
                    self._stopped.set()
                    if cancel:
                        self._episodes.cancel()

    async def _beat(self) -> None:
        while True:
            lag = self._lag.take()
            self._connection.put(Heartbeat(round(lag.seconds, 3), lag.culprit))
            await anyio.sleep(HEARTBEAT_S)

    async def _play(self) -> None:
        """Open what the episodes need, play what is assigned until stopped, and close it."""
        spec, settings = self._spec, self._spec.settings
        async with AsyncExitStack() as stack:
            report = name_trusted if spec.names_trusted else _name_none
            chaos = Chaos(spec.chaos, settings.model, "process")
            pool = await stack.enter_async_context(
                pool_of(settings, report_trusted=report, open_spawner=chaos.open_spawner)
            )
            await pool.host_all(scenario for scenario, _ in spec.tasks)
            judge = None
            if spec.open_judge is not None:
                scenarios = [scenario for scenario, _ in spec.tasks]
                folder = spec.folder or Path()  # a judge that asks no models writes no file
                opened = spec.open_judge(pool=pool, scenarios=scenarios, folder=folder, spent=0.0)
                judge = await stack.enter_async_context(opened)
            parts = await make_parts(
                settings,
                spec.tasks,
                spec.policy,
                pool=pool,
                users=await stack.enter_async_context(users_of(settings, spec.tasks)),
                driver=await stack.enter_async_context(opened_agent(settings, spec.folder)),
                judge=judge,
                beginning=spec.beginning,
            )
            parts = chaos.parts(parts, spec.policy)
            if spec.policy is not None:
                await stack.enter_async_context(spec.policy)
            if self._requests is not None and isinstance(spec.policy, Observable):
                spec.policy.observe(self._requests)
            meters = Meters(pool, lag=self._lag)
            meters.start()
            self._connection.put(ProcessReady(pool.level, distribution.version()))
            with self._episodes:
                await self._play_assigned(parts, meters)
            await self._sink.flush()
            meters.stop()
            statistics = {} if spec.policy is None else spec.policy.statistics()
            self._connection.put(_measured(meters, statistics, self._sink.room_s))

    async def _play_assigned(self, parts: RunParts, meters: Meters) -> None:
        bus = None if parts.judge is None else self._bus
        opened = attended(self._sink, bus, parts, meters=meters, live=parts.pool)
        async with opened as session:
            context = context_of(parts, session, meters)
            session.helpers.start_soon(self._send_worlds, parts)
            with ExitStack() as stack:
                async with anyio.create_task_group() as episodes:
                    episode = partial(self._episode, context, parts, stack)
                    self._slots = context.slots
                    self._slots.open(self._share, partial(self._begin_next, episodes, episode))
                    if self._requests is not None:
                        reports = (self._slots, self._requests)
                        session.helpers.start_soon(self._report_requests, *reports)
                    episodes.start_soon(self._begin_leased, context)
                    await self._stopped.wait()
                    episodes.cancel_scope.cancel()

    async def _report_requests(self, slots: Slots, requests: RequestLog) -> None:
        """Report the requests to the coordinator, until cancelled."""
        while True:
            await anyio.sleep(REPORT_S)
            if (report := requests.report(has_free=slots.has_free)) is not None:
                self._connection.put(report)

    def _take_share(self, limit: int) -> None:
        change, self._share = limit - self._share, limit
        self._hurry_for_leases()
        if self._slots is not None:
            self._slots.resize(change)

    async def _begin_leased(self, context: RunContext) -> None:
        """Begin what is assigned whenever there are free slots, until cancelled."""
        while True:
            await self._assigned.wait()
            self._assigned = anyio.Event()
            context.slots.begin_more()

    def _begin_next(self, tasks: anyio.abc.TaskGroup, episode: PlayOne) -> bool:
        if self._stopped.is_set() or not self._waiting:
            return False
        tasks.start_soon(episode, self._waiting.popleft())
        self._hurry_for_leases()
        return True

    def _hurry_for_leases(self) -> None:
        """The coordinator assigns further episodes when it gets to know that some have ended, so
        this must not wait where few are left to begin. Nor may what admission has to know."""
        is_short = len(self._waiting) < self._share
        self._connection.hurry(is_short or self._requests is not None)

    async def _episode(
        self, context: RunContext, parts: RunParts, stack: ExitStack, assignment: EpisodeAssignment
    ) -> None:
        """Play or judge one episode, and give its slot back. What reads the log is closed by
        `stack`."""
        plan = self._spec.plans[assignment.index]
        if assignment.judge_from is not None:
            await self._judge_logged(context, parts, plan.episode, assignment)
        else:
            plan = msgspec.structs.replace(plan, attempt=assignment.attempt)
            kept = (
                self._resumed_turns_of(assignment, context, stack)
                if assignment.attempt > 1 and parts.driver is None
                else None
            )
            await play(plan, context, parts, kept)
        context.slots.release()

    def _resumed_turns_of(
        self, assignment: EpisodeAssignment, context: RunContext, stack: ExitStack
    ) -> KeptTurns:
        if self._spec.folder is None:
            return KeptTurns(CarriedAttempts(assignment.logged), context.dialect, context.history)
        if self._resumed_turns is None:
            opened = open_resumed_turns(self._spec.folder, context.dialect, context.history)
            self._resumed_turns = stack.enter_context(opened)
        return self._resumed_turns

    async def _judge_logged(
        self, context: RunContext, parts: RunParts, episode: str, assignment: EpisodeAssignment
    ) -> None:
        """Judge from the log an episode whose process died before its verdict."""
        assert parts.judge is not None and assignment.judge_from is not None
        trajectory = self._logged(episode, assignment)
        context.recorder.open(episode, seq=assignment.judge_from)
        context.recorder.stamp(episode, assignment.attempt, await parts.judge.verdict(trajectory))
        context.recorder.close(episode)

    def _logged(self, episode: str, assignment: EpisodeAssignment) -> Trajectory:
        if self._spec.folder is None:
            return CarriedAttempts(assignment.logged).trajectory(
                episode, attempt=assignment.attempt
            )
        with open_reader(self._spec.folder) as reader:
            return reader.trajectory(episode, attempt=assignment.attempt)

    async def _send_worlds(self, parts: RunParts) -> None:
        await self._worlds_wanted.wait()
        worlds = [await snapshot_of(parts.pool, one) for one in scenarios_of(self._spec.plans)]
        self._connection.put(WorldSnapshots([encode(world) for world in worlds]))


def _name_none(_scenarios: Sequence[Scenario]) -> None:
    """Another process names the trusted packages."""


def _measured(meters: Meters, policy: dict[str, float], room_s: float) -> Measured:
    return Measured(
        leases=meters.leases.tobytes(),
        calls=meters.calls.tobytes(),
        steps=meters.steps.tobytes(),
        lags=meters.lags.tobytes(),
        rss_start=meters.rss_start,
        rss_max=meters.rss_max,
        live_max=meters.live_max,
        cpu_s=meters.cpu_s,
        policy=policy,
        room_s=room_s,
        worst_lag_s=meters.worst_lag.seconds,
        culprit=meters.worst_lag.culprit,
        held_back_s=meters.held_back_s,
    )
