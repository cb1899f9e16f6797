"""The runs that the tests of the page look at: real ones, made by the command line.

    .venv/bin/python -m tests.viewer_web.samples FOLDER      (the training run: it needs torch)

`mutant` and `oracle` play the same tasks; `agent` is a program that asks its model and sends spans;
`windows` has turns that fell out of the window; `judged` has verdicts of models that disagree;
`dialogue` has users; `learn` is a training run.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rehearsal_room.harness.log.reader import open_reader
from tests.support.paths import LIBRARY, ROOT

WORLDS = ("shop_support", "flight_desk")
AGENT = "tests.harness.agents.tracing:works"
RUNS = {
    "mutant": (*WORLDS, "-p", "mutant", "-g", "6"),
    "oracle": (*WORLDS, "-p", "oracle", "-g", "6"),
    "windows": ("shop_support", "-p", "mutant", "-g", "2", "--history", "last:3"),
    "dialogue": ("shop_support", "-p", "oracle", "-g", "1", "--dialogue"),
    "agent": ("shop_support", "-p", "oracle", "-n", "12", "--agent", AGENT),
    "judged": ("claims_desk", "-p", "mutant", "-g", "1"),
}
_TRAINING = """\
model = "model"
steps = 8
[rollouts]
scenarios = ["WORLD"]
group_size = 4
dialect = "hermes"
history = "last:2"
max_steps = 4
max_tokens = 24
[evaluation]
max_steps = 2
[data]
groups = 3
keep_equal = true
[loop]
staleness = 0
evaluate_every = 4
[metrics]
tensorboard = false
[compute]
device = "cpu"
threads = 1
"""


def rehearse(*arguments: object, cwd: Path = ROOT) -> None:
    """Run the command line; raises CalledProcessError, after its output, when it fails."""
    command = [sys.executable, "-m", "rehearsal_room", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise subprocess.CalledProcessError(done.returncode, command)


def make(folder: Path) -> None:
    """Make all runs in a folder; those that are there already stay."""
    for name, arguments in RUNS.items():
        if not (folder / name / "report.json").exists():
            rehearse("run", *arguments, "-o", folder / name)
    if not (folder / ".judged").exists():
        _judge(folder / "judged")
        (folder / ".judged").touch()


def make_training(folder: Path) -> None:
    """Train a model of a few thousand random weights for some batches. Needs torch."""
    from tests.support.tiny_model import write_model

    if (folder / "learn" / "report.json").exists():
        return
    write_model(folder / "model")
    text = _TRAINING.replace("WORLD", str(LIBRARY))
    (folder / "training.toml").write_text(text, encoding="utf-8")
    rehearse("train", "training.toml", "-o", "learn", cwd=folder)


@contextmanager
def _lying_judge(run: Path) -> Iterator[str]:
    """The URL of a judge that is right about two of three episodes."""
    with open_reader(run) as reader:
        truth = {row.task: str(row.label) for row in reader.episodes() if row.label is not None}
    path = run.parent / "truth.json"
    path.write_text(json.dumps(truth), encoding="utf-8")
    command = (
        *(sys.executable, "-m", "tests.support.judge_server", "--play", "lying", "--p", "0.35"),
        *("--truth", str(path), "--port", "0"),
    )
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
            server.stdout.close()


def _judge(run: Path) -> None:
    with _lying_judge(run) as url:
        rehearse("judge", run, "--mode", "hybrid", "-m", "judge-a", "--base-url", url)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    make_training(target)
