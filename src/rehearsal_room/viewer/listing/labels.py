"""Labels and notes by people, in the file of a run that `rehearse judge label` writes."""

import getpass
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.outputs import own_path
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.evidence import episode_digest
from rehearsal_room.judge.reliability.annotations import NAME, HumanLabel, LabelBook, own_labels
from rehearsal_room.viewer.index.hand_labels import HandLabel, HandLabels
from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.reading.filters import where_of

MAX_NOTE = 10_000  # characters


def labels_in(folder: Path) -> HandLabels:
    """What people said about the episodes of a run. Raises LogError."""
    me = getpass.getuser()
    with _as_log_error():
        said = own_labels(folder).said()
    found: dict[str, list[HandLabel]] = {}
    for one in sorted(said, key=lambda one: one.labeller != me):
        hand = HandLabel(one.labeller, one.labeller == me, one.label, one.note, one.at)
        found.setdefault(one.episode, []).append(hand)
    return HandLabels(me, found)


def agreement(index: RunIndex, labels: HandLabels) -> Mapping[str, int]:
    """How many of the user's labels agree and disagree with the judge. Raises LogError."""
    return {
        name: index.num_episodes(*where_of({"by_hand": [name]}, labels))
        for name in ("agrees", "disagrees")
    }


def add_label(
    folder: Path, trajectory: Trajectory, label: Label | None, note: str, *, seen: float | None
) -> None:
    """Say something about an episode in place of what the present user said before, at the time
    `seen` (None: nothing); no label and no note withdraw that. Raises LogError."""
    if len(note) > MAX_NOTE:
        raise LogError(f"note: at most {MAX_NOTE:,} characters, and this one has {len(note):,}")
    me = getpass.getuser()
    said = HumanLabel(
        trajectory.episode,
        label,
        episode_digest(trajectory),
        me,
        note,
        True,  # the page shows findings and verdicts
        time.time(),
    )
    with _as_log_error():
        is_added = LabelBook(own_path(folder / NAME)).add_after(said, seen)
    if not is_added:
        raise LogError(
            f"{trajectory.episode}: you labelled it in another window in the meantime; that label "
            "is shown now, and yours was not stored"
        )


@contextmanager
def _as_log_error() -> Iterator[None]:
    try:
        yield
    except JudgeError as exc:
        raise LogError(str(exc)) from exc
    except OSError as exc:
        raise LogError(f"the labels cannot be read or written: {exc}") from exc
