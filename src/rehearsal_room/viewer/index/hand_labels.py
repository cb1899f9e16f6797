"""Labels and notes by people, as tables show them and filters find them.

They are in a file of their own (`judge.reliability.annotations`), never in the index.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from rehearsal_room.harness.core.events import Label


class HandLabel(msgspec.Struct, frozen=True):
    """What one person said about an episode."""

    labeller: str
    is_mine: bool  # by the present user
    label: Label | None  # None: a note alone
    note: str
    at: float  # Unix seconds


class HandLabels(msgspec.Struct, frozen=True):
    """The labels and notes by people, by episode."""

    me: str = ""  # the name of the present user
    by_episode: Mapping[str, Sequence[HandLabel]] = {}

    def episodes(self, keeps: Callable[[HandLabel], bool]) -> list[str]:
        """The episodes that have such a label or note."""
        return [episode for episode, said in self.by_episode.items() if any(map(keeps, said))]

    def mine(self, episode: str) -> HandLabel | None:
        """What the present user said about an episode."""
        found = self.by_episode.get(episode, ())
        return next((one for one in found if one.is_mine), None)


NO_LABELS = HandLabels()
