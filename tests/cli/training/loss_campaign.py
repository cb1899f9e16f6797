"""Training runs that are killed, damaged and started twice at random moments lose nothing.

    python -m tests.cli.training.loss_campaign KILLS PAIRS SEED

Each run is killed at random moments until it ends. After a kill one byte of its newest checkpoint
or version is flipped, now and then; while it runs a second process is started in its folder, now
and then. The second must be refused in one sentence, and each run that ends must have the metrics
and weights of a run that nobody touched. `just test-slow` has a share (test_train_kill).
"""

import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from shutil import rmtree

from tests.cli.training.test_train_kill import (
    assert_same,
    changed,
    flip_byte,
    start,
    write_config,
)
from tests.support.warm_process import Child, WarmProcess, open_warm_process

_DAMAGED = 0.25  # share of the kills after which a byte is flipped


class _Campaign:
    def __init__(self, warm: WarmProcess, folder: Path, random: Random) -> None:
        self._warm, self._folder, self._random = warm, folder, random
        self._config = changed(write_config(folder), folder / "often.toml", every=1, keep=3)
        self.counts = Counter[str]()
        started = time.monotonic()
        self._whole = folder / "whole"
        errors = folder / "whole.txt"
        assert start(warm, self._config, self._whole, errors).wait() == 0, errors.read_text()
        self._seconds = time.monotonic() - started

    def one_run(self, kills: int, pairs: int) -> None:
        """Run until the end, with at most so many kills and second processes."""
        out, errors = self._folder / "run", self._folder / "run.txt"
        rmtree(out, ignore_errors=True)
        while True:
            child = start(self._warm, self._config, out, errors)
            ends = time.monotonic() + self._random.uniform(0.0, 0.7 * self._seconds)
            pair = self.counts["pairs"] < pairs and self._random.random() < 0.3
            if pair:
                time.sleep(self._random.uniform(0.0, 0.5 * self._seconds))
                self._second(child, out)
            while time.monotonic() < ends and child.poll() is None:
                time.sleep(0.005)
            if self.counts["kills"] < kills:
                child.send_signal(signal.SIGKILL)
            if (status := child.wait()) != -signal.SIGKILL:
                assert status == 0, errors.read_text()[-3000:]
                break
            self.counts["kills"] += 1
            self._damage(out)
        assert_same(out, self._whole)
        self.counts["runs"] += 1

    def _second(self, first: Child, out: Path) -> None:
        errors = self._folder / "second.txt"
        status = start(self._warm, self._config, out, errors).wait()
        refused = status == 2 and "another process is writing to this run" in errors.read_text()
        assert refused or first.poll() is not None, errors.read_text()[-3000:]
        self.counts["pairs"] += refused

    def _damage(self, out: Path) -> None:
        """Flip a byte where there is another checkpoint to return to."""
        if self._random.random() >= _DAMAGED:
            return
        if len(list(out.glob("checkpoints/c*"))) > 1:
            # A byte that is flipped twice would heal the file.
            flip_byte(out, "checkpoints/c*/*", self._random.random())
            self.counts["damaged checkpoints"] += 1
        elif list(out.glob("versions/v*")):
            flip_byte(out, "versions/v*/*rs", self._random.random())
            self.counts["damaged versions"] += 1


def main(kills: int = 200, pairs: int = 20, seed: int = 13) -> None:
    """Run the campaign and print what was done."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_warm_process("tests.support.warm_training") as warm,
    ):
        campaign = _Campaign(warm, Path(folder), Random(seed))
        while campaign.counts["kills"] < kills or campaign.counts["pairs"] < pairs:
            campaign.one_run(kills, pairs)
        counts = ", ".join(f"{count} {name}" for name, count in sorted(campaign.counts.items()))
        sys.stdout.write(
            f"{counts}: every run ended with the metrics and weights of an undisturbed one\n"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
