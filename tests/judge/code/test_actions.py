"""Rows of verbs that mean the same."""

import re

from rehearsal_room.judge.code.actions import _ROWS, actions


def test_one_pass_finds_each_row_of_a_text() -> None:
    """No verb begins as one of another row does: that one would be found in its place."""
    verbs = [(row, verb) for row, verbs in enumerate(_ROWS) for verb in verbs]
    pairs = [(a, b) for row, a in verbs for other, b in verbs if row != other and b.startswith(a)]
    text = "Refunded, turned down and now closed; notes of resent letters"
    alone = {row for row, verb in verbs if re.search(rf"\b{verb}", text.casefold())}
    assert (pairs, actions(text.casefold())) == ([], alone)
