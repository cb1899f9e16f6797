"""What the learner trains of a log, as plain values that can be compared."""

from pathlib import Path

from rehearsal_room.learner.data.group_feed import groups_of_logs
from rehearsal_room.learner.data.grouping import Grouping

SampledTokens = tuple[list[int], list[int], float]  # prompt, tokens and reward of a sample


def trained_content(folder: Path) -> list[tuple[str, list[SampledTokens]]]:
    """Each group of a run's log with its samples, sorted by group: the groups stand in the log in
    the order in which they began, which may differ. Raises LogError and SampleError."""
    grouping = Grouping()
    return sorted(
        (
            group.group,
            [
                (sample.prompt.tolist(), sample.tokens.tolist(), sample.reward)
                for rollout in group.rollouts
                for sample in rollout.samples
            ],
        )
        for group in groups_of_logs([folder], grouping)
    )
