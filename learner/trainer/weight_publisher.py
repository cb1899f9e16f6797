"""Publish versions of the weights: each is written into a new folder, and the policies load it.

    versions/v1/    a Hugging Face directory with a model card (harness.core.policy_card)
    versions/v2/    …
    versions/best/  the version that the best evaluation measured (its files, linked)

A version is immutable: it is written under another name, then renamed, and later only removed as a
whole. v0 is the model that the run started with, in its original folder. A run that resumes from a
checkpoint trains the later batches again, so versions newer than the checkpoint are removed first:
their numbers will be used again.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import anyio.to_thread
import msgspec
import structlog

from rehearsal_room.harness.core.events import WeightsPublished
from rehearsal_room.harness.core.policy_card import CARD_NAME, PolicyCard
from rehearsal_room.learner.core.atomic_dirs import partial_path, reason, remove_atomically
from rehearsal_room.learner.core.checksums import check_checksums
from rehearsal_room.learner.core.errors import CheckpointError, DamagedError

_log = structlog.get_logger(__name__)

BEST = "best"
WriteCheckpoint = Callable[
    [Path, PolicyCard], None
]  # writes model and card to a new folder; in a thread


class TakesWeights(Protocol):
    """A policy whose weights can be replaced while episodes run."""

    async def take(self, version: str, folder: Path) -> None:
        """Sample with these weights from now on, and mark replies with the version. The policy's
        settings decide whether only new agents use them, or all agents from their next reply on."""


class WeightPublisher:
    """Publishes versions of the weights, one at a time."""

    def __init__(
        self,
        folder: Path,
        *,
        start: Path,
        card: PolicyCard,
        write: WriteCheckpoint,
        policies: Sequence[TakesWeights] = (),
        keep: int = 2,
    ) -> None:
        """Versions are written into `folder`, and the newest `keep` of them stay. `start` is the
        folder of v0; `card` is every version's model card except for version and step."""
        self._folder = folder
        self._start = start
        self._card = card
        self._write = write
        self._policies = tuple(policies)
        self._keep = keep
        self.version = 0  # the version that the policies sample with
        self._report: Callable[[WeightsPublished], None] | None = None
        self._unreported: list[WeightsPublished] = []

    def path_of(self, version: int) -> Path:
        """The folder of a version, if it still exists."""
        return self._start if version == 0 else self._folder / f"v{version}"

    @contextmanager
    def reporting_to(self, report: Callable[[WeightsPublished], None]) -> Iterator[None]:
        """In this block every published version is reported; first those that were published
        before."""
        for event in self._unreported:
            report(event)
        self._unreported.clear()
        self._report = report
        try:
            yield
        finally:
            self._report = None

    async def begin(self, version: int, step: int) -> None:
        """Make the policies sample with the version of a run that starts, or resumes after `step`
        batches. The version is written again if its folder is damaged or no longer exists."""
        await anyio.to_thread.run_sync(self._remove_after, version)
        if version and not await anyio.to_thread.run_sync(self._is_whole, version):
            await anyio.to_thread.run_sync(self._remove, [version])
            await self.publish(version, step)
        else:
            await self._hand_off(version)

    async def publish(self, version: int, step: int) -> Path:
        """Write the current weights as this version, and make the policies load it; returns its
        folder.

        Raises CheckpointError when it cannot be written; the earlier versions then stay.
        """
        card = msgspec.structs.replace(self._card, version=f"v{version}", step=step)
        path = self.path_of(version)
        await anyio.to_thread.run_sync(self._write, path, card)
        await self._hand_off(version)
        await anyio.to_thread.run_sync(self._remove, self._published()[: -self._keep])
        return path

    def keep_best(self) -> None:
        """Keep the version that the policies sample with as `best`, whatever becomes of its number;
        v0 stays where it is. Raises CheckpointError."""
        path, best = self.path_of(self.version), self._folder / BEST
        try:
            if best.exists():
                remove_atomically(best)
            if self.version:
                partial = partial_path(best)
                shutil.rmtree(partial, ignore_errors=True)
                shutil.copytree(path, partial, copy_function=_link)
                partial.rename(best)
        except OSError as exc:
            raise CheckpointError(f"{best}: cannot be written: {reason(exc)}") from exc

    async def _hand_off(self, version: int) -> None:
        path = self.path_of(version)
        for policy in self._policies:
            await policy.take(f"v{version}", path)
        self.version = version
        event = WeightsPublished(f"v{version}", str(path))
        if self._report is None:
            self._unreported.append(event)
        else:
            self._report(event)

    def _published(self) -> list[int]:
        """The published versions that exist, ascending, without v0."""
        names = [path.name for path in self._folder.glob("v*") if path.is_dir()]
        return sorted(int(name[1:]) for name in names if name[1:].isdecimal())

    def _is_whole(self, version: int) -> bool:
        """Whether a version's folder exists, with all files as they were written."""
        path = self.path_of(version)
        if not (path / CARD_NAME).is_file():
            return False
        try:
            check_checksums(path)
        except DamagedError as exc:
            _log.warning("version_damaged", why=str(exc), remedy="it is written again")
            return False
        return True

    def _remove_after(self, version: int) -> None:
        self._remove([later for later in self._published() if later > version])

    def _remove(self, versions: Sequence[int]) -> None:
        for version in versions:
            path = self._folder / f"v{version}"
            try:
                remove_atomically(path)
            except FileNotFoundError:
                continue
            except OSError as exc:
                raise CheckpointError(f"{path}: cannot be removed: {reason(exc)}") from exc


def _link(source: str, target: str) -> None:
    """The same file under another name; a copy where the disk has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
