"""Measure the viewer: folding a log, first rows, filters, and what a watched run loses.

    python -m benchmarks.viewer --episodes 100000 --live 10000 --runs 5

The log is that of a real run (the oracle on the bundled worlds, some ten turns an episode), whose
records are repeated under other names until there are enough episodes. All of it is measured in CPU
seconds of one process, full text included. The cost of being watched is the CPU of the run's
process, with and without a viewer whose page listens, in turns.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from random import Random
from statistics import median

import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from harness.log.reader import LogReader, open_reader
from harness.log.schema import LOG_NAME
from harness.viewer.index.run_index import open_index
from harness.viewer.index.tables import NAME
from harness.viewer.reading.episode_rows import episode_table, grid
from harness.viewer.reading.open_runs import OpenRun
from harness.viewer.reading.run_page import curves, run_page
from judge.commands.viewing import judging_parts
from scenarios.catalogue import find

_WORLDS = ("claims_desk", "flight_desk", "shop_support")
_QUERIES = 200
_THINK = "2:6"
_SPAN_S, _SPAN_RECORDS = 10.0, 5_000  # a span is at least so long, and has so many records


def rehearse(*words: object) -> list[str]:
    """The command line of a command."""
    return [sys.executable, "-m", "harness", *map(str, words)]


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
    parts = judging_parts(find)
    with closing(OpenRun(run)) as opened:
        opened.index()
        began = time.process_time()
        run_page(opened, parts.interval, parts.statistics)
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

    One run has so many live episodes all the time. It is watched in one span of each pair, in the
    first or the second by turns; its CPU in a span is divided by the records that it logged there.
    """
    words = ("-p", "oracle", "-n", 20 * live, "-c", live, "--think", _THINK, "-o", folder)
    run = subprocess.Popen(
        rehearse("run", *_WORLDS, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not (folder / LOG_NAME).is_file():
            time.sleep(0.1)
        with open_reader(folder) as reader:
            while _num_live(reader) < 0.99 * live:
                _check_alive(run)
                time.sleep(2)
            found = []
            for number in range(runs):
                order = (False, True) if number % 2 else (True, False)
                spent = {watched: _span(run, folder, reader, watched=watched) for watched in order}
                found.append(100 * (spent[True] / spent[False] - 1))
            return found
    finally:
        run.kill()
        run.wait()


def _check_alive(run: "subprocess.Popen[bytes]") -> None:
    if run.poll() is not None:
        raise SystemExit(f"the run ended too early, with exit status {run.returncode}")


def _num_live(reader: LogReader) -> int:
    counts = reader.counts()
    return counts.get("started", 0) - counts.get("ended", 0)


def _span(
    run: "subprocess.Popen[bytes]", folder: Path, reader: LogReader, *, watched: bool
) -> float:
    """CPU seconds of the run for each record, in one span."""
    with watching(folder) if watched else nullcontext():
        if watched:
            _wait_for_index(folder, reader)
        records, seconds = reader.num_records(), _cpu_s(run.pid)
        until = time.monotonic() + _SPAN_S
        while time.monotonic() < until or reader.num_records() < records + _SPAN_RECORDS:
            _check_alive(run)
            time.sleep(0.5)
        return (_cpu_s(run.pid) - seconds) / (reader.num_records() - records)


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
    pages = [page(run) for _ in range(runs)]
    return [
        figure("episodes in the log", "", [total]),
        figure("an episode folded", "µs of CPU", [1e6 / rate for rate in rates], reach=200),
        figure("episodes folded", "/s of CPU", rates),
        figure("index of an episode", "bytes", [size / total]),
        figure("first rows on a folded index", "s of CPU", firsts, reach=1.0),
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
