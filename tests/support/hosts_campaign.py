"""Two hosts, one of them cut off in the middle of a run: nothing is lost and nothing is doubled.

    python -m tests.support.hosts_campaign SECONDS ROUNDS      (`just hosts`; Linux, as root)

The hosts are network namespaces with a cable (veth) between them, and share no folder. On one are
the broker and the run (`--judge elsewhere`), on the other a judge and a training, which follow the
run, and a watcher. In the middle of the run the cable is pulled for so many seconds: in odd rounds
at the run's end of it, in even rounds at the others', where judge and training are also killed
meanwhile and started again. The run plays on. At the end

- the run's log has one ending and one verdict for each episode, which are those that the judge has
  given, and the judge has judged no attempt twice;
- the judge's copy of the run has the same records, and so has the training's;
- the training has made the batches and the losses of a training on the finished log, which follows
  nothing and is started when the hosts are gone;
- the watcher has shown each event once.
"""

import getpass
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rehearsal_room.harness.following.verdict_log import FOLDER
from rehearsal_room.learner.core.training_folder import COPY
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.broker import mosquitto
from tests.support.followed_runs import check_copied, check_judged_once, num_of, until, until_num
from tests.support.followed_training import FLAGS, SIZE, metrics_of, training_file
from tests.support.judged_runs import records_of
from tests.support.tiny_model import write_model_for

_BATCHES, _GROUPS = 12, 20
_EPISODES = _BATCHES * _GROUPS * SIZE
_ADDRESSES = ("10.213.77.1", "10.213.77.2")
_PORT = 1883
_ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}  # several processes compute at once


def main() -> None:
    """Cut the cable, round after round, and print what came of it."""
    seconds, rounds = float(sys.argv[1]), int(sys.argv[2])
    if os.geteuid() or shutil.which("ip") is None:
        raise SystemExit("this needs Linux, iproute2 and root: it makes network namespaces")
    table = Table("round", "cut at", "seconds", "ended meanwhile", "records")
    with tempfile.TemporaryDirectory(prefix="rehearse-hosts-") as folder:
        for number in range(1, rounds + 1):
            files = Path(folder) / str(number)
            try:
                row = play(files, number, seconds)
            except AssertionError:
                Console(stderr=True).print(output_of(files), markup=False)
                raise
            table.add_row(str(number), *map(str, row))
    Console().print(table)


def play(folder: Path, number: int, seconds: float) -> tuple[object, ...]:
    """One round; raises AssertionError where anything is lost or doubled."""
    folder.mkdir()
    run, copy = folder / "here" / "night", folder / "there" / "copy"
    trained = folder / "there" / "trained"
    [world] = write_microworlds(folder / "worlds", seed=3, count=1, split="train")
    model = write_model_for(world, folder / "model", hidden=16, layers=1)
    config = training_file(folder / "t.toml", model, "night", steps=_BATCHES, groups=_GROUPS)
    bus = f"mqtt://{_ADDRESSES[0]}:{_PORT}"
    follow = ("judge", "night", "--follow", "--bus", bus, "-o", copy)
    train = ("train", config, "--follow", "--bus", bus, "-o", trained)
    is_here = number % 2 == 1
    with two_hosts(number) as hosts:
        here, there = hosts
        with here.broker(folder), ExitStack() as stack:
            flags = ("-n", _EPISODES, "-c", 16, "--think", "0.8:1.2", "--seed", number)
            playing = here.start(stack, folder, "run", *_run(world, model, flags, bus, run))
            until_num(run, "ended", 5)
            judging = there.start(stack, folder, *follow)
            watching = there.start(
                stack, folder, "show", "watch", "night", "--bus", bus, "--events"
            )
            training = there.start(stack, folder, *train)
            until(lambda: len(metrics_of(trained)) >= 1, "the first batch")
            num_ended = num_of(run, "ended")
            (here if is_here else there).pull()
            began = time.monotonic()
            if not is_here:
                for process in (judging, training):
                    process.kill()
                    process.wait()
            time.sleep(min(2.0, seconds / 2))  # until what had arrived is written
            num_judged = num_of(run, "judged")
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            num_ended, num_judged = (
                num_of(run, "ended") - num_ended,
                num_of(run, "judged") - num_judged,
            )
            (here if is_here else there).plug_in()
            cut = time.monotonic() - began
            if not is_here:
                judging = there.start(stack, folder, *follow)
                training = there.start(stack, folder, *train, "--resume")
            for process in (playing, judging, watching, training):
                status = process.wait(300)
                assert status == 0, f"{process.args!r} ended with status {status}"
    assert num_ended > 0, "the run stood still while the hosts were apart"
    assert num_judged == 0, "verdicts arrived while the hosts were apart"
    check_copied(run, copy)
    check_judged_once(run, copy / FOLDER)
    check_copied(run, trained / COPY)
    check_shown_once(folder, run)
    check_batches(folder, model, run, trained)
    end = "the run's end" if is_here else "the judge's end"
    return end, f"{cut:.1f}", num_ended, len(records_of(run))


