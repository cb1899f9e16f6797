"""Labels that people gave, in a file of JSON lines: one label a line, appended and never changed.

    {"episode": "shop_support-void-7-0", "digest": "3f2a…", "label": "completed",
     "labeller": "ann", "note": "", "saw_findings": false, "at": 1790000000.0}

`episode` and `label` are required. Of two lines by one labeller on one episode the later counts,
and a `label` of null withdraws an earlier one; with a note it is a note alone. A last line that was
cut off, as by a crash, is ignored and removed before the file is appended to. Programs that append
at the same time wait for each other.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.scenarios.files import UNREADABLE, own_fault

NAME = "labels.jsonl"  # of the file in a run's folder
_LABELS = ", ".join(Label)


class HumanLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One person's label of one episode."""

    episode: str
    label: Label | None  # None: an earlier one is withdrawn, or there is a note alone
    digest: str = ""  # of the episode (see evidence.episode_digest); empty: unknown
    labeller: str = ""
    note: str = ""
    saw_findings: bool = False  # whether the labeller saw the verifier's findings before
    at: float = 0.0  # Unix seconds


class LabelFile(msgspec.Struct, frozen=True):
    """The content of such a file."""

    path: Path
    # By line number, those that count: the latest of each labeller on each episode that was not
    # withdrawn.
    labels: dict[int, HumanLabel]
    notes: tuple[HumanLabel, ...] = ()  # without a label, in the same sense
    cut: bytes = b""  # the last line, where it was cut off

    def by(self, labeller: str) -> dict[str, HumanLabel]:
        """One person's labels, by episode."""
        return {one.episode: one for one in self.labels.values() if one.labeller == labeller}

    def said(self) -> list[HumanLabel]:
        """The labels, and the notes without one."""
        return [*self.labels.values(), *self.notes]


_decode = msgspec.json.Decoder(HumanLabel).decode
_encode = msgspec.json.Encoder().encode


def read_labels(path: Path) -> LabelFile:
    """The labels of a file. Raises JudgeError, which names the line and the field."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as exc:
        raise JudgeError(f"{path}: the labels cannot be read: {exc}") from exc
    latest: dict[tuple[str, str], tuple[int, HumanLabel]] = {}
    cut = b""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            label = _decode(line)
        except UNREADABLE as exc:
            if number == len(lines) and not isinstance(exc, msgspec.ValidationError):
                cut = line
                continue
            raise JudgeError(f"{path}: line {number}: {_reason(exc)}") from exc
        latest[label.episode, label.labeller] = (number, label)
    counting = sorted(latest.values(), key=lambda one: one[0])
    labels = {n: one for n, one in counting if one.label is not None}
    notes = tuple(one for _, one in counting if one.label is None and one.note)
    return LabelFile(path, labels, notes, cut)


def own_labels(folder: Path) -> LabelFile:
    """The labels in a run's folder, none where there is no file. Raises JudgeError."""
    path = folder / NAME
    if fault := own_fault(path):
        raise JudgeError(f"{path}: {fault}")
    return read_labels(path) if path.exists() else LabelFile(path, {})


def _reason(exc: Exception) -> str:
    """What is wrong with a line, with the allowed labels where the label is wrong."""
    hint = f"; the labels are {_LABELS}" if "$.label`" in str(exc) else ""
    return f"{exc}{hint}"


def labels_of(
    found: LabelFile, digest_of: Callable[[str], str | None]
) -> dict[str, dict[str, Label]]:
    """The labels by episode and labeller, checked against the run that they are about.

    `digest_of` returns an episode's digest, None where the run has no such episode. Raises
    JudgeError for a label of an unknown episode, or of one that has changed since.
    """
    labels: dict[str, dict[str, Label]] = {}
    for number, one in found.labels.items():
        digest = digest_of(one.episode)
        if digest is None:
            raise JudgeError(
                f"{found.path}: line {number}: episode: the run has no episode {one.episode!r}"
            )
        if one.digest not in ("", digest):
            raise JudgeError(
                f"{found.path}: line {number}: digest: episode {one.episode!r} differs from the "
                f"labelled one (expected digest {one.digest}, found {digest})"
            )
        assert one.label is not None
        labels.setdefault(one.episode, {})[one.labeller] = one.label
    return labels


class LabelBook:
    """A file to which labels are appended durably.

    Making the book reads and repairs the file. Raises JudgeError where that fails.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._alone():
            self._found = read_labels(path) if path.exists() else LabelFile(path, {})
            self._repair()

    @property
    def removed(self) -> str:
        """The text of a last line that was cut off; empty: the file was complete."""
        return self._found.cut.decode(errors="replace")

    def by(self, labeller: str) -> dict[str, HumanLabel]:
        """A labeller's labels in the file when the book was made, by episode."""
        return self._found.by(labeller)

    def add(self, label: HumanLabel) -> None:
        """Append a label durably. Raises JudgeError where that fails."""
        with self._alone():
            self._write(_encode(label) + b"\n")

    def add_after(self, label: HumanLabel, seen: float | None) -> bool:
        """Append a label, unless its labeller has said something else on the episode since the time
        `seen` (None: since nothing was said); whether it was appended. Raises JudgeError."""
        with self._alone():
            found = read_labels(self.path).said() if self.path.exists() else []
            key = label.episode, label.labeller
            latest = next((one.at for one in found if (one.episode, one.labeller) == key), None)
            if latest != seen:
                return False
            self._write(_encode(label) + b"\n")
            return True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other program change the file until the block is left. The folder is locked: the
        file may not be there yet."""
        try:
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # writing says what is wrong
            yield
            return
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _repair(self) -> None:
        """Make the file end with a complete line."""
        if self._found.cut:
            with self._translated_errors(), self.path.open("r+b") as file:
                file.truncate(file.seek(0, os.SEEK_END) - len(self._found.cut))
        elif self.path.exists() and not (self.path.read_bytes() or b"\n").endswith(b"\n"):
            self._write(b"\n")

    def _write(self, data: bytes) -> None:
        with self._translated_errors(), self.path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            why = exc.strerror or exc
            raise JudgeError(f"{self.path}: the label cannot be written: {why}") from exc
