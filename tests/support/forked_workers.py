"""A plugin of pytest: the tests run in processes that are forked after collection.

    python -m pytest -p tests.support.forked_workers --forks 3        (`just test`)

pytest-xdist starts an interpreter for each worker, which imports and collects all tests: 20 s of
CPU each, torch included. Here one process imports and collects, and forks workers, which so have
everything. It runs no test itself, starts no thread and stays as it is, so that a worker that dies
is replaced by a fork like the first ones. Every test runs once; a test in which its worker dies is
a failure. A worker that is still in a test after three times the test's limit (pytest-timeout) is
aborted, and shows where each of its threads stands. Only on Linux is it safe to fork with
everything imported: elsewhere `just test` takes pytest-xdist.

All workers have the hash seed of one process; commands that tests start have their own.
"""

import ctypes
import gc
import math
import os
import random
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

import pytest

# Set in a worker to its number; tests/support/made_once.py then shares what is made once.
WORKER_VARIABLE = "REHEARSAL_TEST_WORKER"
_SHARES = 4  # a worker's share of what is left, of each worker; the last shares are single files
# What the tests of many folders import while they run; each worker would do it.
_MANY = 1_000
_LATE = ("tests.support.warm_training", "openai.resources.chat", "matplotlib.figure")
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG: also where the parent is killed
_TIDIES_S = 10.0  # what a worker has for its fixtures when the session is stopped
_INTERRUPTS = 5  # that it gets in this time, while it has not ended
_STUCK = 3  # times its limit that a test takes: then the limit has not ended it
_LOOKS_S = 1.0  # between two looks at how long tests take
_SMALL_FILE = 30  # so many tests, at most, are added to a share, so that it ends with a file


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="worker processes (0: none)")


@pytest.hookimpl
def pytest_runtestloop(session: pytest.Session) -> Literal[True] | None:
    """Run the tests in workers, unless there are errors of collection or nothing is to be run."""
    num_workers: int = session.config.option.forks
    if not num_workers or session.config.option.collectonly or session.testsfailed:
        return None
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all
    if len(session.items) > _MANY:
        for name in _LATE:
            import_module(name)
    _Workers(session, num_workers).run()
    return True


class _Worker:
    """A worker process, as its parent knows it."""

    def __init__(self, pid: int, connection: Connection) -> None:
        self.pid = pid
        self.end = os.pidfd_open(
            pid
        )  # readable when it has ended, also if others hold its connection
        self.connection = connection
        self.given: deque[int] = deque()  # tests that it has and has not finished, in order
        self.stuck_at = math.inf  # the time at which its test counts as stuck


