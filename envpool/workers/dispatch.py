"""Which worker gets which request, and what becomes of it when the worker does not answer.

A world stays with the worker that has its state; a worker that runs dry takes requests that wait
elsewhere. A scenario is hosted by one worker until that one has more to do than it can.

Nobody waits behind somebody else's slow call. When the request in a worker's hands takes longer
than `slow_after`, those behind it go to other workers with their states, and a fresh worker takes
the suspect's place. A suspect that ends its request in time comes back; past the deadline it is
killed, and whoever waits for that request is told why.

Invariants:
- Each job is settled at most once, by one worker's answer: what a worker still answers to a job
  that went elsewhere is dropped.
- A job that was in the hands of a worker that died is not tried again; one behind it is.
- There are at most `workers` usable workers and `spare` suspects.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import structlog

from envpool.core.errors import PoolError, WorldError
from envpool.core.host_answers import Answer, Loaded
from envpool.workers.link import CallJob, Job, Link
from envpool.workers.staff import Rules, Staff
from envpool.workers.wire import Failed, Load, Ready, Refused, Replayed, Reply, Stale, Verified

_SPREAD_AT = 24  # requests that wait for a worker until another one is to host their scenario
_STEAL_BELOW = 2  # requests that a worker has when it begins to take over others'
_MAX_DEATHS = 2  # of workers that were to host one scenario
_ANY = ""  # the name under which jobs wait that any worker can take
_log = structlog.get_logger(__name__)


class Keeps(Protocol):
    """Who starts workers and sees to those that died."""

    def load_of(self, package: str) -> Load | None:
        """The request by which a worker hosts a scenario; None: it was never hosted."""

    def start_worker(self) -> None:
        """Start one worker; its link is `staff.add`ed, or it is `not_started`."""

    def joined(self, link: Link) -> None:
        """The worker is up."""

    def bury(self, link: Link, why: str, tell: Callable[[str], None]) -> None:
        """The worker is gone: tell why, some time. `why` is empty where only the zygote knows."""


class Dispatcher:
    """Gives jobs to workers."""

    def __init__(self, rules: Rules, keeper: Keeps) -> None:
        self.staff = Staff(rules, keeper.start_worker)
        self.num_replaced = 0  # workers
        self.num_moved = 0  # jobs that were sent to another worker
        self.num_dropped = 0  # answers that nobody waited for
        self._keeper = keeper
        self._waiting: dict[str, deque[Job]] = {}  # package -> jobs that no worker can take now
        self._deaths: dict[str, int] = {}  # package -> workers that died of hosting it
        self._given = 0

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting.values()))
        return f"<Dispatcher [{waiting} jobs wait for a worker] {self.staff.links}>"

    def open(self) -> None:
        """Start the workers."""
        self.staff.is_open = True
        self.staff.fill()

    def close(self) -> None:
        """End all workers; whoever waits gets a WorldError."""
        self.staff.is_open = False
        jobs = [job for link in self.staff.links for job in _undone(link)]
        for link in self.staff.links:
            link.end()
        self.staff.links.clear()
        for job in jobs:
            job.fail(WorldError("the pool was closed"))
        self._fail_waiting(WorldError("the pool was closed"))

    def look(self) -> None:
        """Act upon what there is to be seen of the workers; to be called at even intervals."""
        for link, sight in self.staff.look():
            if link.dead:
                continue
            match sight:
                case "unborn":
                    self._replace(link, None, "it took too long to be up")
                case "late":
                    self._replace(link, _in_hands(link), self.staff.rules.too_long)
                case "deserted":
                    self._replace(link, None, "nobody waited for it any more")
                case "slow":
                    self._suspect(link)
                case "full" if link.sent:
                    link.tired = True
                    self._suspect(link)
                case "full":
                    self._replace(link, None, "it was full")

    # Jobs

    def put(self, job: Job) -> None:
        """Give a job to a worker, now or as soon as there is one for it."""
        link = job.home
        if link is None or not link.usable or job.scenario_digest not in link.packages:
            link = self._best(job)
            if link is None:
                self._wait(job)
                return
            self._given += 1
            link.given = self._given
        elif link.full:
            link = self._idle(job.scenario_digest) or link
        link.put(job)
        if len(link.queue) > _SPREAD_AT:
            self._spread(job.scenario_digest)

    def _fail_waiting(self, exc: Exception, package: str | None = None) -> None:
        """Nobody will take the jobs that wait for a worker (None: whatever they are about)."""
        for name in [package] if package is not None else list(self._waiting):
            for job in self._waiting.pop(name, ()):
                job.fail(exc)

    def _best(self, job: Job) -> Link | None:
        """The usable worker that has least to do, among those that can take the job."""
        links = self.staff.usable()
        if job.load is not None:
            return min(links, key=lambda link: (link.num_packages, link.load), default=None)
        links = [link for link in links if job.scenario_digest in link.packages]
        return min(links, key=lambda link: (link.load, link.given), default=None)

    def _idle(self, package: str) -> Link | None:
        """A worker that hosts the scenario and has nothing to do."""
        links = (link for link in self.staff.links if link.usable and not link.load)
        return next((link for link in links if package in link.packages), None)

    def _wait(self, job: Job) -> None:
        if self.staff.hopeless or not self.staff.is_open:
            job.fail(PoolError(self.staff.fault or "the pool is not open"))
            return
        name = job.scenario_digest if job.load is None else _ANY
        self._waiting.setdefault(name, deque()).append(job)
        if job.load is None:
            self._want(job.scenario_digest)

    def _want(self, package: str) -> None:
        """See that a worker hosts the scenario."""
        if not any(package in link.loading for link in self.staff.links if not link.suspect):
            self._load(package, self.staff.usable())

    def _spread(self, package: str) -> None:
        """See that one more worker hosts the scenario, if one has nothing to do."""
        if not any(package in link.loading for link in self.staff.links):
            idle = [link for link in self.staff.usable() if not link.load]
            self._load(package, [link for link in idle if package not in link.packages])

    def _load(self, package: str, links: list[Link]) -> None:
        request = self._keeper.load_of(package)
        if links and request is not None:
            link = min(links, key=lambda link: (link.num_packages, link.load))
            link.loading.add(package)
            link.put(Job(package, request))

    def _adopt(self, link: Link) -> None:
        """A worker has become usable, or hosts one more scenario: jobs may have waited for it."""
        for name in list(self._waiting):
            if name == _ANY or name in link.packages:
                for job in self._waiting.pop(name):
                    self.put(job)
            else:
                self._want(name)

    def _steal(self, thief: Link) -> None:
        """Take over what waits longest for the busiest worker."""
        while len(thief.sent) < _STEAL_BELOW and not thief.full:
            busiest = max(self.staff.links, key=lambda link: len(link.queue))
            if not busiest.queue or busiest.queue[0].scenario_digest not in thief.packages:
                return
            thief.put(busiest.queue.popleft())

    # What comes from the workers

    def replied(self, link: Link, reply: Reply) -> None:
        """A worker's reply."""
        if isinstance(reply, Ready):
            self._join(link, reply)
            return
        sent = link.answered(reply.id) if link.ready else None
        if sent is None:
            self.garbled(link, f"it answered request {reply.id}, which was not in its hands")
            return
        awaited, job = sent.awaited, sent.job
        self.num_dropped += not awaited
        if isinstance(reply, Loaded | Refused) and job.load is not None:
            self._hosts(link, job, reply)
        elif isinstance(reply, Stale) and isinstance(job, CallJob) and not job.with_state:
            if awaited:
                job.unsettle()
                self._again(link, job)
        elif not isinstance(reply, Failed) and not isinstance(reply, job.expects):
            self._replace(
                link, job if awaited else None, f"it answered with {type(reply).__name__}"
            )
            return
        if isinstance(reply, Failed):
            link.loading.discard(job.scenario_digest)
            self._replace(link, None, reply.why)
            if awaited:
                self.told(job, reply.why)
            return
        if awaited and not isinstance(reply, Stale):
            job.settle(reply)
        if violation := _violation(reply):
            self._replace(link, None, violation)
        else:
            self._go_on(link)

    def garbled(self, link: Link, why: str) -> None:
        """A worker sent what is no reply."""
        self._replace(link, _in_hands(link), why)

    def lost(self, link: Link) -> None:
        """A worker's end of the connection is closed."""
        self._replace(link, _in_hands(link), "")

    def distrust(self, link: Link, why: str) -> None:
        """What a worker answered cannot be."""
        self._replace(link, None, why)

    def told(self, job: Job | None, why: str) -> None:
        """Why a worker is gone, and the job that was in its hands (None: nobody waits)."""
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
            self._want(job.scenario_digest)

    def _hosts(self, link: Link, job: Job, reply: Loaded | Refused) -> None:
        link.loading.discard(job.scenario_digest)
        if isinstance(reply, Loaded):
            link.packages[job.scenario_digest] = None
            self._deaths.pop(job.scenario_digest, None)
            if link.process.rss() > self.staff.rules.full:
                self._make_room(link, job.scenario_digest)
            if link.usable:
                self._adopt(link)
        else:
            why = f"its scenario can no longer be hosted: {reply.reason}"
            self._fail_waiting(WorldError(why), job.scenario_digest)

    def _make_room(self, link: Link, newest: str) -> None:
        """Drop the scenario that was not used for longest, if one is not in use."""
        used = {newest, *(sent.job.scenario_digest for sent in link.sent)}
        used |= {job.scenario_digest for job in link.queue}
        idle = next((name for name in link.packages if name not in used), None)
        if idle is not None:
            link.unload(idle)

    def _again(self, link: Link, job: Job) -> None:
        if link.usable:
            link.queue.appendleft(job)
        else:
            self.put(job)

    def _go_on(self, link: Link) -> None:
        """A worker has answered: it can be given more."""
        self.staff.worked()
        if link.suspect and not link.sent:
            if link.tired:
                self._replace(link, None, "it was full")
                return
            link.suspect = False
            _log.info("worker_back", pid=link.process.pid)
            self._adopt(link)
        if link.usable:
            link.pump()
            self._steal(link)
            self._trim()

    # Workers that come and go

    def not_started(self, why: str) -> None:
        """A worker that was to come will not."""
        self.staff.not_started(why)
        self._give_up()

    def _join(self, link: Link, reply: Ready) -> None:
        if link.ready:
            self.garbled(link, "it said twice that it was up")
            return
        self.staff.join(link, reply.level)
        self._keeper.joined(link)
        self._adopt(link)
        self._trim()

    def _trim(self) -> None:
        if (link := self.staff.surplus()) is not None:
            self._end(link, None, "it was not needed any more")

    def _give_up(self) -> None:
        if self.staff.hopeless:
            self._fail_waiting(PoolError(self.staff.fault))

    def _suspect(self, link: Link) -> None:
        """The request in its hands takes long: what is behind it need not wait."""
        link.suspect = True
        jobs = [sent.job for sent in list(link.sent)[1:] if sent.awaited]
        for sent in list(link.sent)[1:]:
            sent.moved = True
        jobs += link.queue
        link.queue.clear()
        _log.info("worker_suspect", pid=link.process.pid, moved=len(jobs))
        self._move(link, jobs)
        self.staff.fill()

    def _move(self, link: Link, jobs: list[Job]) -> None:
        """Send jobs elsewhere."""
        self.num_moved += len(jobs)
        for job in jobs:
            job.unsettle()
            if job.load is not None and job.scenario_digest in link.loading:
                link.loading.discard(
                    job.scenario_digest
                )  # nobody waits for it; it is asked for anew
            else:
                self.put(job)
        for name in list(self._waiting):
            if name != _ANY:
                self._want(name)

    def _replace(self, link: Link, job: Job | None, why: str) -> None:
        """End a worker and start another. `job` was in its hands and is not tried again."""
        if not link.dead and self._end(link, job, why):
            self.num_replaced += 1
            self.staff.fill()

    def _end(self, link: Link, job: Job | None, why: str) -> bool:
        """End a worker; gives whether it had been one. `why` is empty where it went by itself."""
        jobs = [other for other in _undone(link) if other is not job]
        of_use = self.staff.remove(link, on_its_own=not why)
        link.sent.clear()
        link.queue.clear()
        self._keeper.bury(link, why, partial(self.told, job) if of_use else self.not_started)
        self._move(link, jobs)
        self._give_up()
        return of_use


def _in_hands(link: Link) -> Job | None:
    """The job in a worker's hands; None: nobody waits for it."""
    return link.sent[0].job if link.sent and link.sent[0].awaited else None


def _undone(link: Link) -> list[Job]:
    """The jobs that it was given and has not answered."""
    return [sent.job for sent in link.sent if sent.awaited] + list(link.queue)


def _violation(reply: Reply) -> str:
    """What was done that is forbidden, after which a worker is not trusted; empty: nothing."""
    if isinstance(reply, Replayed):
        return reply.fault
    return reply.violation if isinstance(reply, Answer | Verified | Refused) else ""
