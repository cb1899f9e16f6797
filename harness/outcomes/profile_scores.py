"""The score of a profile: what another project's own code says of a run's episodes."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from rehearsal_room.harness.core.events import ProfileVerdict
from rehearsal_room.harness.core.terminal_text import plural, printable


class ProfileScore(msgspec.Struct, frozen=True):
    """The score of a profile (setting `profile`): what its own project's code says of the episodes,
    beside our verdicts."""

    name: str  # of the score: the profile's, as in `awm-release`
    episodes: int  # that have a class
    classes: dict[str, int]  # of them, by class
    complete: float  # share of them in class `complete`
    mean_reward: float
    without: int  # episodes without a class: that project's code would have no result


def profile_score(verdicts: Iterable[ProfileVerdict | None]) -> ProfileScore | None:
    """The score from the verdicts of the episodes that are over, one for each (None: it has none);
    None: the run has no profile."""
    verdicts = list(verdicts)
    found = [one for one in verdicts if one is not None]
    if not found:
        return None
    classified = [one for one in found if one.classification]
    count = len(classified) or 1
    return ProfileScore(
        name=found[-1].profile,
        episodes=len(classified),
        classes=dict(sorted(Counter(one.classification for one in classified).items())),
        complete=sum(one.classification == "complete" for one in classified) / count,
        mean_reward=sum(one.reward or 0.0 for one in classified) / count,
        without=len(verdicts) - len(classified),
    )


def profile_line(score: ProfileScore) -> str:
    """The score of a profile in one line.

    Example: "awm-release: complete 0.500, mean reward 0.525, of 4 episodes (complete 2, incomplete
    1, server_error 1), 1 without a class"
    """
    classes = ", ".join(f"{name} {count:,}" for name, count in score.classes.items())
    without = f", {score.without:,} without a class" if score.without else ""
    figures = f"complete {score.complete:.3f}, mean reward {score.mean_reward:.3f}"
    text = f"{figures}, of {plural(score.episodes, 'episode')} ({classes}){without}"
    if not score.episodes:
        text = "no episode has a class"
    return printable(f"{score.name}: {text}", one_line=True)
