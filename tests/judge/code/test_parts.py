"""Where an answer counts a record among the wrong ones."""

import pytest

from rehearsal_room.judge.code.parts import misplaced
from rehearsal_room.judge.code.stated.sentences import Things

ACCEPTED = (
    "SH-11 and SH-12 leave on 12 March now. SH-13 was to leave later anyway. "
    "I could not move SH-14: it's too heavy."
)
THINGS = Things([ACCEPTED])


@pytest.mark.parametrize(
    ("answer", "sign"),
    [
        ("SH-11, SH-12 and SH-13 all leave on 12 March now.", "of sh-13 too"),
        ("SH-13 leaves on 12 March now. SH-11 and SH-12 keep their dates.", "sh-11 is as it was"),
        ("SH-11 leaves on 12 March now, but SH-12 stays.", "sh-12 is as it was"),
    ],
)
def test_a_record_among_the_wrong_ones_has_a_sign(answer: str, sign: str) -> None:
    """Also where every name and value is of the case."""
    assert sign in "; ".join(misplaced(ACCEPTED, answer, THINGS))


@pytest.mark.parametrize(
    "answer",
    [
        "Moved to 12 March: SH-12 and SH-11. SH-13 and SH-14 stay.",
        "SH-11 now goes on 12 March, and so does SH-12. SH-13 keeps its date.",
        "Not moved: SH-13, SH-14 (too heavy). The others leave on 12 March.",
    ],
)
def test_the_same_groups_in_other_words_have_none(answer: str) -> None:
    """Lists may be joined where the accepted answer says of neither that something was done."""
    assert list(misplaced(ACCEPTED, answer, THINGS)) == []
