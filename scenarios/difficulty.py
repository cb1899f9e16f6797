"""The word for what a task asks for, as it is measured."""

from scenarios.format import Difficulty


def difficulty_of(points: int) -> Difficulty:
    """The word for so many points: calls of the oracle plus tables whose rows they change."""
    if points <= 3:
        return "simple"
    return "medium" if points <= 7 else "hard"
