"""Bugs that are injected to see whether the simulation finds them.

Each is a mistake that somebody could make in the harness: an order of two steps, a forgotten case,
a count that is one off. `injected(name)` is a block in which the harness has it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import anyio.lowlevel
import msgspec

from rehearsal_room.envpool.inprocess import pool as pools
from rehearsal_room.harness.bus.local import Inbox, LocalBus
from rehearsal_room.harness.continuation import resumed_turns as resumed_turns
from rehearsal_room.harness.continuation.resumed_turns import KeptTurns
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, StepTaken
from rehearsal_room.harness.log import writer as writers
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.log.writer import LogWriter
from rehearsal_room.harness.rollout import episode as episodes
from rehearsal_room.harness.rollout import remaining, session
from rehearsal_room.harness.rollout.episode import Episode
from rehearsal_room.harness.rollout.monitor import Monitor
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from tests.devtools.simulation.ledger import CONCURRENCY
from tests.devtools.simulation.parts.log_database import SimulatedDatabase

Inject = Callable[[ExitStack], None]
BUGS: dict[str, Inject] = {}


def bug(inject: Inject) -> Inject:
    """Add a bug to those that can be injected."""
    BUGS[inject.__name__.strip("_")] = inject
    return inject


@contextmanager
def injected(name: str) -> Iterator[None]:
    """A block in which the harness has this bug."""
    with ExitStack() as stack:
        BUGS[name](stack)
        yield


def replace(stack: ExitStack, owner: Any, name: str, new: Any) -> None:
    """Replace a part of the harness until the stack is closed."""
    stack.enter_context(patch.object(owner, name, new))


# The log.


@bug
def _publishes_before_the_commit(stack: ExitStack) -> None:
    commit = LogWriter._commit

    async def early(self: LogWriter) -> None:
        numbered = list(enumerate(self._buffer[: writers._MAX_ROWS], self._durable + 1))
        handlers, self._handlers = self._handlers, []
        for handler in handlers if numbered else ():
            if (waiting := handler(numbered)) is not None:
                await waiting
        await commit(self)
        self._handlers = handlers

    replace(stack, LogWriter, "_commit", early)


@bug
def _loses_the_last_record_of_a_large_batch(stack: ExitStack) -> None:
    commit = LogWriter._commit

    async def lossy(self: LogWriter) -> None:
        if len(self._buffer) > 14:
            self._buffer.pop()
            self._appended -= 1
        await commit(self)

    replace(stack, LogWriter, "_commit", lossy)


@bug
def _does_not_sync(stack: ExitStack) -> None:
    execute = SimulatedDatabase.execute

    async def unsafe(self: SimulatedDatabase, sql: str) -> None:
        await execute(self, sql.replace("synchronous = FULL", "synchronous = OFF"))

    replace(stack, SimulatedDatabase, "execute", unsafe)


@bug
def _syncs_at_checkpoints_only(stack: ExitStack) -> None:
    execute = SimulatedDatabase.execute

    async def unsafe(self: SimulatedDatabase, sql: str) -> None:
        await execute(self, sql.replace("synchronous = FULL", "synchronous = NORMAL"))

    replace(stack, SimulatedDatabase, "execute", unsafe)


@bug
def _writes_a_batch_in_another_order(stack: ExitStack) -> None:
    commit = LogWriter._commit

    async def swapped(self: LogWriter) -> None:
        self._buffer.reverse()
        await commit(self)

    replace(stack, LogWriter, "_commit", swapped)


@bug
def _numbers_from_the_start_after_a_resume(stack: ExitStack) -> None:
    prepare = writers._prepare_writer

    async def restarted(*args: Any) -> LogWriter:
        made = await prepare(*args)
        made._durable = made._appended = 0
        return made

    replace(stack, writers, "_prepare_writer", restarted)


@bug
def _does_not_report_the_last_record_of_a_batch(stack: ExitStack) -> None:
    on_commit = LogWriter.on_commit

    def shortened(self: LogWriter, handler: Any) -> None:
        on_commit(self, lambda batch: handler(batch[:-1] if len(batch) > 12 else batch))

    replace(stack, LogWriter, "on_commit", shortened)


@bug
def _forgets_what_waits_when_it_closes(stack: ExitStack) -> None:
    close = LogWriter._close

    def hasty(self: LogWriter) -> None:
        self._buffer.clear()
        close(self)

    replace(stack, LogWriter, "_close", hasty)
    replace(stack, Monitor, "wait_until_finished", _at_once)


async def _at_once(self: Any) -> None:
    await anyio.lowlevel.checkpoint()


@bug
def _stores_a_slow_batch_twice(stack: ExitStack) -> None:
    executemany = SimulatedDatabase.executemany

    async def repeated(self: SimulatedDatabase, sql: str, parameters: Any) -> None:
        began = anyio.current_time()
        values = [list(one) for one in parameters]
        await executemany(self, sql, values)
        if anyio.current_time() - began > 1.0 and "events" in sql:
            again = [[*one] for one in values]
            for row in again:
                row[0::8] = [None if n is None else n + 100_000 for n in row[0::8]]
            await executemany(self, sql, again)

    replace(stack, SimulatedDatabase, "executemany", repeated)


# Recorder, session.


@bug
def _counts_a_continued_episode_from_zero(stack: ExitStack) -> None:
    opened = Recorder.open
    replace(stack, Recorder, "open", lambda self, episode, *, seq=0: opened(self, episode, seq=0))


@bug
def _forgets_an_episode_at_its_ending(stack: ExitStack) -> None:
    stamp = Recorder.stamp

    def forgetful(self: Recorder, episode: str, attempt: int, event: Any) -> Any:
        record = stamp(self, episode, attempt, event)
        if isinstance(event, EpisodeEnded):
            self.close(episode)
        return record

    replace(stack, Recorder, "stamp", forgetful)


def _remaining(stack: ExitStack, change: Callable[[Any], Any]) -> None:
    read = remaining._remaining_of

    @wraps(read)
    def changed(*args: Any) -> Any:
        return change(read(*args))

    replace(stack, remaining, "_remaining_of", changed)


@bug
def _repeats_an_attempt_under_its_number(stack: ExitStack) -> None:
    def same(left: Any) -> Any:
        first = [msgspec.structs.replace(one, attempt=1) for one in left.missing]
        return left._replace(missing=first)

    _remaining(stack, same)


@bug
def _takes_an_unjudged_episode_for_done(stack: ExitStack) -> None:
    _remaining(
        stack,
        lambda left: left._replace(
            unjudged=[], done=[*left.done, *(row for row, _ in left.unjudged)]
        ),
    )


@bug
def _plays_an_unjudged_episode_again(stack: ExitStack) -> None:
    def again(left: Any) -> Any:
        names = {row.episode: row.attempt for row, _ in left.unjudged}
        plans = [
            msgspec.structs.replace(one, attempt=names[one.episode] + 1)
            for one in left.plans
            if one.episode in names
        ]
        return left._replace(unjudged=[], missing=[*left.missing, *plans])

    _remaining(stack, again)


@bug
def _drops_the_last_missing_episode(stack: ExitStack) -> None:
    def fewer(left: Any) -> Any:
        if not left.done or len(left.missing) < 2:
            return left
        return left._replace(missing=left.missing[:-1], plans=left.plans[:-1])

    _remaining(stack, fewer)


@bug
def _does_not_repeat_failures_of_the_model(stack: ExitStack) -> None:
    replace(stack, session, "REPEATED", frozenset({Ending.CANCELLED}))


@bug
def _plays_what_has_answered_again(stack: ExitStack) -> None:
    replace(stack, session, "REPEATED", session.REPEATED | {Ending.ANSWERED})


@bug
def _counts_restored_episodes_as_new_ones(stack: ExitStack) -> None:
    restore = Monitor.restore

    def more(self: Monitor, rows: Any, *, judged: bool) -> None:
        rows = list(rows)
        restore(self, rows, judged=judged)
        self.total += len(rows)

    replace(stack, Monitor, "restore", more)
    replace(stack, Monitor, "set_total", lambda self, total: None)


# The bus.


@bug
def _drops_records_for_a_slow_subscriber(stack: ExitStack) -> None:
    put = Inbox.put

    def lossy(self: Inbox, record: Any) -> None:
        if len(self._items) < 16:
            put(self, record)

    replace(stack, Inbox, "put", lossy)


@bug
def _empties_an_inbox_after_a_pause(stack: ExitStack) -> None:
    receive = Inbox.receive

    async def slow(self: Inbox) -> Any:
        records = await receive(self)
        self._items = list(records)
        await anyio.sleep(0.02)
        self._items = []
        return records

    replace(stack, Inbox, "receive", slow)


@bug
def _gives_a_record_to_the_first_subscriber_only(stack: ExitStack) -> None:
    publish = LocalBus.publish

    async def unfair(self: LocalBus, record: Any) -> None:
        inboxes = self._inboxes
        if any(len(inbox) > 10 for inbox in inboxes):
            self._inboxes = inboxes[:1]
        await publish(self, record)
        self._inboxes = inboxes

    replace(stack, LocalBus, "publish", unfair)


# The judge.


@bug
def _records_a_verdict_for_the_first_attempt(stack: ExitStack) -> None:
    stamp = Recorder.stamp

    def first(self: Recorder, episode: str, attempt: int, event: Any) -> Any:
        is_verdict = type(event).__name__ == "Judged"
        return stamp(self, episode, 1 if is_verdict else attempt, event)

    replace(stack, Recorder, "stamp", first)


@bug
def _judges_an_interrupted_episode_at_once(stack: ExitStack) -> None:
    read = remaining._remaining_of

    def eager(reader: Any, plans: Any, judged: bool, repeated: Any) -> Any:
        return read(reader, plans, judged, repeated - {Ending.CANCELLED})

    replace(stack, remaining, "_remaining_of", eager)


@bug
def _gives_no_verdict_on_a_later_attempt(stack: ExitStack) -> None:
    verdict = ScenarioJudges.verdict

    async def partial(self: ScenarioJudges, trajectory: Any) -> Any:
        given = await verdict(self, trajectory)
        if trajectory.attempt > 1:
            given = msgspec.structs.replace(given, label=None)
        return given

    replace(stack, ScenarioJudges, "verdict", partial)


# Turns that are kept.


@bug
def _keeps_one_turn_too_few(stack: ExitStack) -> None:
    split = resumed_turns._split

    def fewer(*args: Any) -> Any:
        kept, unfinished = split(*args)
        return (kept[:-1] if len(kept) > 2 else kept), unfinished

    replace(stack, resumed_turns, "_split", fewer)


@bug
def _keeps_the_turns_of_the_first_attempt(stack: ExitStack) -> None:
    read = KeptTurns._read
    replace(
        stack,
        KeptTurns,
        "_read",
        lambda self, episode, digest, attempt: read(self, episode, digest, 2),
    )


@bug
def _does_not_make_the_kept_calls(stack: ExitStack) -> None:
    rebuild = episodes.rebuild

    async def skipped(beginning: Any, *args: Any, **options: Any) -> None:
        if len(beginning.kept) < 3:
            await rebuild(beginning, *args, **options)

    replace(stack, episodes, "rebuild", skipped)


@bug
def _does_not_report_to_the_agent_what_is_kept(stack: ExitStack) -> None:
    made = episodes.Assignment

    def unaware(*args: Any, **options: Any) -> Any:
        return msgspec.structs.replace(made(*args, **options), kept=())

    replace(stack, episodes, "Assignment", unaware)


# Episodes and worlds.


@bug
def _keeps_the_world_of_a_failed_episode(stack: ExitStack) -> None:
    leave = pools._LeaseBlock.__aexit__

    async def leaky(self: Any, kind: Any, exc: Any, trace: Any) -> None:
        if exc is None:
            await leave(self, kind, exc, trace)

    replace(stack, pools._LeaseBlock, "__aexit__", leaky)


@bug
def _ends_a_cancelled_episode_twice(stack: ExitStack) -> None:
    end = Episode.end

    def twice(self: Episode, ending: Ending, *args: Any, **options: Any) -> Ending:
        if ending is Ending.POLICY_ERROR:
            end(self, ending, *args, **options)
        return end(self, ending, *args, **options)

    replace(stack, Episode, "end", twice)


@bug
def _takes_a_failed_model_for_an_answer(stack: ExitStack) -> None:
    end = Episode.end

    def mild(self: Episode, ending: Ending, *args: Any, **options: Any) -> Ending:
        if ending is Ending.POLICY_ERROR:
            ending = Ending.ANSWERED
        return end(self, ending, *args, **options)

    replace(stack, Episode, "end", mild)


@bug
def _gives_two_episodes_one_world(stack: ExitStack) -> None:
    enter = pools._LeaseBlock.__aenter__
    last: list[Any] = [None]

    async def shared(self: Any) -> Any:
        env = await enter(self)
        last[0] = env if self._pool.num_live < CONCURRENCY else last[0] or env
        return last[0]

    replace(stack, pools._LeaseBlock, "__aenter__", shared)


@bug
def _repeats_a_call_under_another_id(stack: ExitStack) -> None:
    call = pools.LocalEnv.call
    count = iter(range(10**9))

    async def repeated(self: Any, name: str, arguments: Any, call_id: str) -> Any:
        result = await call(self, name, arguments, call_id)
        if next(count) % 60 == 59:
            result = await call(self, name, arguments, f"{call_id}-again")
        return result

    replace(stack, pools.LocalEnv, "call", repeated)


@bug
def _begins_more_than_allowed_after_a_failure(stack: ExitStack) -> None:
    run_all = session.run_all

    async def wide(plans: Any, work: Any, *, concurrency: int, **options: Any) -> None:
        is_resumed = any(plan.attempt > 1 for plan in plans)
        await run_all(plans, work, concurrency=concurrency + is_resumed, **options)

    replace(stack, session, "run_all", wide)


@bug
def _logs_a_step_before_its_calls_are_made(stack: ExitStack) -> None:
    stamp = Episode._stamp_step

    def early(self: Episode, step: StepTaken) -> None:
        if len(self.steps) == 3:
            step = msgspec.structs.replace(step, results=step.results[:0])
        stamp(self, step)

    replace(stack, Episode, "_stamp_step", early)
