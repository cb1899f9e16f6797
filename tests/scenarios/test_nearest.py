"""Suggestions for unknown names."""

import pytest

from rehearsal_room.scenarios.nearest import MAX_SUGGESTIONS, did_you_mean, nearest

NAMES = ["claims_desk", "flight_desk", "shop_support"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("shop", ["shop_support"]),
        ("SHOP", ["shop_support"]),
        ("shop-suport", ["shop_support"]),
        ("claim_desk", ["claims_desk", "flight_desk"]),
        ("nowhere", []),
        ("", []),
        ("sh", []),
    ],
)
def test_nearest_names(name: str, found: list[str]) -> None:
    """Names that contain the unknown one or are spelt alike, the best first; none for a name of
    one or two characters."""
    assert nearest(name, NAMES) == found


def test_few_names_are_suggested() -> None:
    """Of many near names only the best are suggested, and none twice."""
    assert nearest("task", [f"task-{number}" for number in range(50)] * 2) == [
        *("task-0", "task-1", "task-2")
    ]
    assert MAX_SUGGESTIONS == 3


def test_a_suggestion_is_the_end_of_a_sentence() -> None:
    """One, two or three names are joined to a question; no near name gives an empty text."""
    assert did_you_mean("shop", NAMES) == "; did you mean 'shop_support'?"
    assert did_you_mean("desk", NAMES) == "; did you mean 'claims_desk' or 'flight_desk'?"
    assert did_you_mean("abc", ["abcd", "abce", "abcf"]) == (
        "; did you mean 'abcd', 'abce' or 'abcf'?"
    )
    assert did_you_mean("nowhere", NAMES) == ""
