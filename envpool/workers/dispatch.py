"""Which worker gets which request, and what happens to it when the worker does not answer.

A world stays with the worker that has its state; a worker that runs out of work takes requests that
wait for others. One worker hosts a scenario until it has more to do than it can.

No request waits behind a slow call of another task. When the request in flight at a worker takes
longer than `slow_after`, the requests behind it go to other workers with their states, and a fresh
worker replaces the suspect. A suspect that finishes its request in time returns to work; past the
deadline it is killed, and the task that awaits the request learns why.

Invariants:
- Each job is settled at most once, by one worker's answer: where a job was moved to another worker,
  the answer of the first is dropped.
- A job that was in flight at a worker that died is not tried again; one behind it is.
- There are at most `workers` usable workers and `spare` suspects.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import structlog

from envpool.core.errors import PoolError, WorldError
from envpool.core.offload import CallOutcome, Loaded, Verified
from envpool.kernel.thread_count import THREADS
from envpool.workers.connection import WorkerConnection
from envpool.workers.jobs import CallJob, Job, SentJob
from envpool.workers.supervisor import Rules, Supervisor
from envpool.workers.wire import Failed, Load, Ready, Refused, Replayed, Reply, Stale

_SPREAD_AT = 24  # requests that wait for a worker until a second one hosts their scenario
_STEAL_BELOW = 2  # requests of a worker below which it takes those of others
_MAX_DEATHS = 2  # of workers that were to host one scenario
_ENDED = "its worker ended before its threads were counted"
_ANY = ""  # the key of waiting jobs that any worker can take
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
    """Gives jobs to workers. It implements envpool.workers.connection.ConnectionListener."""

    def __init__(self, rules: Rules, owner: WorkerOwner) -> None:
        self.supervisor = Supervisor(rules, owner.start_worker)
        self.num_replaced = 0  # workers
        self.num_moved = 0  # jobs that were sent to another worker
        self.num_dropped = 0  # answers that no task awaited
        self._owner = owner
        self._waiting: dict[str, deque[Job]] = {}  # scenario digest -> jobs without a worker
        self._deaths: dict[str, int] = {}  # scenario digest -> workers that died of hosting it
        self._num_assigned = 0

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting.values()))
        return f"<Dispatcher [{waiting} jobs wait for a worker] {self.supervisor.workers}>"

    def open(self) -> None:
        """Start the workers."""
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
        for job in jobs:
            job.fail(WorldError("the pool was closed"))
        self._fail_waiting(WorldError("the pool was closed"))

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

    # Jobs

    def put(self, job: Job) -> None:
        """Give a job to a worker, now or as soon as one can take it."""
        worker = job.last_worker
        if worker is None or not worker.usable or job.scenario_digest not in worker.scenarios:
            worker = self._least_loaded(job)
            if worker is None:
                self._wait(job)
                return
            self._num_assigned += 1
            worker.assigned_at = self._num_assigned
        elif worker.full:
            worker = self._idle_host(job.scenario_digest) or worker
        worker.put(job)
        if len(worker.queue) > _SPREAD_AT:
            self._spread(job.scenario_digest)

    def _fail_waiting(self, exc: Exception, scenario_digest: str | None = None) -> None:
        """Fail the jobs that wait for a worker: those of one scenario, or all (None)."""
        for name in [scenario_digest] if scenario_digest is not None else list(self._waiting):
            for job in self._waiting.pop(name, ()):
                job.fail(exc)

    def _least_loaded(self, job: Job) -> WorkerConnection | None:
        """The usable worker with the least to do, among those that can take the job."""
        workers = self.supervisor.usable()
        if job.load is not None:
            return min(workers, key=lambda each: (each.num_scenarios, each.load), default=None)
        workers = [worker for worker in workers if job.scenario_digest in worker.scenarios]
        return min(workers, key=lambda each: (each.load, each.assigned_at), default=None)

    def _idle_host(self, scenario_digest: str) -> WorkerConnection | None:
        """An idle worker that hosts the scenario."""
        idle = (worker for worker in self.supervisor.workers if worker.usable and not worker.load)
        return next((worker for worker in idle if scenario_digest in worker.scenarios), None)

    def _wait(self, job: Job) -> None:
        if self.supervisor.has_given_up or not self.supervisor.is_open:
            job.fail(PoolError(self.supervisor.fault or "the pool is not open"))
            return
        name = job.scenario_digest if job.load is None else _ANY
        self._waiting.setdefault(name, deque()).append(job)
        if job.load is None:
            self._ensure_hosted(job.scenario_digest)

    def _ensure_hosted(self, scenario_digest: str) -> None:
        """Make a worker host the scenario, unless one is loading it."""
        workers = self.supervisor.workers
        if not any(scenario_digest in each.loading for each in workers if not each.suspect):
            self._load(scenario_digest, self.supervisor.usable())

    def _spread(self, scenario_digest: str) -> None:
        """Make one more worker host the scenario, if one is idle."""
        if not any(scenario_digest in worker.loading for worker in self.supervisor.workers):
            idle = [worker for worker in self.supervisor.usable() if not worker.load]
            self._load(
                scenario_digest, [each for each in idle if scenario_digest not in each.scenarios]
            )

    def _load(self, scenario_digest: str, workers: list[WorkerConnection]) -> None:
        request = self._owner.load_request(scenario_digest)
        if workers and request is not None:
            worker = min(workers, key=lambda each: (each.num_scenarios, each.load))
            worker.loading.add(scenario_digest)
            worker.put(Job(scenario_digest, request))

    def _assign_waiting(self, worker: WorkerConnection) -> None:
        """Assign waiting jobs to a worker that is now usable or hosts one more scenario."""
        for name in list(self._waiting):
            if name == _ANY or name in worker.scenarios:
                for job in self._waiting.pop(name):
                    self.put(job)
            else:
                self._ensure_hosted(name)

    def _steal(self, thief: WorkerConnection) -> None:
        """Take over the job that waits longest for the busiest worker."""
        while len(thief.sent) < _STEAL_BELOW and not thief.full:
            busiest = max(self.supervisor.workers, key=lambda worker: len(worker.queue))
            if not busiest.queue or busiest.queue[0].scenario_digest not in thief.scenarios:
                return
            thief.put(busiest.queue.popleft())

    # Events of connections

    def on_reply(self, worker: WorkerConnection, reply: Reply) -> None:
        """Handle a worker's reply."""
        if isinstance(reply, Ready):
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
                self._move(worker, jobs)
            return
        for sent, reply in answers:
            if worker.dead:
                self.report_death(sent.job if sent.is_awaited else None, _ENDED)
            else:
                self._answered(worker, sent, reply)
        if worker.usable:
            self._assign_waiting(worker)

    def _answered(self, worker: WorkerConnection, sent: SentJob, reply: Reply) -> None:
        awaited, job = sent.is_awaited, sent.job
        self.num_dropped += not awaited
        if isinstance(reply, Loaded | Refused) and job.load is not None:
            self._load_answered(worker, job, reply)
        elif isinstance(reply, Stale) and isinstance(job, CallJob) and not job.with_state:
            if awaited:
                job.forget_worker()
                self._send_again(worker, job)
        elif not isinstance(reply, Failed) and not isinstance(reply, job.expects):
            self._replace(
                worker, job if awaited else None, f"it answered with {type(reply).__name__}"
            )
            return
        if isinstance(reply, Failed):
            worker.loading.discard(job.scenario_digest)
            self._replace(worker, None, reply.why)
            if awaited:
                self.report_death(job, reply.why)
            return
        if awaited and not isinstance(reply, Stale):
            job.settle(reply)
        if violation := _violation(reply):
            self._replace(worker, None, violation)
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
        _log.info("worker_gone", why=why)
        if job is None:
            return
        job.settle(Failed(0, why))
        if job.load is None:
            return
        deaths = self._deaths[job.scenario_digest] = self._deaths.get(job.scenario_digest, 0) + 1
        if deaths >= _MAX_DEATHS:
            self._fail_waiting(
                WorldError(f"its scenario can no longer be hosted: {why}"), job.scenario_digest
            )
        elif job.scenario_digest in self._waiting:
            self._ensure_hosted(job.scenario_digest)

    def _load_answered(self, worker: WorkerConnection, job: Job, reply: Loaded | Refused) -> None:
        worker.loading.discard(job.scenario_digest)
        if isinstance(reply, Loaded):
            worker.scenarios[job.scenario_digest] = None
            self._deaths.pop(job.scenario_digest, None)
            if worker.process.rss() > self.supervisor.rules.full:
                self._unload_oldest(worker, job.scenario_digest)
            if worker.usable:
                self._assign_waiting(worker)
        else:
            why = f"its scenario can no longer be hosted: {reply.reason}"
            self._fail_waiting(WorldError(why), job.scenario_digest)

    def _unload_oldest(self, worker: WorkerConnection, newest: str) -> None:
        """Unload the least recently used scenario, if one is not in use."""
        used = {newest, *(sent.job.scenario_digest for sent in worker.sent)}
        used |= {job.scenario_digest for job in worker.queue}
        unused = next((name for name in worker.scenarios if name not in used), None)
        if unused is not None:
            worker.unload(unused)

    def _send_again(self, worker: WorkerConnection, job: Job) -> None:
        if worker.usable:
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
            _log.info("worker_back", pid=worker.process.pid)
            self._assign_waiting(worker)
        if worker.usable:
            worker.pump()
            self._steal(worker)
            self._end_surplus()

    # Start and end of workers

    def start_failed(self, why: str) -> None:
        """Handle a worker that could not be started."""
        self.supervisor.start_failed(why)
        self._fail_if_given_up()

    def _set_ready(self, worker: WorkerConnection, reply: Ready) -> None:
        if worker.ready:
            self.on_invalid_data(worker, "it reported twice that it was ready")
            return
        self.supervisor.set_ready(worker, reply.level)
        self._owner.worker_ready(worker)
        self._assign_waiting(worker)
        self._end_surplus()

    def _end_surplus(self) -> None:
        if (worker := self.supervisor.surplus()) is not None:
            self._end(worker, None, "it was no longer needed")

    def _fail_if_given_up(self) -> None:
        if self.supervisor.has_given_up:
            self._fail_waiting(PoolError(self.supervisor.fault))

    def _suspect(self, worker: WorkerConnection) -> None:
        """Move the jobs behind a slow request to other workers, and start a worker more."""
        worker.suspect = True
        behind = list(worker.sent)[1:]
        jobs = [sent.job for sent in behind if sent.is_awaited]
        for sent in behind:
            sent.moved = True
        jobs += worker.queue
        worker.queue.clear()
        _log.info("worker_suspect", pid=worker.process.pid, moved=len(jobs))
        self._move(worker, jobs)
        self.supervisor.start_missing()

    def _move(self, worker: WorkerConnection, jobs: list[Job]) -> None:
        """Send jobs of this worker to others."""
        self.num_moved += len(jobs)
        for job in jobs:
            job.forget_worker()
            if job.load is not None and job.scenario_digest in worker.loading:
                # No task awaits it; `_ensure_hosted` asks for the scenario again.
                worker.loading.discard(job.scenario_digest)
            else:
                self.put(job)
        for name in list(self._waiting):
            if name != _ANY:
                self._ensure_hosted(name)

    def _replace(self, worker: WorkerConnection, job: Job | None, why: str) -> None:
        """End a worker and start another. `job` was in flight and is not tried again."""
        if not worker.dead and self._end(worker, job, why):
            self.num_replaced += 1
            self.supervisor.start_missing()

    def _end(self, worker: WorkerConnection, job: Job | None, why: str) -> bool:
        """End a worker; returns whether it counts as started. `why` is empty where it ended by
        itself."""
        jobs = [other for other in _unfinished(worker) if other is not job]
        was_started = self.supervisor.remove(worker, ended_by_itself=not why)
        worker.sent.clear()
        worker.queue.clear()
        report = partial(self.report_death, job) if was_started else self.start_failed
        self._owner.reap(worker, why, report)
        self._move(worker, jobs)
        self._fail_if_given_up()
        return was_started


def _in_flight(worker: WorkerConnection) -> Job | None:
    """The job that a worker executes; None: no task awaits it."""
    return worker.sent[0].job if worker.sent and worker.sent[0].is_awaited else None


def _unfinished(worker: WorkerConnection) -> list[Job]:
    """The jobs that a worker was given and has not answered."""
    return [sent.job for sent in worker.sent if sent.is_awaited] + list(worker.queue)


def _is_last(reply: Reply) -> bool:
    """Whether the worker ends itself after this reply."""
    return isinstance(reply, Failed) or bool(_violation(reply))


def _violation(reply: Reply) -> str:
    """The forbidden action after which a worker is not trusted any more; empty: none."""
    if isinstance(reply, Replayed):
        return reply.fault
    return reply.violation if isinstance(reply, CallOutcome | Verified | Refused) else ""
