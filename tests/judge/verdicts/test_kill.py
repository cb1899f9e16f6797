"""Judging that is killed or interrupted in its midst loses nothing and asks nothing twice."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pytest

from harness.core.events import EpisodeEnded, Judged
from harness.log.schema import LOG_NAME
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
from tests.support.model_server import Asked, ModelServer

WORLDS = ("shop_support", "flight_desk", "claims_desk")
NUM = 100  # episodes, one of each task: no two are equal
ANSWERED = 40
AT_ONCE = 8
NAME = "hybrid:m"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment of the tests names, the judge is the server's."""
    no_environment(monkeypatch)


class Stopping:
    """Answers so many questions and then none, until it is told to go on.

    `stuck` is set when everything that the judge may ask at once waits: then what was answered
    before has been taken in, as each desk asks its next question after its last verdict.
    """

    def __init__(self, answered: int) -> None:
        self.stuck = threading.Event()
        self.waiting: list[str] = []  # the questions that were never answered
        self.goes_on = False
        self._left = answered
        self._speaks = Speaks(good(lambda _: COMPLETED))

    async def perform(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        if self._left == 0 and not self.goes_on:
            self.waiting.append(text_of(asked))
            if len(self.waiting) == AT_ONCE:
                self.stuck.set()
            await asyncio.Event().wait()
        self._left -= not self.goes_on
        return await self._speaks.perform(asked, writer)


@contextmanager
def stopping() -> Iterator[tuple[ModelServer, Stopping]]:
    behaviour = Stopping(ANSWERED)
    with served(behaviour) as server:
        yield server, behaviour


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "harness", *map(str, arguments)]


def stop_when_stuck(behaviour: Stopping, by: signal.Signals, *arguments: object) -> int:
    """Start the command, end it when the judge is stuck; gives the exit status."""
    process = subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, text=True)
    try:
        assert behaviour.stuck.wait(30), "the judge was not asked enough"
        process.send_signal(by)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in err
    behaviour.goes_on = True
    return process.returncode


def finish(*arguments: object) -> None:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def check_whole(folder: Path) -> None:
    """The log is a sound database; each attempt's records are numbered without a gap."""
    with sqlite3.connect(folder / LOG_NAME) as log:
        assert log.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    log.close()
    numbers: dict[tuple[str, int], list[int]] = {}
    for record in records_of(folder):
        numbers.setdefault((record.episode, record.attempt), []).append(record.seq)
    assert all(seqs == list(range(len(seqs))) for seqs in numbers.values())


def asked_twice(server: ModelServer, questions: dict[str, Question]) -> set[str]:
    """The questions that were sent a second time; all that there are were sent."""
    counts = Counter(map(text_of, server.requests))
    assert set(counts) == set(questions)
    assert max(counts.values()) <= 2
    return {text for text, count in counts.items() if count == 2}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the three bundled worlds, not judged, of which each test has a copy."""
    folder = tmp_path_factory.mktemp("original") / "run"
    finish("run", *WORLDS, "-o", folder, "--judge", "none")
    return folder


@pytest.mark.parametrize(
    ("by", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)]
)
@pytest.mark.parametrize("only", [("--only", "unjudged"), ()], ids=["only unjudged", "again"])
def test_judging_that_was_ended_goes_on(
    original: Path, tmp_path: Path, only: tuple[str, ...], by: signal.Signals, status: int
) -> None:
    """Killed or interrupted in its midst, judging goes on: every episode has its verdict, what was
    answered is not asked again, only what was under way is, and the log is whole."""
    run = Path(copytree(original, tmp_path / "run"))
    questions = questions_of(run, "hybrid")
    assert len(questions) == NUM
    with stopping() as (server, behaviour):
        flags = ("-m", "m", "--base-url", server.url, "-c", AT_ONCE)
        assert stop_when_stuck(behaviour, by, "judge", run, *flags) == status
        check_whole(run)
        before = verdicts_of(run, NAME)
        finish("judge", run, *only)
        again = asked_twice(server, questions)

    assert again == set(behaviour.waiting)
    check_whole(run)
    after = verdicts_of(run, NAME)
    assert {judged.label for given in after.values() for judged in given} == {COMPLETED}
    assert len(before) <= ANSWERED
    expected = {
        name: 2 if name in before and not only else 1
        for one in questions.values()
        for name in one.episodes
    }
    assert {name: len(given) for name, given in after.items()} == expected


@pytest.mark.parametrize(
    ("by", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)]
)
def test_a_run_that_was_ended_while_it_was_judged_goes_on(
    tmp_path: Path, by: signal.Signals, status: int
) -> None:
    """Killed or interrupted while its judge is busy, a run goes on with --resume: every episode is
    over and judged once, none that had ended is run again, and only questions that were under way
    are asked again."""
    run = tmp_path / "run"
    with stopping() as (server, behaviour):
        flags = ("--judge", "hybrid", "--judge-model", "m", "--judge-base-url", server.url)
        bounds = ("--judge-concurrency", AT_ONCE)
        started = ("run", *WORLDS, "-o", run, *flags, *bounds)
        assert stop_when_stuck(behaviour, by, *started) == status
        check_whole(run)
        ended = {r.episode for r in records_of(run) if isinstance(r.event, EpisodeEnded)}
        judged = set(verdicts_of(run, NAME))
        finish("run", "-o", run, "--resume")
        again = asked_twice(server, questions_of(run, "hybrid"))

    assert again == set(behaviour.waiting)
    check_whole(run)
    records = records_of(run)
    kinds = Counter(type(record.event) for record in records)
    assert (kinds[EpisodeEnded], kinds[Judged]) == (NUM, NUM)
    assert {r.episode for r in records if r.attempt > 1}.isdisjoint(ended)
    assert len(judged) <= ANSWERED
    assert {one.label for given in verdicts_of(run, NAME).values() for one in given} == {COMPLETED}
