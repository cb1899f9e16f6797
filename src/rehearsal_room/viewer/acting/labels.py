"""Labels by the present user, in the file of a run that `rehearse judge label` writes."""

import getpass
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.outputs import own_path
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.evidence import episode_digest
from rehearsal_room.judge.reliability.annotations import HumanLabel, LabelBook, read_labels
from rehearsal_room.scenarios.files import own_fault

_LABELS = "labels.jsonl"  # as `rehearse judge label` names it


def labeller() -> str:
    """The name of the present user."""
    return getpass.getuser()


def labels_in(folder: Path) -> dict[str, Label | None]:
    """The labels of the present user, by episode. Raises LogError."""
    path = folder / _LABELS
    if fault := own_fault(path):
        raise LogError(f"{path}: {fault}")
    with _as_log_error():
        found = read_labels(path).by(labeller()) if path.exists() else {}
    return {episode: one.label for episode, one in found.items()}


def add_label(folder: Path, trajectory: Trajectory, label: Label | None, note: str) -> None:
    """Add a label; None withdraws it. Raises LogError."""
    with _as_log_error():
        LabelBook(own_path(folder / _LABELS)).add(
            HumanLabel(
                trajectory.episode,
                label,
                episode_digest(trajectory),
                labeller(),
                note,
                True,  # the page shows findings and verdicts
                time.time(),
            )
        )


@contextmanager
def _as_log_error() -> Iterator[None]:
    try:
        yield
    except JudgeError as exc:
        raise LogError(str(exc)) from exc
