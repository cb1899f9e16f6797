"""Judging that is killed or interrupted loses no verdict and repeats no answered request."""

import asyncio
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pytest

from rehearsal_room.harness.core.events import EpisodeEnded, Judged
from rehearsal_room.harness.following.verdict_log import FOLDER
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.scenarios.catalogue import find
from tests.support.budgets import IS_LONG, repeats
from tests.support.judge_server import Speaks, good, text_of
from tests.support.judged_runs import (
    COMPLETED,
    Question,
    no_environment,
    questions_of,
    records_of,
    served,
    verdicts_of,
)
from tests.support.model_server import ModelServer, ReceivedRequest
from tests.support.warm_process import WarmProcess

WORLDS = ("shop_support", "flight_desk", "claims_desk")[: repeats(short=1, long=3)]
# Episodes, one of each task: no two are equal.
NUM = sum(len(find(name).default_tasks) for name in WORLDS)
ANSWERED = 20
AT_ONCE = 8
NAME = "hybrid:m"
KILLED, INTERRUPTED = (signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)
UNJUDGED = ("--only", "unjudged")
BOTH = [KILLED, INTERRUPTED] if IS_LONG else [KILLED]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is the test's server, whatever the environment names."""
    no_environment(monkeypatch)


class Stopping:
    """Answers this many requests and then none, until `resumed` is set.

    `stuck` is set when as many requests wait as the judge may send at once: then the answers before
    them have become verdicts, because each slot sends its next request after its last verdict.
    """

    def __init__(self, answered: int) -> None:
        self.stuck = threading.Event()
        self.waiting: list[str] = []  # prompts of the requests that were never answered
        self.resumed = False
        self._left = answered
        self._speaks = Speaks(good(lambda _: COMPLETED))

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        if self._left == 0 and not self.resumed:
            self.waiting.append(text_of(request))
            if len(self.waiting) == AT_ONCE:
                self.stuck.set()
            await asyncio.Event().wait()
        self._left -= not self.resumed
        return await self._speaks.perform(request, writer)


@contextmanager
def stopping() -> Iterator[tuple[ModelServer, Stopping]]:
    behaviour = Stopping(ANSWERED)
    with served(behaviour) as server:
        yield server, behaviour


class Commands:
    """Runs `rehearse` in children of a warm process; what they print goes to one file."""

    def __init__(self, warm: WarmProcess, output: Path) -> None:
        self._warm = warm
        self._output = output

    def run(self, *arguments: object) -> None:
        """Run a command to its end. AssertionError when it fails."""
        status = self._warm.start_command(*arguments, output=self._output).wait()
        assert status == 0, self._output.read_text()

    def stop_when_stuck(self, behaviour: Stopping, by: signal.Signals, *arguments: object) -> int:
        """Start a command, end it when the judge is stuck, and return its exit status."""
        child = self._warm.start_command(*arguments, output=self._output)
        assert behaviour.stuck.wait(30), f"too few requests came: {self._output.read_text()}"
        child.send_signal(by)
        status = child.wait(30)
        assert "Traceback" not in self._output.read_text()
        behaviour.resumed = True
        return status