class _Workers:
    """The parent's side: it hands out tests and passes reports on."""

    def __init__(self, session: pytest.Session, num_workers: int) -> None:
        self._session = session
        self._num_workers = num_workers
        self._left = deque(range(len(session.items)))
        self._running: list[_Worker] = []
        self._num_started = 0

    def run(self) -> None:
        """Run all tests, or as many as `--maxfail` allows."""
        try:
            for _ in range(min(self._num_workers, len(self._left))):
                self._start()
            while self._running:
                sources = [source for one in self._running for source in (one.connection, one.end)]
                wait(sources, _LOOKS_S)
                for worker in tuple(self._running):
                    has_ended = bool(wait([worker.end], 0))
                    while worker.connection.poll() and self._receive(worker):
                        pass
                    if has_ended:
                        self._end(worker)
                    elif worker.stuck_at < time.monotonic():
                        worker.stuck_at = math.inf
                        os.kill(worker.pid, signal.SIGABRT)  # pytest's faulthandler shows threads
        finally:
            for _ in range(_INTERRUPTS):  # Python loses one that comes while it deletes an object
                for worker in self._running:
                    if not wait([worker.end], 0):
                        os.kill(worker.pid, signal.SIGINT)
                for worker in self._running:
                    wait([worker.end], _TIDIES_S / _INTERRUPTS)
            for worker in self._running:
                if not wait([worker.end], 0):
                    os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)

    def _start(self) -> None:
        """Fork a worker."""
        own, other = Pipe()
        pid = os.fork()
        if not pid:
            own.close()
            for worker in self._running:
                worker.connection.close()
            _work(self._session, self._num_started, other)
        other.close()
        self._num_started += 1
        self._running.append(_Worker(pid, own))

    def _receive(self, worker: _Worker) -> bool:
        """Take one message of a worker; False: there will be none."""
        try:
            kind, value = worker.connection.recv()
        except (EOFError, OSError):
            return False
        hook = self._session.config.hook
        if kind == "more":
            self._give(worker)
        elif kind == "report":
            report = hook.pytest_report_from_serializable(config=self._session.config, data=value)
            hook.pytest_runtest_logreport(report=report)
            self._stop_if_asked()
        else:
            item = self._session.items[value]
            event = {"nodeid": item.nodeid, "location": item.location}
            if kind == "began":
                worker.stuck_at = time.monotonic() + _STUCK * _limit(item)
                hook.pytest_runtest_logstart(**event)
            else:
                worker.given.popleft()
                worker.stuck_at = math.inf
                hook.pytest_runtest_logfinish(**event)
        return True

    def _give(self, worker: _Worker) -> None:
        """Hand out the next tests in their order, and a small file whole, so that fixtures of
        modules are made seldom."""
        size = -(-len(self._left) // (_SHARES * self._num_workers))
        share = [self._left.popleft() for _ in range(size)]
        while share and self._left and len(share) < size + _SMALL_FILE:
            if self._file(share[-1]) != self._file(self._left[0]):
                break
            share.append(self._left.popleft())
        worker.given += share
        worker.connection.send(share)

    def _file(self, index: int) -> str:
        return self._session.items[index].location[0]

    def _end(self, worker: _Worker) -> None:
        """A worker has ended. If it had tests, it died in the first one."""
        self._running.remove(worker)
        worker.connection.close()
        os.close(worker.end)
        _, status = os.waitpid(worker.pid, 0)
        if worker.given:
            code = os.waitstatus_to_exitcode(status)
            self._report_death(self._session.items[worker.given.popleft()], code)
            self._left.extendleft(reversed(worker.given))
            self._stop_if_asked()
        if self._left:
            self._start()

    def _report_death(self, item: pytest.Item, code: int) -> None:
        text = f"the worker died in this test (exit status {code})"
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", text, "call", sections=()
        )
        self._session.config.hook.pytest_runtest_logreport(report=report)

    def _stop_if_asked(self) -> None:
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)


def _limit(item: pytest.Item) -> float:
    """The seconds that a test may take, as pytest-timeout reads them."""
    marker = item.get_closest_marker("timeout")
    own = (*marker.args, marker.kwargs.get("timeout"))[0] if marker else None
    limits = (own, item.config.getoption("timeout", None), item.config.getini("timeout"))
    return float(next((limit for limit in limits if limit not in (None, "")), 0)) or math.inf


def _work(session: pytest.Session, number: int, connection: Connection) -> None:
    """The life of a worker: run tests until none are left. Does not return."""
    status = 1
    try:
        with _own_state(session.config, number):
            session.config.pluginmanager.register(_Sender(session.config, connection))
            for index, following in _pairs(connection):
                item = session.items[index]
                connection.send(("began", index))
                item.config.hook.pytest_runtest_protocol(
                    item=item, nextitem=None if following is None else session.items[following]
                )
                connection.send(("ended", index))
        gc.collect()
        status = 0
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal and the parent both send it
        session._setupstate.teardown_exact(None)  # the servers that fixtures have started end
    finally:
        os._exit(status)  # the session is the parent's: here nothing of it is finished or unloaded


@contextmanager
def _own_state(config: pytest.Config, number: int) -> Iterator[None]:
    """What a fork would share with its parent: captured output, the terminal, temporary folders,
    random numbers."""
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    os.environ[WORKER_VARIABLE] = str(number)
    random.seed()
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"worker-{number}"
    factory._basetemp.mkdir(mode=0o700)
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        terminal._tw._file = nowhere
        yield


def _pairs(connection: Connection) -> Iterator[tuple[int, int | None]]:
    """The tests to run, each with the one that follows it: fixtures that both use stay."""
    given: deque[int] = deque()
    more = True
    while given or more:
        while more and len(given) < 2:
            connection.send(("more", None))
            share = connection.recv()
            given += share
            more = bool(share)
        if given:
            index = given.popleft()
            yield index, given[0] if given else None


class _Sender:
    """Sends a worker's reports to its parent."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))
