"""Measure the viewer: folding a log, first rows, filters, and what a watched run loses.

    python -m benchmarks.viewer --episodes 100000 --live 10000 --runs 5

The log is that of a real run (the oracle on the bundled worlds, some ten turns an episode), whose
records are repeated under other names until there are enough episodes. All of it is measured in CPU
seconds of one process, full text included. The cost of being watched is the CPU of a run's process
with a viewer whose page listens, against that of an equal run beside it, in turns; all of them on
one processor, since two processes on the two halves of a core slow each other down by a third.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from math import sqrt
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.viewer.index.run_index import open_index
from rehearsal_room.viewer.index.tables import NAME
from rehearsal_room.viewer.reading.episode_rows import episode_table
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.reading.run_page import curves, run_page
from rehearsal_room.viewer.tasks.reasons import reasons
from rehearsal_room.viewer.tasks.task_table import task_table
from rehearsal_room.viewer.tasks.tries import grid

_WORLDS = ("claims_desk", "flight_desk", "shop_support")
_QUERIES = 200
_THINK = "10:30"  # seconds, so that one processor is enough for two runs and the viewer
_SPAN_S, _SPAN_RECORDS = 15.0, 5_000  # a span is at least so long, and has so many records


def rehearse(*words: object) -> list[str]:
    """The command line of a command."""
    return [sys.executable, "-m", "rehearsal_room", *map(str, words)]


def make_log(folder: Path, episodes: int) -> int:
    """Make a run of about so many episodes; returns how many they are."""
    source = folder / "source"
    command = rehearse("run", *_WORLDS, "-p", "oracle", "-g", "4", "-o", source)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run = folder / "run"
    run.mkdir()
    shutil.copy(source / "run.toml", run)
    with closing(sqlite3.connect(source / LOG_NAME)) as log:
        log.execute("VACUUM INTO ?", (str(run / LOG_NAME),))
    with closing(sqlite3.connect(run / LOG_NAME)) as log, log:
        log.execute("PRAGMA synchronous = OFF")
        ((records, played),) = log.execute(
            "SELECT max(position), count(DISTINCT episode) FROM events"
        )
        for copy in range(1, -(-episodes // played)):
            log.execute(
                "INSERT INTO events SELECT position + ?1 * ?2, 'x' || ?2 || episode, attempt, seq,"
                " kind, at + ?2 * 5, data, NULL FROM events WHERE position <= ?1",
                (records, copy),
            )
        ((total,),) = log.execute("SELECT count(*) FROM events WHERE kind = 'started'")
    return int(total)


def fold(run: Path) -> float:
    """CPU seconds of folding a log from its beginning."""
    for path in run.glob("view.sqlite*"):
        path.unlink()
    with open_reader(run) as reader, open_index(reader) as index:
        began = time.process_time()
        while index.fold():
            pass
        return time.process_time() - began


def first_rows(run: Path) -> float:
    """Seconds from opening a folded index to the counts, curves, grid and first rows of a run."""
    began = time.process_time()
    with open_reader(run) as reader, open_index(reader) as index:
        index.fold()
        episode_table(index, {"limit": ["100"]})
        curves(index)
        grid(index)
    return time.process_time() - began


def page(run: Path) -> float:
    """Seconds of a run's page: counts, curves, tasks, statistics with intervals."""
    with closing(ShownRun(run)) as opened:
        opened.index()
        began = time.process_time()
        run_page(opened)
        return time.process_time() - began


def tasks(run: Path) -> float:
    """Seconds of the page that a run opens on: its tasks, and why they failed."""
    with closing(ShownRun(run)) as opened:
        opened.index()
        began = time.process_time()
        task_table(opened, {})
        reasons(opened)
        return time.process_time() - began


def filters(run: Path) -> list[float]:
    """Seconds of each of many queries: filters, orders and pages, drawn at random."""
    rng = Random(0)
    drawn: dict[str, tuple[str, ...]] = {
        "scenario": _WORLDS,
        "label": ("completed", "agent_error", "unjudged", "none"),
        "ending": ("answered", "step_limit", "live"),
        "table": ("orders", "payments", "claims", "bookings", "tickets"),
        "tool": ("get_order", "search_claims", "get_booking"),
        "tag": ("hard", "change", "trap", "dialogue"),
        "min_turns": ("3", "8", "15"),
        "text": ("refund", "voucher", '"duplicate order"', "storm claim", "nothing like this"),
    }
    sorts = ("reward", "-turns", "seconds", "-started_at", "task", "-tokens")
    seconds = []
    with open_reader(run) as reader, open_index(reader) as index:
        for _ in range(_QUERIES):
            query = {name: [rng.choice(drawn[name])] for name in rng.sample(sorted(drawn), 2)}
            query |= {"sort": [rng.choice(sorts)], "offset": [str(rng.choice((0, 500, 20_000)))]}
            began = time.process_time()
            episode_table(index, query)
            seconds.append(time.process_time() - began)
    return sorted(seconds)


