"""Bugs of several processes, sandbox workers, faults that are dealt with, admission and following,
injected to see whether the simulation finds them."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from rehearsal_room.envpool.inprocess.world import Lease as WorldLease
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv
from rehearsal_room.envpool.workers import pool as worker_pools
from rehearsal_room.harness.admission.adaptive import AdaptiveAdmission
from rehearsal_room.harness.bus import mqtt_link
from rehearsal_room.harness.bus.mqtt_follower import Follower
from rehearsal_room.harness.bus.mqtt_wire import FollowedPositions as FollowerLedger
from rehearsal_room.harness.chaos import policy as faulty_policies
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.fleet import worker as workers
from rehearsal_room.harness.fleet.admission import FleetAdmission
from rehearsal_room.harness.fleet.assignments import AssignmentBook
from rehearsal_room.harness.fleet.coordinator import Coordinator
from rehearsal_room.harness.fleet.messages import EpisodeAssignment, Stored
from rehearsal_room.harness.fleet.stream import StreamSink
from rehearsal_room.harness.fleet.transport import CarriedTransport
from rehearsal_room.harness.fleet.worker import RolloutWorker
from rehearsal_room.harness.log.writer import LogWriter
from rehearsal_room.harness.rollout import session
from rehearsal_room.harness.rollout.slots import Slots
from tests.devtools.injected_bugs.injected_bugs import bug, replace

# Leases.


@bug
def _leases_a_lost_episode_under_its_number(stack: ExitStack) -> None:
    lose = AssignmentBook.lose

    def same(self: AssignmentBook, worker: int) -> int:
        attempts = {one.index: one.attempt for one in self._assigned.values()}
        num_lost = lose(self, worker)
        for index, lease in enumerate(self._again):
            attempt = attempts.get(lease.index, lease.attempt)
            self._again[index] = msgspec.structs.replace(lease, attempt=attempt)
        return num_lost

    replace(stack, AssignmentBook, "lose", same)


@bug
def _forgets_the_last_episode_of_a_dead_worker(stack: ExitStack) -> None:
    lose = AssignmentBook.lose

    def forgetful(self: AssignmentBook, worker: int) -> int:
        num_lost = lose(self, worker)
        if num_lost > 4:
            self._again.pop()
            self.num_left -= 1
        return num_lost

    replace(stack, AssignmentBook, "lose", forgetful)


@bug
def _plays_again_what_a_dead_worker_had_ended(stack: ExitStack) -> None:
    lose = AssignmentBook.lose

    def again(self: AssignmentBook, worker: int) -> int:
        num_lost = lose(self, worker)
        for index, lease in enumerate(self._again):
            if lease.judge_from is not None:
                self._again[index] = EpisodeAssignment(lease.index, lease.attempt + 1)
        return num_lost

    replace(stack, AssignmentBook, "lose", again)


@bug
def _numbers_a_late_verdict_from_zero(stack: ExitStack) -> None:
    judge = RolloutWorker._judge_logged

    async def restarted(
        self: RolloutWorker, context: Any, parts: Any, episode: str, lease: EpisodeAssignment
    ) -> None:
        await judge(self, context, parts, episode, msgspec.structs.replace(lease, judge_from=0))

    replace(stack, RolloutWorker, "_judge_logged", restarted)


@bug
def _leases_before_a_dead_workers_records_are_stored(stack: ExitStack) -> None:
    async def at_once(self: Coordinator, handle: Any, why: str) -> None:
        self._book.lose(handle.number)
        for live in self._live.values():
            self._fill(live)

    replace(stack, Coordinator, "_lose", at_once)


@bug
def _leases_an_episode_twice(stack: ExitStack) -> None:
    take = AssignmentBook.take

    def twice(self: AssignmentBook, worker: int, num: int) -> list[EpisodeAssignment]:
        first = self._again[0] if self._again else None
        leases = take(self, worker, num)
        if first is not None and num > 3 and first in leases:
            self._again.append(first)
        return leases

    replace(stack, AssignmentBook, "take", twice)


@bug
def _does_not_carry_the_last_attempt(stack: ExitStack) -> None:
    attempts = workers.CarriedAttempts

    class Older(attempts):  # type: ignore[misc, valid-type]
        def __init__(self, records: Sequence[Any]) -> None:
            newest = max((one[1] for one in records), default=0)
            super().__init__([one for one in records if one[1] < newest or newest == 1])

    replace(stack, workers, "CarriedAttempts", Older)


# Messages.


@bug
def _acknowledges_what_is_not_stored(stack: ExitStack) -> None:
    store = Coordinator._store

    async def eager(self: Coordinator, live: Any, number: int, records: Any) -> None:
        live.handle.put(Stored(number))
        await store(self, live, number, records)

    replace(stack, Coordinator, "_store", eager)


@bug
def _publishes_what_is_sent(stack: ExitStack) -> None:
    send = StreamSink.send_batches

    async def eager(self: StreamSink) -> None:
        put = self._connection.put

        def put_and_publish(message: Any) -> None:
            put(message)
            if type(message).__name__ == "RecordBatch":
                self.on_stored(message.number)

        self._connection.put = put_and_publish  # type: ignore[method-assign]
        await send(self)

    replace(stack, StreamSink, "send_batches", eager)


@bug
def _sends_messages_in_another_order(stack: ExitStack) -> None:
    take = CarriedTransport._take
    replace(stack, CarriedTransport, "_take", lambda self: take(self)[::-1])


@bug
def _drops_the_last_of_many_messages(stack: ExitStack) -> None:
    take = CarriedTransport._take

    def lossy(self: CarriedTransport) -> list[bytes]:
        batch = take(self)
        return batch[:-1] if len(batch) > 2 else batch

    replace(stack, CarriedTransport, "_take", lossy)


@bug
def _begins_all_that_is_leased(stack: ExitStack) -> None:
    open_slots = Slots.open

    def wide(self: Slots, free: int, begin: Callable[[], bool]) -> None:
        open_slots(self, 2 * free, begin)

    replace(stack, Slots, "open", wide)


# Sandbox workers.


@bug
def _does_not_repeat_the_call_of_a_killed_worker(stack: ExitStack) -> None:
    replace(stack, worker_pools, "KILLED", frozenset())


@bug
def _makes_a_call_twice_where_its_worker_died(stack: ExitStack) -> None:
    execute = RemoteExecutionEnv._execute

    async def forgetful(self: RemoteExecutionEnv, name: str, arguments: Any) -> Any:
        first = self.last_worker
        result = await execute(self, name, arguments)
        if first is not None and first.dead:
            result = await execute(self, name, arguments)
        return result

    replace(stack, RemoteExecutionEnv, "_execute", forgetful)


@bug
def _keeps_the_old_state_where_the_worker_changed(stack: ExitStack) -> None:
    execute = RemoteExecutionEnv._execute

    async def stale(self: RemoteExecutionEnv, name: str, arguments: Any) -> Any:
        first, before = self.last_worker, self.overlay.copy()
        result = await execute(self, name, arguments)
        if first is not None and first.dead:
            self.overlay = before
        return result

    replace(stack, RemoteExecutionEnv, "_execute", stale)


# Faults that are dealt with.


@bug
def _makes_a_call_again_whose_reply_was_lost(stack: ExitStack) -> None:
    call = WorldLease.call

    def forgetful(self: WorldLease, name: str, arguments: Any, call_id: str = "") -> Any:
        return call(self, name, arguments, "")

    replace(stack, WorldLease, "call", forgetful)


@bug
def _takes_a_full_disk_for_a_commit(stack: ExitStack) -> None:
    execute = LogWriter._execute

    async def hasty(self: LogWriter, sql: str, rows: Callable[[], Iterable[Any]]) -> None:
        try:
            await self._database.executemany(sql, rows())
        except Exception as exc:
            if "full" not in str(exc):
                await execute(self, sql, rows)

    replace(stack, LogWriter, "_execute", hasty)


@bug
def _gives_up_at_the_first_lost_answer(stack: ExitStack) -> None:
    replace(stack, faulty_policies, "wait_before_retry", lambda *args, **options: None)
    replace(stack, session, "REPEATED", frozenset({Ending.CANCELLED}))


# Admission.


@bug
def _pauses_for_ever(stack: ExitStack) -> None:
    resize = Slots.resize

    def lost(self: Slots, by: int) -> None:
        resize(self, by - (by > 0))

    replace(stack, Slots, "resize", lost)


@bug
def _does_not_remember_the_limit_that_it_applied(stack: ExitStack) -> None:
    apply = AdaptiveAdmission._apply

    def again(self: AdaptiveAdmission) -> None:
        before = self._applied
        apply(self)
        self._applied = before if self._applied > before else self._applied

    replace(stack, AdaptiveAdmission, "_apply", again)


@bug
def _counts_a_change_of_the_limit_twice(stack: ExitStack) -> None:
    def doubled(name: str, owner: Any) -> None:
        resize = getattr(owner, name)

        def twice(self: Any, by: int) -> None:
            resize(self, 2 * by if by > 0 else by)

        replace(stack, owner, name, twice)

    doubled("resize", Slots)
    doubled("resize", FleetAdmission)


# Following over a broker.


@bug
def _does_not_compare_what_was_published(stack: ExitStack) -> None:
    replace(stack, FollowerLedger, "note_published", lambda self, log, heads: None)


@bug
def _takes_every_message_for_a_new_one(stack: ExitStack) -> None:
    accept = FollowerLedger.accept

    def naive(self: FollowerLedger, kind: Any, mark: Any) -> bool:
        accept(self, kind, mark)
        return True

    replace(stack, FollowerLedger, "accept", naive)


@bug
def _answers_a_request_one_record_late(stack: ExitStack) -> None:
    answer = mqtt_link.page_of

    def skipped(request: Any, rows: Sequence[Any], boundary: Any) -> bytes:
        return answer(request, rows[1:] if len(rows) > 1 else rows, boundary)

    replace(stack, mqtt_link, "page_of", skipped)


@bug
def _ends_before_the_follower_has_everything(stack: ExitStack) -> None:
    replace(stack, Follower, "_is_complete", Follower._has_ended)
