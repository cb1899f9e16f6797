"""The layout of a training run's folder, for commands that read it."""

import subprocess
import sys
from pathlib import Path

from harness.log.schema import LOG_NAME
from learner.core.training_folder import is_training_folder, runs_in


def test_the_runs_of_a_training_folder(tmp_path: Path) -> None:
    """The rollouts come first, then the evaluations by batch; folders without a log are left
    out."""
    for name in ("rollouts", "evaluations/b000010", "evaluations/b000000", "evaluations/b000020"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("rollouts", "evaluations/b000010", "evaluations/b000000"):
        (tmp_path / name / LOG_NAME).touch()
    assert not is_training_folder(tmp_path)
    (tmp_path / "train.toml").touch()
    assert is_training_folder(tmp_path)
    assert runs_in(tmp_path) == [
        tmp_path / "rollouts",
        tmp_path / "evaluations" / "b000000",
        tmp_path / "evaluations" / "b000010",
    ]


def test_a_run_on_logs_has_no_rollouts(tmp_path: Path) -> None:
    """Its training folder has no run folder."""
    (tmp_path / "train.toml").touch()
    assert runs_in(tmp_path) == []


def test_the_layout_is_light_to_import() -> None:
    """Commands that only read a folder do not wait for torch."""
    check = "import sys, learner.core.training_folder; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0
