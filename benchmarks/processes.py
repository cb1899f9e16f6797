"""Rollout processes: how much faster several of them play, and what streaming costs.

    python -m benchmarks.processes --runs 3

Compared are two independent `rehearse run` side by side, and one run with `--processes 2` and the
same episodes in all, in turns; the calls of their world cost 1 ms of CPU each. On the bundled
worlds, one process and two are compared. Rates are episodes a second from the first start to the
last verdict in the log. A ratio is that of the runs of one turn.

The ratio to two runs on the bundled worlds says how much of what two processors can give is lost:
on two hyperthreads of one core that is a third more than one, not twice as much.

Streaming: processes send the records of a logged run, again and again, as fast as they can; the
coordinator stores them.
"""

import ast
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from rehearsal_room.harness.core.events import EpisodeEnded, EpisodeStarted, Judged, Record
from rehearsal_room.harness.fleet.assignments import AssignmentBook
from rehearsal_room.harness.fleet.connection import FrameConnection
from rehearsal_room.harness.fleet.coordinator import Coordinator, start_workers
from rehearsal_room.harness.fleet.fork_server import ForkServer
from rehearsal_room.harness.fleet.messages import (
    EpisodeAssignments,
    Measured,
    ProcessReady,
    SendWorlds,
    Stop,
    Stored,
    WorldSnapshots,
)
from rehearsal_room.harness.fleet.messages import to_worker as message_in
from rehearsal_room.harness.fleet.process_worker import ProcessWorker
from rehearsal_room.harness.fleet.stream import StreamSink
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of
from rehearsal_room.harness.rollout.process import run as run_loop
from rehearsal_room.scenarios.catalogue import find

_WORLDS = ("shop_support", "claims_desk", "flight_desk")
_CALL_S = 0.001  # CPU seconds of a call
_BURN = f"""
import time
def _burn():
    ends = time.thread_time() + {_CALL_S}
    while time.thread_time() < ends:
        pass
"""


