"""A soak: everything on, and everything fails now and then.

    python -m tests.support.soak EPISODES SEED      (`just soak`)

Two rollout processes play the bundled worlds with their code in sandbox workers, and publish the
run on an MQTT broker. A process of its own judges it over the broker, from a copy of the run; the
feed of a trainer takes batches from the run's log in another. A chaos file kills a rollout process
every ten seconds and a sandbox worker every three, cuts one reply in a hundred, loses the reply of
one tool call in a hundred, and restarts the broker three times. This program kills the judge twice
and the feed once.

Afterwards each episode has one ending and one verdict; its calls, results, states and label are
those of a run that was left alone, so that no write happened twice; the feed's batches are those of
the finished log; and no fault cost an episode.
"""

import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console

from rehearsal_room.harness.core.events import EpisodeEnded, Judged
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from tests.support.attempts import check_attempts, outcomes_of
from tests.support.broker import Mosquitto, mosquitto
from tests.support.soak_feed import batches

_SCENARIOS = ("shop_support", "claims_desk", "flight_desk")
_CHAOS = """
seed = {seed}
[policy.cut]
share = 0.01
[tools.lost_reply]
share = 0.01
[processes.kill]
every = 10
[workers.kill]
every = 3
[bus.restart]
at = [15, 30, 45]
command = {command}
"""
_CONCURRENCY = 256
_PATIENCE_S = 3600.0  # for each process
_LOOK_S = 0.05  # between two looks for a log
_LIVES = (6.0, 14.0)  # seconds after which a judge is killed, least and most

Process = subprocess.Popen[bytes]


class Soak:
    """One soak, in one folder."""

    def __init__(self, folder: Path, *, episodes: int, seed: int) -> None:
        self._folder = folder
        self._episodes = episodes
        self._seed = seed
        self._rng = random.Random(seed)
        self._run = folder / "soak"
        self._batches = folder / "batches.txt"
        self.seconds = 0.0  # until the run has ended
        self.num_killed = 0  # judges and feeds
        self.faults: dict[str, dict[str, int]] = {}  # by kind: injected, landed, retried …

    def run(self) -> None:
        """Play, judge, feed, and compare. Raises AssertionError for what was lost, doubled or
        changed."""
        alone = self._folder / "alone"
        with _broker(self._folder) as (broker, restart):
            began = time.monotonic()
            run = self._start("run", *self._disturbed(broker.url, restart))
            self._judge_and_feed(run, broker.url)
            self._await("run", run)
            self.seconds = time.monotonic() - began
        self._await("alone", self._start("alone", "run", *self._flags(), "-o", alone))
        self._check(alone)

    def _flags(self) -> Sequence[object]:
        sizes = ("-n", self._episodes, "-c", _CONCURRENCY, "--seed", self._seed)
        return *_SCENARIOS, "-p", "oracle", *sizes

    def _disturbed(self, bus: str, restart: str) -> Sequence[object]:
        """The command of the run that is disturbed; `restart` restarts the broker."""
        chaos = self._folder / "chaos.toml"
        command = msgspec.json.encode(restart).decode()
        chaos.write_text(_CHAOS.format(seed=self._seed, command=command), encoding="utf-8")
        return (
            *("run", *self._flags(), "-o", self._run, "--processes", 2, "--isolate"),
            *("--bus", bus, "--judge", "elsewhere", "--chaos", chaos),
        )

    def _judge_and_feed(self, run: Process, bus: str) -> None:
        """Judge and feed until both have ended; two judges and a feed are killed."""
        while not (self._run / LOG_NAME).exists():
            assert run.poll() is None, self._text("run")
            time.sleep(_LOOK_S)
        copy = self._folder / "copy"

        def judge() -> Process:
            judging = ("judge", self._run.name, "--follow", "--bus", bus, "-o", copy)
            return self._start("judge", *judging)

        feed = self._start_feed()
        self._kill_after_a_while(judge)
        feed.send_signal(signal.SIGKILL)
        feed.wait()
        self.num_killed += 1
        feed = self._start_feed()
        self._kill_after_a_while(judge)
        while judge().wait(_PATIENCE_S) != 0:
            assert run.poll() is None, self._text("judge")
        self._await("feed", feed)

    def _kill_after_a_while(self, start: Callable[[], Process]) -> None:
        """Start a process, and again whenever it ends (a broker that has just been restarted does
        not know the run for a moment), until it is killed."""
        process, deadline = start(), time.monotonic() + self._rng.uniform(*_LIVES)
        while time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            if process.poll() is not None:
                process = start()
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.num_killed += 1

    def _start_feed(self) -> Process:
        return self._open(
            "feed", "tests.support.soak_feed", self._run, self._batches, self._episodes
        )

    def _start(self, name: str, *arguments: object) -> Process:
        return self._open(name, "rehearsal_room.cli.main", *arguments)

    def _open(self, name: str, *command: object) -> Process:
        with self._output(name).open("ab") as output:
            words = [sys.executable, "-m", *map(str, command)]
            return subprocess.Popen(words, stdout=output, stderr=output)

    def _await(self, name: str, process: Process) -> None:
        assert process.wait(_PATIENCE_S) == 0, self._text(name)

    def _output(self, name: str) -> Path:
        return self._folder / f"{name}.txt"

    def _text(self, name: str) -> str:
        return self._output(name).read_text(errors="replace")[-3000:]

    def _check(self, alone: Path) -> None:
        with open_reader(self._run) as reader:
            records = [record for _, record in reader.records_after(0, 10**9)]
        check_attempts(records)
        ended = Counter(one.episode for one in records if isinstance(one.event, EpisodeEnded))
        assert len(ended) == self._episodes, len(ended)
        assert set(ended.values()) == {1}, ended.most_common(3)
        judged = Counter(one.episode for one in records if isinstance(one.event, Judged))
        assert judged == ended, (judged - ended, ended - judged)
        assert outcomes_of(self._run) == outcomes_of(alone)
        assert _labels(self._run) == _labels(alone)
        lines = self._batches.read_text(encoding="ascii").splitlines()
        assert lines == list(batches(self._run, self._episodes))
        report = msgspec.json.decode((self._run / "report.json").read_bytes())
        self.faults = report["faults"]
        assert all(counts["lost"] == 0 for counts in self.faults.values()), self.faults


def _labels(folder: Path) -> dict[str, object]:
    with open_reader(folder) as reader:
        return {row.episode: (row.label, row.reward) for row in reader.episodes()}


@contextmanager
def _broker(folder: Path) -> Iterator[tuple[Mosquitto, str]]:
    """A broker, and a shell command that restarts it."""
    pid = folder / "mosquitto.pid"
    broker = Mosquitto(folder, f"allow_anonymous true\npid_file {pid}")
    start = f"{mosquitto()} -d -c {shlex.quote(str(folder / 'mosquitto.conf'))}"
    kill = f"kill -9 $(cat {shlex.quote(str(pid))})"
    subprocess.run(["/bin/sh", "-c", start], check=True)
    try:
        yield broker, f"{kill}; sleep 0.5; {start}"
    finally:
        subprocess.run(["/bin/sh", "-c", kill], check=False)


def main(episodes: int, seed: int) -> None:
    """The command line."""
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), episodes=episodes, seed=seed)
        soak.run()
    console = Console(width=100)
    for name, counts in soak.faults.items():
        console.print(f"{name}: {', '.join(f'{count} {word}' for word, count in counts.items())}")
    console.print(
        f"{episodes:,} episodes in {soak.seconds:.0f} s, each with one ending and one verdict, "
        "equal to a run that was left alone; "
        f"{soak.num_killed} judges and feeds were killed"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