@pytest.fixture(scope="module")
def commands(warm_cli: WarmProcess, tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(warm_cli, tmp_path_factory.mktemp("commands") / "output.txt")


def check_intact(folder: Path) -> None:
    """The log is an intact database; each attempt's records are numbered without a gap."""
    with sqlite3.connect(folder / LOG_NAME) as log:
        assert log.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    log.close()
    numbers: dict[tuple[str, int], list[int]] = {}
    for record in records_of(folder):
        numbers.setdefault((record.episode, record.attempt), []).append(record.seq)
    assert all(seqs == list(range(len(seqs))) for seqs in numbers.values())


def asked_twice(server: ModelServer, questions: dict[str, Question]) -> set[str]:
    """The prompts that were sent a second time; every prompt was sent."""
    counts = Counter(map(text_of, server.requests))
    assert set(counts) == set(questions)
    assert max(counts.values()) <= 2
    return {text for text, count in counts.items() if count == 2}


@pytest.fixture(scope="module")
def original(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of bundled worlds, not judged, which each test copies."""
    folder = tmp_path_factory.mktemp("original") / "run"
    commands.run("run", *WORLDS, "-o", folder, "--judge", "none")
    return folder


@pytest.fixture(scope="module")
def questions(original: Path) -> dict[str, Question]:
    """Its episodes, by the prompt about them; every run of the oracle has the same."""
    found = questions_of(original, "hybrid")
    assert len(found) == NUM
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("only", "by", "status"),
    [(only, *ending) for only in (UNJUDGED, ()) for ending in (KILLED, INTERRUPTED)]
    if IS_LONG
    else [(UNJUDGED, *KILLED), ((), *INTERRUPTED)],
)
def test_judging_can_be_continued(
    commands: Commands,
    original: Path,
    questions: dict[str, Question],
    tmp_path: Path,
    only: tuple[str, ...],
    by: signal.Signals,
    status: int,
) -> None:
    """Judging that was killed or interrupted can be continued: every episode gets its verdict, only
    the requests that were in flight are repeated, and the log is intact. (`just test` kills judging
    with `--only unjudged` and interrupts it without; `just test-long` does both with both.)"""
    folder = Path(copytree(original, tmp_path / "run"))
    with stopping() as (server, behaviour):
        flags = ("-m", "m", "--base-url", server.url, "-c", AT_ONCE)
        assert commands.stop_when_stuck(behaviour, by, "judge", folder, *flags) == status
        check_intact(folder)
        before = verdicts_of(folder, NAME)
        commands.run("judge", folder, *only)
        again = asked_twice(server, questions)

    assert again == set(behaviour.waiting)
    check_intact(folder)
    after = verdicts_of(folder, NAME)
    assert {judged.label for given in after.values() for judged in given} == {COMPLETED}
    assert len(before) <= ANSWERED
    expected = {
        name: 2 if name in before and not only else 1
        for one in questions.values()
        for name in one.episodes
    }
    assert {name: len(given) for name, given in after.items()} == expected


@pytest.mark.slow
@pytest.mark.parametrize(("by", "status"), BOTH)
def test_following_can_be_continued(
    commands: Commands,
    original: Path,
    questions: dict[str, Question],
    tmp_path: Path,
    by: signal.Signals,
    status: int,
) -> None:
    """The same is true of a judge of its own process, whose verdicts are not yet in the run's log
    when it is killed or, in `just test-long`, interrupted."""
    folder = Path(copytree(original, tmp_path / "run"))
    with stopping() as (server, behaviour):
        flags = ("-m", "m", "--base-url", server.url, "-c", AT_ONCE)
        follow = ("judge", folder, "--follow")
        assert commands.stop_when_stuck(behaviour, by, *follow, *flags) == status
        given = verdicts_of(folder / FOLDER, NAME)
        assert not verdicts_of(folder, NAME)
        commands.run(*follow)
        again = asked_twice(server, questions)

    assert again <= set(behaviour.waiting)
    check_intact(folder)
    after = verdicts_of(folder, NAME)
    assert {name: len(verdicts) for name, verdicts in after.items()} == {
        name: 1 for one in questions.values() for name in one.episodes
    }
    assert {name: after[name] for name in given} == given


@pytest.mark.slow
@pytest.mark.parametrize(("by", "status"), BOTH)
def test_a_run_that_is_judged_live_can_be_resumed(
    commands: Commands,
    questions: dict[str, Question],
    tmp_path: Path,
    by: signal.Signals,
    status: int,
) -> None:
    """A run that was killed or interrupted while its judge was busy continues with --resume: every
    episode ends and is judged once, none that had ended runs again, and only the requests that were
    in flight are repeated. (Interrupted: `just test-long`.)"""
    folder = tmp_path / "run"
    with stopping() as (server, behaviour):
        flags = ("--judge", "hybrid", "--judge-model", "m", "--judge-base-url", server.url)
        bounds = ("--judge-concurrency", AT_ONCE)
        started = ("run", *WORLDS, "-o", folder, *flags, *bounds)
        assert commands.stop_when_stuck(behaviour, by, *started) == status
        check_intact(folder)
        ended = {r.episode for r in records_of(folder) if isinstance(r.event, EpisodeEnded)}
        judged = set(verdicts_of(folder, NAME))
        commands.run("run", "-o", folder, "--resume")
        again = asked_twice(server, questions)

    assert again == set(behaviour.waiting)
    check_intact(folder)
    records = records_of(folder)
    kinds = Counter(type(record.event) for record in records)
    assert (kinds[EpisodeEnded], kinds[Judged]) == (NUM, NUM)
    assert {r.episode for r in records if r.attempt > 1}.isdisjoint(ended)
    assert len(judged) <= ANSWERED
    assert {one.label for given in verdicts_of(folder, NAME).values() for one in given} == {
        COMPLETED
    }
