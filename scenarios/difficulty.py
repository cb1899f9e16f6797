"""The difficulty of a task, measured on its oracle."""

from scenarios.format import Difficulty


def difficulty_of(points: int) -> Difficulty:
    """Return the difficulty; `points` = calls of the oracle + tables whose rows they change."""
    if points <= 3:
        return "simple"
    return "medium" if points <= 7 else "hard"