def slow_world(folder: Path) -> Path:
    """A copy of a bundled world whose tools compute for 1 ms before they do their work."""
    copy = folder / "shop_support"
    shutil.copytree(find("shop_support").path, copy, ignore=shutil.ignore_patterns("__pycache__"))
    tree = ast.parse((copy / "tools.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            first = int(ast.get_docstring(node) is not None)
            node.body.insert(first, ast.parse("_burn()").body[0])
    (copy / "tools.py").write_text(ast.unparse(tree) + _BURN, encoding="utf-8")
    return copy


def started(
    folder: Path, worlds: tuple[str, ...], episodes: int, *flags: str
) -> "subprocess.Popen[bytes]":
    """A run that was started."""
    words = ("run", *worlds, "-n", str(episodes), "-o", str(folder), *flags)
    command = [sys.executable, "-m", "rehearsal_room", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def rate_of(folder: Path) -> float:
    """Judged episodes a second, from the first start to the last verdict."""
    with closing(sqlite3.connect(folder / LOG_NAME)) as log:
        sql = "SELECT sum(kind = 'judged'), min(at), max(at) FROM events"
        episodes, first, last = log.execute(sql).fetchone()
    return float(episodes / (last - first))


def rate_with(folder: Path, worlds: tuple[str, ...], episodes: int, *flags: str) -> float:
    """The rate of one run. Exits when it fails."""
    shutil.rmtree(folder, ignore_errors=True)
    if started(folder, worlds, episodes, *flags).wait():
        raise SystemExit(f"a run with {' '.join(flags)} failed")
    return rate_of(folder)


def side_by_side(folder: Path, worlds: tuple[str, ...], episodes: int) -> float:
    """The sum of the rates of two runs that share the episodes and run at the same time."""
    folders = [folder / "first", folder / "second"]
    for one in folders:
        shutil.rmtree(one, ignore_errors=True)
    runs = [started(one, worlds, episodes // 2, "-c", "32") for one in folders]
    if any(one.wait() for one in runs):
        raise SystemExit("one of two runs failed")
    return sum(map(rate_of, folders))


class _Streaming:
    """A process that streams logged records under the names of the episodes that it is leased."""

    def __init__(
        self, sock: socket.socket, plans: list[EpisodePlan], records: list[Record]
    ) -> None:
        self._connection = FrameConnection(sock)
        self._sink = StreamSink(self._connection, None)
        self._plans = plans
        self._records = records

    async def serve(self) -> None:
        """Stream until stopped."""
        self._connection.put(ProcessReady(""))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._connection.send_all)
            tasks.start_soon(self._sink.send_batches)
            tasks.start_soon(self._sink.publish_stored)
            while True:
                match message_in(await self._connection.receive()):
                    case Stored(batch):
                        self._sink.on_stored(batch)
                    case SendWorlds():
                        self._connection.put(WorldSnapshots([]))
                    case EpisodeAssignments(leases):
                        for lease in leases:
                            tasks.start_soon(self._stream, self._plans[lease.index].episode)
                    case Stop():
                        break
            self._connection.put(Measured(b"", b"", b"", b"", 0, 0, 0, 0.0, {}))
            await self._connection.wait_until_sent()
            tasks.cancel_scope.cancel()

    async def _stream(self, episode: str) -> None:
        for record in self._records:
            self._sink.append(msgspec.structs.replace(record, episode=episode))
            await self._sink.wait_for_room()


def streamed(folder: Path, logged: Path, *, processes: int, num_records: int) -> float:
    """Records a second that processes stream into one log."""
    with open_reader(logged) as reader:
        records = [record for _, record in reader.records_after(0, limit=100_000)]
    episode = next(each.episode for each in records if isinstance(each.event, Judged))
    records = [each for each in records if each.episode == episode]
    kinds = {type(each.event) for each in records}
    assert kinds >= {EpisodeStarted, EpisodeEnded, Judged}
    scenario = find("shop_support")
    num = num_records // len(records)
    plans = list(plan_of([(scenario, scenario.tasks[0])], episodes=num, group_size=1, seed=0))

    def serve(sock: socket.socket, _number: int) -> None:
        async def stream() -> None:
            await _Streaming(sock, plans, records).serve()

        run_loop(stream)

    async def coordinate(server: ForkServer) -> float:
        start = partial(ProcessWorker, server)
        handles, _, _ = await start_workers(start, processes, silence=10.0)
        async with open_log(folder) as log:
            coordinator = Coordinator(
                AssignmentBook(plans, plans, (), judged=True),
                log,
                start=start,
                shares=[32] * processes,
                timeout=30.0,
                on_records=lambda _: None,
            )
            began = time.perf_counter()
            await coordinator.play(handles)
            await log.flush()
            return log.durable / (time.perf_counter() - began)

    with closing(ForkServer(serve)) as server:
        rate: float = run_loop(coordinate, server)
    return rate


def _lists() -> tuple[list[float], ...]:
    return tuple([] for _ in range(8))


def measure(folder: Path, runs: int, episodes: int) -> list[Figure]:
    """All figures."""
    slow = (str(slow_world(folder)),)
    apart, together, of_slow, one, two, of_bundled, of_apart, streams = _lists()
    num = episodes * 8  # the bundled worlds' calls cost a tenth
    for turn in range(runs):
        apart.append(side_by_side(folder, slow, episodes))
        together.append(rate_with(folder / "run", slow, episodes, "--processes", "2"))
        of_slow.append(together[-1] / apart[-1])
        one.append(rate_with(folder / "run", _WORLDS, num))
        two.append(rate_with(folder / "run", _WORLDS, num, "--processes", "2"))
        of_bundled.append(two[-1] / one[-1])
        of_apart.append(two[-1] / side_by_side(folder, _WORLDS, num))
        into = folder / f"stream{turn}"
        streams.append(streamed(into, folder / "run", processes=2, num_records=60_000))
    return [
        figure("1 ms calls: two runs side by side", "episodes/s", apart),
        figure("1 ms calls: --processes 2", "episodes/s", together),
        figure("1 ms calls: two runs ÷ --processes 2", "", [1 / r for r in of_slow], reach=1 / 0.9),
        figure("bundled worlds: one process", "episodes/s", one),
        figure("bundled worlds: --processes 2", "episodes/s", two),
        figure("bundled worlds: one process ÷ two", "", [1 / r for r in of_bundled], reach=1 / 1.4),
        figure("bundled worlds: two runs ÷ --processes 2", "", [1 / r for r in of_apart]),
        figure("streaming from two processes", "records/s", streams),
        figure("streaming", "µs a record", [1e6 / r for r in streams], reach=1e6 / 30_000),
    ]


@benchmark(__doc__)
@count_option("--episodes", 1000, "Episodes with slow calls; of the bundled worlds eight times.")
@runs_option(3)
def main(episodes: int, runs: int) -> list[Figure]:
    """The command line."""
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    with tempfile.TemporaryDirectory(prefix="rehearse-") as folder:
        return measure(Path(folder), runs, episodes)


if __name__ == "__main__":
    main()
