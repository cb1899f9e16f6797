"""What happened in each fifth of a second of a run, for its curves."""

from rehearsal_room.viewer.index.tables import MOMENT_COLUMNS, MOMENTS_PER_SECOND

STARTED, ENDED, RESTARTED, STEPS, JUDGED = range(5)
COMPLETED, REWARDS, REWARDED = range(5, 8)
POLICY_S, CALLS_S, WAITED_S = range(8, 11)


class Moments(dict[int, list[float]]):
    """The counts of each moment, in the order of MOMENT_COLUMNS; all 0 where nothing happened."""

    def __missing__(self, moment: int) -> list[float]:
        counts = self[moment] = [0] * len(MOMENT_COLUMNS)
        return counts

    def at(self, seconds: float) -> list[float]:
        """The counts of the moment of a time."""
        return self[int(seconds * MOMENTS_PER_SECOND)]

    def add_verdict(self, at: float, label: str, reward: float | None) -> None:
        """Count the first verdict on an episode."""
        if label == "environment_error":  # it says nothing about the agent
            return
        counts = self.at(at)
        counts[JUDGED] += 1
        counts[COMPLETED] += label == "completed"
        if reward is not None:
            counts[REWARDED] += 1
            counts[REWARDS] += reward
