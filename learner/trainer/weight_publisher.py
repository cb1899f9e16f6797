"""Publishing: weights go into a folder of their own, and the policies take them.

    versions/v1/    a Hugging Face directory with the card (harness.core.policy_card)
    versions/v2/    …

A version is immutable: it is written beside, then renamed, and afterwards only ever removed as a
whole. v0 is the model that the run began with, in its own folder. A run that goes on from a
checkpoint trains the batches behind it again, so versions newer than the checkpoint are removed
before: their numbers will be given anew.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import anyio.to_thread
import msgspec

from harness.core.events import WeightsPublished
from harness.core.policy_card import CARD_NAME, PolicyCard
from learner.core.atomic_dirs import reason, removed_whole
from learner.core.errors import CheckpointError

Write = Callable[[Path, PolicyCard], None]  # writes model and card into a new folder; in a thread


class TakesWeights(Protocol):
    """A policy whose weights can be replaced while it plays."""

    async def take(self, version: str, folder: Path) -> None:
        """Sample with these weights from now on and stamp replies with the version: agents made
        from now on, or all from their next reply on, as the policy's settings say."""


class Publisher:
    """Publishes versions, one at a time."""

    def __init__(
        self,
        folder: Path,
        *,
        start: Path,
        card: PolicyCard,
        write: Write,
        takers: Sequence[TakesWeights] = (),
        keep: int = 2,
    ) -> None:
        """Versions go into `folder`, the last `keep` of them stay; `start` is where v0 is, `card`
        what every version's card says beside version and step."""
        self._folder = folder
        self._start = start
        self._card = card
        self._write = write
        self._takers = tuple(takers)
        self._keep = keep
        self.version = 0  # that the policies sample with
        self._tell: Callable[[WeightsPublished], None] | None = None
        self._untold: list[WeightsPublished] = []

    def path_of(self, version: int) -> Path:
        """Where a version is, if it is still there."""
        return self._start if version == 0 else self._folder / f"v{version}"

    @contextmanager
    def told_to(self, tell: Callable[[WeightsPublished], None]) -> Iterator[None]:
        """A block in which every version is told, those first that nobody was told of."""
        for event in self._untold:
            tell(event)
        self._untold.clear()
        self._tell = tell
        try:
            yield
        finally:
            self._tell = None

    async def begin(self, version: int, step: int) -> None:
        """Have the policies sample with the version of a run that begins, or goes on after `step`
        batches; it is written again where it is gone."""
        await anyio.to_thread.run_sync(self._forget_after, version)
        if version and not (self.path_of(version) / CARD_NAME).is_file():
            await self.publish(version, step)
        else:
            await self._hand_over(version)

    async def publish(self, version: int, step: int) -> Path:
        """Write the present weights as this version and hand them over; gives where they are.

        Raises CheckpointError when they cannot be written: what was published before stays.
        """
        card = msgspec.structs.replace(self._card, version=f"v{version}", step=step)
        path = self.path_of(version)
        await anyio.to_thread.run_sync(self._write, path, card)
        await self._hand_over(version)
        await anyio.to_thread.run_sync(self._remove, self._published()[: -self._keep])
        return path

    async def _hand_over(self, version: int) -> None:
        path = self.path_of(version)
        for taker in self._takers:
            await taker.take(f"v{version}", path)
        self.version = version
        event = WeightsPublished(f"v{version}", str(path))
        if self._tell is None:
            self._untold.append(event)
        else:
            self._tell(event)

    def _published(self) -> list[int]:
        """The versions that are there, ascending, v0 aside."""
        names = [path.name for path in self._folder.glob("v*") if path.is_dir()]
        return sorted(int(name[1:]) for name in names if name[1:].isdecimal())

    def _forget_after(self, version: int) -> None:
        self._remove([later for later in self._published() if later > version])

    def _remove(self, versions: Sequence[int]) -> None:
        for version in versions:
            path = self._folder / f"v{version}"
            try:
                removed_whole(path)
            except OSError as exc:
                raise CheckpointError(f"{path}: it cannot be removed: {reason(exc)}") from exc
