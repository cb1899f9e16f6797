"""Measure the viewer: folding a log, first rows, filters, and what a watched run loses.

    python -m benchmarks.viewer --episodes 100000 --live 10000 --runs 5

The log is that of a real run (the oracle on the bundled worlds, some ten turns an episode), whose
records are repeated under other names until there are enough episodes. Folding is measured in CPU
seconds of one process, full text included. The cost of being watched is the CPU of the run's
process, with and without a viewer whose page listens, in turns.
"""

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from statistics import median

import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from harness.log.reader import open_reader
from harness.log.schema import LOG_NAME
from harness.viewer.index.run_index import open_index
from harness.viewer.reading.episode_rows import episode_table, grid
from harness.viewer.reading.run_page import curves

_WORLDS = ("claims_desk", "flight_desk", "shop_support")
_QUERIES = 200
_THINK = "1:5"


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
    began = time.perf_counter()
    with open_reader(run) as reader, open_index(reader) as index:
        index.fold()
        episode_table(index, {"limit": ["100"]})
        curves(index)
        grid(index)
    return time.perf_counter() - began


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
            began = time.perf_counter()
            episode_table(index, query)
            seconds.append(time.perf_counter() - began)
    return sorted(seconds)


def run_cpu_s(folder: Path, live: int, *, watched: bool) -> float:
    """CPU seconds of a run with so many live episodes."""
    words = ("-p", "oracle", "-n", live, "-c", live, "--think", _THINK, "-o", folder)
    run = subprocess.Popen(
        rehearse("run", *_WORLDS, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if watched:
        with watching(folder):
            return _cpu_of(run)
    return _cpu_of(run)


def _cpu_of(run: "subprocess.Popen[bytes]") -> float:
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise SystemExit(f"the run ended with exit status {run.returncode}")
    used: resource.struct_rusage = usage
    return used.ru_utime + used.ru_stime


@contextmanager
def watching(folder: Path) -> Iterator[None]:
    """A viewer of a run, and a page that listens to its events."""
    while not (folder / LOG_NAME).is_file():
        time.sleep(0.05)
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
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        total = make_log(folder, episodes)
        run = folder / "run"
        rates = [total / fold(run) for _ in range(runs)]
        size = (run / "view.sqlite").stat().st_size
        firsts = [first_rows(run) for _ in range(runs)]
        queries = [filters(run) for _ in range(runs)]
        losses = []
        for number in range(runs if live else 0):
            pair = [
                run_cpu_s(folder / f"live-{number}-{watched}", live, watched=watched)
                for watched in ((False, True) if number % 2 else (True, False))
            ]
            plain, watched_cpu = pair if number % 2 else pair[::-1]
            losses.append(100 * (watched_cpu / plain - 1))
        p95 = [one[int(0.95 * len(one))] for one in queries]
        found = [
            figure("episodes in the log", "", [total]),
            figure("an episode folded", "µs of CPU", [1e6 / rate for rate in rates], reach=200),
            figure("episodes folded", "/s of CPU", rates),
            figure("index of an episode", "bytes", [size / total]),
            figure("first rows on a folded index", "s", firsts, reach=1.0),
            figure("filter p95", "ms", [1e3 * one for one in p95], reach=100),
            figure("filter p50", "ms", [1e3 * median(one) for one in queries]),
        ]
        if losses:
            found.append(figure("CPU that a watched run loses", "%", losses, reach=3))
        return found


@benchmark(__doc__)
@count_option("--episodes", 100_000, "Episodes in the log.")
@count_option("--live", 10_000, "Episodes live at once in the run that is watched.")
@runs_option(5)
def main(episodes: int, live: int, runs: int) -> list[Figure]:
    """The command line."""
    return figures(episodes, live, runs)


if __name__ == "__main__":
    main()