def losses(folder: Path, live: int, runs: int) -> list[float]:
    """By how many per cent a viewer raises the CPU of a run's process, of so many pairs of spans.
    From now on this process and what it starts stay on one processor, where the system can do that.

    Two equal runs are played at the same time, each with so many live episodes. One of them is
    watched in the first span of a pair, the other one in the second. The CPU of both is divided by
    the records that they logged, and compared within a span: their episodes are in the same phase,
    and what else the machine does strikes both.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with ExitStack() as stack:
        pair = [stack.enter_context(_playing(folder / name, live)) for name in ("one", "two")]
        for one in pair:
            while _num_live(one.reader) < 0.99 * live:
                one.check()
                time.sleep(2)
        found = []
        for _ in range(runs):
            first, second = (_shares(pair, watched) for watched in (0, 1))
            found.append(100 * (sqrt(first / second) - 1))
        return found


class _Playing(NamedTuple):
    process: "subprocess.Popen[bytes]"
    folder: Path
    reader: LogReader

    def check(self) -> None:
        if self.process.poll() is not None:
            raise SystemExit(f"a run ended too early, with status {self.process.returncode}")


@contextmanager
def _playing(folder: Path, live: int) -> Iterator[_Playing]:
    """A run that always has so many live episodes."""
    words = ("-p", "oracle", "-n", 20 * live, "-c", live, "--think", _THINK, "-o", folder)
    run = subprocess.Popen(
        rehearse("run", *_WORLDS, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not (folder / LOG_NAME).is_file():
            time.sleep(0.1)
        with open_reader(folder) as reader:
            yield _Playing(run, folder, reader)
    finally:
        run.kill()
        run.wait()


def _num_live(reader: LogReader) -> int:
    counts = reader.counts()
    return counts.get("started", 0) - counts.get("ended", 0)


def _shares(pair: Sequence[_Playing], watched: int) -> float:
    """CPU seconds for each record of the first run, divided by those of the second, in a span in
    which one of them is watched."""
    with watching(pair[watched].folder):
        _wait_for_index(pair[watched].folder, pair[watched].reader)
        before = [(_cpu_s(one.process.pid), one.reader.num_records()) for one in pair]
        until = time.monotonic() + _SPAN_S
        while time.monotonic() < until or any(
            one.reader.num_records() < records + _SPAN_RECORDS
            for one, (_, records) in zip(pair, before, strict=True)
        ):
            for one in pair:
                one.check()
            time.sleep(0.5)
        first, second = (
            (_cpu_s(one.process.pid) - seconds) / (one.reader.num_records() - records)
            for one, (seconds, records) in zip(pair, before, strict=True)
        )
        return first / second


def _wait_for_index(folder: Path, reader: LogReader) -> None:
    """Wait until the viewer has caught up with the log as it is now."""
    wanted, position = reader.num_records(), 0
    while position < wanted:
        time.sleep(0.5)
        with suppress(sqlite3.Error), closing(sqlite3.connect(folder / NAME, timeout=5)) as index:
            ((position,),) = index.execute("SELECT value FROM meta WHERE key = 'position'")


def _cpu_s(process: int) -> float:
    """User and system seconds of a process so far, its threads included."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def watching(folder: Path) -> Iterator[None]:
    """A viewer of a run, and a page that listens to its events."""
    viewer = subprocess.Popen(
        rehearse("view", folder, "--no-open"), stderr=subprocess.PIPE, text=True
    )
    assert viewer.stderr is not None
    address = viewer.stderr.readline().strip()
    base, _, token = address.partition("/?token=")
    headers = {"Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(f"{base}/api/runs", headers=headers)
    with urllib.request.urlopen(asked) as answer:  # nosec B310
        run = msgspec.json.decode(answer.read())["runs"][0]["id"]
    events = f"{base}/api/runs/{run}/events?token={token}"
    reads = "import sys, urllib.request\nfor line in urllib.request.urlopen(sys.argv[1]): pass"
    listener = subprocess.Popen([sys.executable, "-c", reads, events])
    try:
        yield
    finally:
        listener.terminate()
        listener.wait()
        viewer.terminate()
        viewer.wait()


def figures(episodes: int, live: int, runs: int) -> list[Figure]:
    """The figures."""
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        if episodes:
            found += of_log(Path(temporary), episodes, runs)
        if live:
            lost = losses(Path(temporary) / "live", live, runs)
            found.append(figure("CPU that a watched run loses", "%", lost, reach=3))
    return found


def of_log(folder: Path, episodes: int, runs: int) -> list[Figure]:
    """The figures of a log that is complete."""
    total = make_log(folder, episodes)
    run = folder / "run"
    rates = [total / fold(run) for _ in range(runs)]
    size = (run / NAME).stat().st_size
    firsts = [first_rows(run) for _ in range(runs)]
    queries = [filters(run) for _ in range(runs)]
    p95 = [one[int(0.95 * len(one))] for one in queries]
    opening = [tasks(run) for _ in range(runs)]
    pages = [page(run) for _ in range(runs)]
    return [
        figure("episodes in the log", "", [total]),
        figure("an episode folded", "µs of CPU", [1e6 / rate for rate in rates], reach=200),
        figure("episodes folded", "/s of CPU", rates),
        figure("index of an episode", "bytes", [size / total]),
        figure("first rows on a folded index", "s of CPU", firsts, reach=1.0),
        figure("tasks of the run, with reasons", "s of CPU", opening, reach=0.5),
        figure("page of the run, with its statistics", "s of CPU", pages, reach=1.0),
        figure("filter p95", "ms of CPU", [1e3 * one for one in p95], reach=100),
        figure("filter p50", "ms of CPU", [1e3 * median(one) for one in queries]),
    ]


@benchmark(__doc__)
@count_option("--episodes", 100_000, "Episodes in the log; 0: leave these figures out.", least=0)
@count_option("--live", 10_000, "Episodes live at once in the watched run; 0: likewise.", least=0)
@runs_option(5)
def main(episodes: int, live: int, runs: int) -> list[Figure]:
    """The command line."""
    return figures(episodes, live, runs)


if __name__ == "__main__":
    main()
