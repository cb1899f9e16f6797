"""Which worker gets which request, and what happens to it when the worker does not answer.

A worker works for one scenario until it ends (envpool.workers.lineage). It starts empty: confined,
with no hosted code executed. The first call of a scenario that no worker hosts loads it into a
blank; each verdict takes an empty worker of its own. A scenario whose calls queue gets more
workers. Only so many workers execute at a time (envpool.workers.turns); idle ones stay loaded while
there is memory, and the least recently used ends first.

No request waits behind a slow call of another task. When the request in flight at a worker takes
longer than `slow_after`, the requests behind it go to other workers with their states. A suspect
that finishes its request in time returns to work; past the deadline it is killed, and the task that
awaits the request learns why.

Invariants:
- A worker never gets requests of two scenarios, and a verifier gets a worker that has executed
  nothing (asserted by WorkerConnection.put; the worker itself refuses too).
- Each job is settled at most once, by one worker's answer: where a job was moved to another worker,
  the answer of the first is dropped.
- A job that was in flight at a worker that died is not tried again; one behind it is. (The pool
  makes a new job of a request whose worker was killed from outside.)
- At most `workers` workers execute at a time, and `spare` suspects beside them.
- A call never fails because its worker was ended to free memory: its scenario is loaded again.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import structlog

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.remote_states import CallOutcome, Loaded, Verified
from rehearsal_room.envpool.kernel.thread_count import THREADS
from rehearsal_room.envpool.workers.lineage import Lineage
from rehearsal_room.envpool.workers.messages.connection import WorkerConnection
from rehearsal_room.envpool.workers.messages.jobs import CallJob, Job, SentJob
from rehearsal_room.envpool.workers.messages.wire import (
    HostingRefused,
    Load,
    Replayed,
    Stale,
    WorkerFailed,
    WorkerReady,
    WorkerReply,
)
from rehearsal_room.envpool.workers.supervisor import Rules, Supervisor
from rehearsal_room.envpool.workers.turns import Turns

_SPREAD_AT = 24  # requests that wait for a worker until a second one hosts their scenario
_STEAL_BELOW = 2  # requests of a worker below which it takes those of others
_MAX_DEATHS = 2  # of workers that were to host one scenario
_DONE = "it has done its work"
_SURPLUS = "it was no longer needed"
_EVICTED = "its memory was needed for other scenarios"
_ON_PURPOSE = {_DONE, _SURPLUS, _EVICTED}  # ends that are not worth a line in the log
_ENDED = "its worker ended before its threads were counted"
_log = structlog.get_logger(__name__)


class WorkerOwner(Protocol):
    """Starts workers, and learns how they ended."""

    def load_request(self, scenario_digest: str) -> Load | None:
        """The request by which a worker hosts a scenario; None: it was never hosted."""

    def start_worker(self) -> None:
        """Begin to start a worker; `supervisor.add` or `start_failed` follows."""

    def worker_ready(self, worker: WorkerConnection) -> None:
        """A worker is ready."""

    def await_threads(self, worker: WorkerConnection, report: Callable[[str], None]) -> None:
        """A worker answered with threads that it should not have: call `report` with the violation
        (empty: they have ended), some time later."""

    def reap(self, worker: WorkerConnection, why: str, report: Callable[[str], None]) -> None:
        """A worker has ended: call `report` with the reason, some time later.

        `why` is empty where only the fork server knows the reason.
        """


class Dispatcher:
    """Gives jobs to workers. It implements ConnectionListener."""

    def __init__(self, rules: Rules, owner: WorkerOwner) -> None:
        self.supervisor = Supervisor(rules, owner.start_worker)
        self.num_replaced = 0  # workers
        self.num_moved = 0  # jobs that were sent to another worker
        self.num_dropped = 0  # answers that no task awaited
        self.num_evicted = 0  # workers that ended to free memory
        self._owner = owner
        self._turns = Turns(rules.workers, rules.spare)
        self._lineages: dict[str, Lineage] = {}  # by scenario digest
        self._num_uses = 0

    def __repr__(self) -> str:
        return f"<Dispatcher {self._turns} {self.supervisor.workers}>"

    def open(self) -> None:
        """Start the first workers."""
        self.supervisor.is_open = True
        self.supervisor.start_missing()

    def close(self) -> None:
        """End all workers; tasks that await a reply get a WorldError."""
        self.supervisor.is_open = False
        workers = self.supervisor.workers
        jobs = [job for worker in workers for job in _unfinished(worker)]
        jobs += [sent.job for worker in workers for sent, _ in worker.unproven]
        for worker in workers:
            worker.end()
        workers.clear()
        closed = WorldError("the pool was closed")
        _fail(jobs, closed)
        self._fail_waiting(closed)

    def tick(self) -> None:
        """React to workers with problems; called at even intervals."""
        for worker, problem in self.supervisor.tick():
            if worker.dead:
                continue
            match problem:
                case "not_ready":
                    self._replace(worker, None, "it took too long to start")
                case "overdue":
                    self._replace(worker, _in_flight(worker), self.supervisor.rules.too_long)
                case "abandoned":
                    self._replace(worker, None, "no task waited for it any more")
                case "slow":
                    self._suspect(worker)
                case "full" if worker.sent:
                    worker.draining = True
                    self._suspect(worker)
                case "full":
                    self._replace(worker, None, "its memory was full")
        if self.supervisor.checks_memory:
            self._evict()

    def drop(self, scenario_digest: str) -> None:
        """End the workers of a scenario."""
        lineage = self._lineages.pop(scenario_digest, Lineage())
        for worker in list(lineage.workers):
            self._end(worker, None, "its scenario was dropped")

    # Jobs

    def put(self, job: Job) -> None:
        """Give a job to a worker, now or as soon as one can take it."""
        if not self.supervisor.is_open:
            job.fail(PoolError(self.supervisor.fault or "the pool is not open"))
        elif job.needs_empty:
            self._put_fresh(job)
        else:
            self._put_call(job, self._lineages.setdefault(job.scenario_digest, Lineage()))

    def _put_fresh(self, job: Job) -> None:
        if self.supervisor.has_given_up:
            job.fail(PoolError(self.supervisor.fault))
            return
        self._turns.ask_fresh(job)
        self._give_turns()

    def _put_call(self, job: Job, lineage: Lineage) -> None:
        worker: WorkerConnection | None = job.last_worker
        if worker is None or not worker.takes_calls:
            worker = lineage.least_loaded()
        if worker is None:
            lineage.waiting.append(job)
            self._ensure_hosted(job.scenario_digest)
            return
        if worker.full:
            worker = lineage.idle() or worker
        self._note_use(worker)
        worker.put(job)
        if worker.has_turn and len(worker.queue) == 1:
            worker.pump()
        elif not worker.has_turn:
            self._turns.ask(worker)
            self._give_turns()
        if len(worker.queue) > _SPREAD_AT and self._turns.num_free > 0:
            self._spread(job.scenario_digest)

    def _note_use(self, worker: WorkerConnection) -> None:
        self._num_uses += 1
        worker.used_at = self._num_uses

    def _give_turns(self) -> None:
        """Let those execute that wait for a turn, while turns are free."""
        while self._turns.has_waiting:
            empty = self.supervisor.empty()
            asked = self._turns.next(has_empty=empty is not None)
            if asked is None:
                return
            if isinstance(asked, Job):
                assert empty is not None
                worker = empty
                worker.put(asked)
                if asked.load is not None:
                    lineage = self._lineages.setdefault(asked.scenario_digest, Lineage())
                    lineage.workers.append(worker)
                self.supervisor.start_missing()
            else:
                worker = asked
            self._turns.begin(worker)
            worker.pump()
            if not worker.sent:  # the tasks of its jobs have left
                self._turns.end(worker)

    def _ensure_hosted(self, scenario_digest: str) -> None:
        """Load the scenario into a worker for the jobs that wait, unless one loads it."""
        lineage = self._lineages[scenario_digest]
        if lineage.loading is not None or not lineage.waiting:
            return
        if self.supervisor.has_given_up:
            _fail(_taken(lineage), PoolError(self.supervisor.fault))
        else:
            self._load(scenario_digest)

    def _spread(self, scenario_digest: str) -> None:
        """Make one more worker host the scenario."""
        lineage = self._lineages[scenario_digest]
        is_allowed = len(lineage.workers) < self.supervisor.rules.workers
        if lineage.loading is None and is_allowed and not self.supervisor.has_given_up:
            self._load(scenario_digest)

    def _load(self, scenario_digest: str) -> None:
        request = self._owner.load_request(scenario_digest)
        if request is not None:
            job = self._lineages[scenario_digest].loading = Job(scenario_digest, request)
            self._put_fresh(job)

    def _steal(self, thief: WorkerConnection) -> None:
        """Take over jobs of the scenario that wait for its busiest worker."""
        lineage = self._lineages[thief.scenario_digest]
        while len(lineage.workers) > 1 and len(thief.sent) < _STEAL_BELOW and not thief.queue:
            busiest = lineage.busiest()
            if not busiest.queue:
                return
            thief.put(busiest.queue.popleft())
            thief.pump()

    def _fail_waiting(self, exc: Exception) -> None:
        """Fail the jobs that wait for a worker that has executed nothing."""
        _fail(self._turns.take_fresh(), exc)
        for lineage in self._lineages.values():
            lineage.loading = None
            _fail(_taken(lineage), exc)

    # Events of connections

    def on_reply(self, worker: WorkerConnection, reply: WorkerReply) -> None:
        """Handle a worker's reply."""
        if isinstance(reply, WorkerReady):
            self._set_ready(worker, reply)
            return
        sent = worker.take_answered(reply.id) if worker.ready else None
        if sent is None:
            why = f"it answered request {reply.id}, which was not in flight"
            self.on_invalid_data(worker, why)
        elif worker.paused:
            worker.unproven.append((sent, reply))
        elif worker.num_threads() > THREADS and not _is_last(reply):
            worker.paused = True
            worker.unproven.append((sent, reply))
            self._owner.await_threads(worker, partial(self._threads_counted, worker))
        else:
            self._answered(worker, sent, reply)

    def _threads_counted(self, worker: WorkerConnection, violation: str) -> None:
        """Handle the answers of a worker that was paused. `violation`: a thread outlives its call;
        empty: none does.

        With one answer it is clear which call left the thread. Several calls are made again, each
        alone on a worker.
        """
        answers, worker.unproven = worker.unproven, []
        worker.paused = False
        jobs = [sent.job for sent, _ in answers if sent.is_awaited]
        if violation and not worker.dead:
            self._replace(worker, jobs[0] if jobs and len(answers) == 1 else None, violation)
        elif worker.dead and len(answers) == 1:
            self.report_death(jobs[0] if jobs else None, _ENDED)
        if violation or worker.dead:
            if len(answers) > 1:
                for job in jobs:
                    job.alone = True
                self._move(jobs)
            return
        for sent, reply in answers:
            if worker.dead:
                self.report_death(sent.job if sent.is_awaited else None, _ENDED)
            else:
                self._answered(worker, sent, reply)
        self._give_turns()

    def _answered(self, worker: WorkerConnection, sent: SentJob, reply: WorkerReply) -> None:
        awaited, job = sent.is_awaited, sent.job
        self.num_dropped += not awaited
        if type(reply) is CallOutcome and type(job) is CallJob and not reply.violation:
            if awaited:
                job.settle(reply)
            self._give_more(worker)
            return
        if isinstance(reply, Loaded | HostingRefused) and job.load is not None:
            self._load_answered(worker, job, reply)
        elif isinstance(reply, Stale) and isinstance(job, CallJob) and not job.with_state:
            if awaited:
                job.forget_worker()
                self._send_again(worker, job)
        elif not isinstance(reply, WorkerFailed) and not isinstance(reply, job.expects):
            self._replace(
                worker, job if awaited else None, f"it answered with {type(reply).__name__}"
            )
            return
        if isinstance(reply, WorkerFailed):
            self._replace(worker, None, reply.why)
            self.report_death(job if awaited else None, reply.why)
            return
        if awaited and not isinstance(reply, Stale):
            job.settle(reply)
        if violation := _violation(reply):
            self._replace(worker, None, violation)
        elif isinstance(reply, Verified | HostingRefused):
            self.supervisor.reset_failures()
            self._end(worker, None, _DONE)
        else:
            self._give_more(worker)

    def on_invalid_data(self, worker: WorkerConnection, why: str) -> None:
        """Replace a worker that sent bytes that are not a reply."""
        self._replace(worker, _in_flight(worker), why)

    def on_disconnect(self, worker: WorkerConnection) -> None:
        """Replace a worker that closed its connection."""
        self._replace(worker, _in_flight(worker), "")

    def report_violation(self, worker: WorkerConnection, why: str) -> None:
        """Replace a worker whose answer was impossible or dishonest."""
        self._replace(worker, None, why)

    def report_death(self, job: Job | None, why: str) -> None:
        """Settle the job that was in flight at a worker that ended (None: no task awaits it)."""
        if why not in _ON_PURPOSE:
            _log.info("worker_gone", why=why)
        if job is None:
            return
        job.settle(WorkerFailed(0, why))
        lineage = self._lineages.get(job.scenario_digest)
        if job.load is None or lineage is None:
            return
        lineage.deaths += 1
        if lineage.loading is job:
            lineage.loading = None
        if lineage.deaths >= _MAX_DEATHS:
            why = f"its scenario can no longer be hosted: {why}"
            _fail(_taken(lineage), WorldError(why))
        self._ensure_hosted(job.scenario_digest)

    def _load_answered(
        self, worker: WorkerConnection, job: Job, reply: Loaded | HostingRefused
    ) -> None:
        lineage = self._lineages.get(job.scenario_digest)
        if lineage is None or worker not in lineage.workers:
            return  # it was dropped
        if lineage.loading is job:
            lineage.loading = None
        if isinstance(reply, Loaded):
            worker.hosting = True
            self._note_use(worker)
            lineage.deaths = 0
            if worker.usable:
                for waiting in _taken(lineage):
                    self.put(waiting)
                self._evict()
        else:
            why = f"its scenario can no longer be hosted: {reply.reason}"
            _fail(_taken(lineage), WorldError(why))

    def _send_again(self, worker: WorkerConnection, job: Job) -> None:
        if worker.takes_calls:
            worker.queue.appendleft(job)
        else:
            self.put(job)

    def _give_more(self, worker: WorkerConnection) -> None:
        """Give more work to a worker that has answered."""
        self.supervisor.reset_failures()
        if worker.suspect and not worker.sent:
            if worker.draining:
                self._replace(worker, None, "its memory was full")
                return
            worker.suspect = False
            self._turns.clear(worker)
            _log.info("worker_back", pid=worker.process.pid)
            for waiting in _taken(self._lineages[worker.scenario_digest]):
                self.put(waiting)
        if self._turns.count_answer(worker):
            worker.pump()
            self._steal(worker)
        if worker.has_turn and not worker.sent:
            self._turns.end(worker)
        if worker.queue:
            self._turns.ask(worker)
        self._give_turns()
        self._end_surplus(worker)

    # Start and end of workers

    def start_failed(self, why: str) -> None:
        """Handle a worker that could not be started."""
        self.supervisor.start_failed(why)
        self._fail_if_given_up()

    def _set_ready(self, worker: WorkerConnection, reply: WorkerReady) -> None:
        if worker.ready:
            self.on_invalid_data(worker, "it reported twice that it was ready")
            return
        self.supervisor.set_ready(worker, reply.level)
        self._owner.worker_ready(worker)
        self._give_turns()

    def _end_surplus(self, worker: WorkerConnection) -> None:
        """End a worker without work whose scenario has more workers than may execute at a time."""
        lineage = self._lineages.get(worker.scenario_digest)
        num_allowed = self.supervisor.rules.workers
        if lineage is None or len(lineage.workers) <= num_allowed:
            return
        if worker.load or not worker.takes_calls:
            return
        if len(lineage.hosts()) > num_allowed:
            self._end(worker, None, _SURPLUS)

    def _evict(self) -> None:
        """End the least recently used workers without work while memory is short."""
        while (worker := self.supervisor.to_evict()) is not None:
            self.num_evicted += 1
            self._end(worker, None, _EVICTED)

    def _fail_if_given_up(self) -> None:
        if self.supervisor.has_given_up:
            self._fail_waiting(PoolError(self.supervisor.fault))

    def _suspect(self, worker: WorkerConnection) -> None:
        """Move the jobs behind a slow request to other workers, and let another one execute."""
        worker.suspect = True
        self._turns.suspect(worker)
        behind = list(worker.sent)[1:]
        jobs = [sent.job for sent in behind if sent.is_awaited]
        for sent in behind:
            sent.moved = True
        jobs += worker.queue
        worker.queue.clear()
        _log.info("worker_suspect", pid=worker.process.pid, moved=len(jobs))
        lineage = self._lineages.get(worker.scenario_digest)
        if lineage is not None and worker.sent and lineage.loading is worker.sent[0].job:
            lineage.loading = None  # jobs that wait for it go to another worker
            self._ensure_hosted(worker.scenario_digest)
        self._move(jobs)
        self._give_turns()

    def _move(self, jobs: list[Job]) -> None:
        """Send jobs of a worker to others."""
        self.num_moved += len(jobs)
        for job in jobs:
            job.forget_worker()
            self.put(job)

    def _replace(self, worker: WorkerConnection, job: Job | None, why: str) -> None:
        """End a worker and start another. `job` was in flight and is not tried again."""
        if not worker.dead and self._end(worker, job, why):
            self.num_replaced += 1

    def _end(self, worker: WorkerConnection, job: Job | None, why: str) -> bool:
        """End a worker; returns whether it counts as started. `why` is empty where it ended by
        itself."""
        jobs = [other for other in _unfinished(worker) if other is not job]
        was_started = self.supervisor.remove(worker, ended_by_itself=not why)
        worker.sent.clear()
        worker.queue.clear()
        self._turns.clear(worker)
        lineage = self._lineages.get(worker.scenario_digest)
        if lineage is not None and worker in lineage.workers:
            lineage.workers.remove(worker)
        report = partial(self.report_death, job) if was_started else self.start_failed
        self._owner.reap(worker, why, report)
        self._move(jobs)
        self._fail_if_given_up()
        self.supervisor.start_missing()
        self._give_turns()
        return was_started


def _taken(lineage: Lineage) -> list[Job]:
    """The waiting jobs, which no longer wait."""
    jobs = list(lineage.waiting)
    lineage.waiting.clear()
    return jobs


def _fail(jobs: Iterable[Job], exc: Exception) -> None:
    for job in jobs:
        job.fail(exc)


def _in_flight(worker: WorkerConnection) -> Job | None:
    """The job that a worker executes; None: no task awaits it."""
    return worker.sent[0].job if worker.sent and worker.sent[0].is_awaited else None


def _unfinished(worker: WorkerConnection) -> list[Job]:
    """The jobs that a worker was given and has not answered."""
    return [sent.job for sent in worker.sent if sent.is_awaited] + list(worker.queue)


def _is_last(reply: WorkerReply) -> bool:
    """Whether the worker ends itself after this reply, and its threads with it."""
    return isinstance(reply, WorkerFailed | Verified) or bool(_violation(reply))


def _violation(reply: WorkerReply) -> str:
    """The forbidden action after which a worker is not trusted any more; empty: none."""
    if isinstance(reply, Replayed):
        return reply.fault
    return reply.violation if isinstance(reply, CallOutcome | Verified | HostingRefused) else ""