def _run(
    world: Path, model: Path, flags: tuple[object, ...], bus: str, folder: Path
) -> tuple[object, ...]:
    policy = ("-p", "local", "-m", model, *FLAGS, "--no-format-stop", "-g", SIZE)
    return (world, *policy, *flags, "--judge", "elsewhere", "--bus", bus, "-o", folder)


def check_batches(folder: Path, model: Path, run: Path, trained: Path) -> None:
    """The training has made the batches and the losses of one on the finished log."""
    config = training_file(folder / "l.toml", model, str(run), steps=_BATCHES, groups=_GROUPS)
    later = folder / "later"
    words = [sys.executable, "-m", "rehearsal_room", "train", str(config), "-o", str(later)]
    subprocess.run(words, check=True, capture_output=True, env=_ENVIRONMENT)
    found, expected = metrics_of(trained), metrics_of(later)
    assert len(found) == _BATCHES == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert math.isclose(value, other[name], rel_tol=1e-4, abs_tol=1e-6), (one, other)


def check_shown_once(folder: Path, run: Path) -> None:
    """The watcher has printed a line for each record of the run, and no other."""
    (watched,) = folder.glob("output-*-watch.txt")
    lines = watched.read_text(encoding="utf-8").splitlines()
    shown = Counter(" ".join(line.split()[:4]) for line in lines if " #" in line)
    expected = Counter(
        f"{record.episode} (attempt {record.attempt}) #{record.seq}" for record in records_of(run)
    )
    assert shown == expected


class Host:
    """A network namespace with one end of the cable."""

    def __init__(self, name: str, link: str, address: str) -> None:
        self.name, self._link, self._address = name, link, address
        self._num = 0
        ip("-n", name, "address", "add", f"{address}/24", "dev", link)
        ip("-n", name, "link", "set", "lo", "up")
        self.plug_in()

    def plug_in(self) -> None:
        """Plug the cable in at this end."""
        ip("-n", self.name, "link", "set", self._link, "up")

    def pull(self) -> None:
        """Pull the cable out at this end."""
        ip("-n", self.name, "link", "set", self._link, "down")

    @contextmanager
    def broker(self, folder: Path) -> Iterator[None]:
        """A broker on this host."""
        config = folder / "mosquitto.conf"
        config.write_text(
            f"user {getpass.getuser()}\nlistener {_PORT} {self._address}\n"
            "allow_anonymous true\npersistence false\n",
            encoding="utf-8",
        )
        command = ["ip", "netns", "exec", self.name, mosquitto(), "-c", str(config)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            time.sleep(0.5)
            try:
                yield
            finally:
                process.terminate()

    def start(
        self, stack: ExitStack, folder: Path, *arguments: object
    ) -> "subprocess.Popen[bytes]":
        """Start `rehearse` on this host; it is killed when the stack is closed."""
        self._num += 1
        output = folder / f"output-{self._num}-{arguments[0]}.txt"
        command = ["ip", "netns", "exec", self.name, sys.executable, "-m", "rehearsal_room"]
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*command, *map(str, arguments)],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=_ENVIRONMENT,
            )
        stack.callback(process.kill)
        return process


def output_of(folder: Path) -> str:
    """What all commands have printed last."""
    return "\n".join(
        f"{path.name}: {path.read_text()[-1500:]}" for path in folder.glob("output-*.txt")
    )


@contextmanager
def two_hosts(number: int) -> Iterator[tuple[Host, Host]]:
    """Two hosts with a cable between them; removed at the end."""
    names = [f"rehearse{os.getpid()}-{number}{side}" for side in "ab"]
    links = [f"rh{os.getpid() % 10_000}{number % 10}{side}" for side in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", links[0], "type", "veth", "peer", "name", links[1])
        for name, link in zip(names, links, strict=True):
            ip("link", "set", link, "netns", name)
        here, there = map(Host, names, links, _ADDRESSES)
        yield here, there
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def ip(*arguments: str) -> None:
    """Run `ip`. Raises CalledProcessError."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


if __name__ == "__main__":
    main()
