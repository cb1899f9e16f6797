"""The time in which a text is read grows with its length, whatever it is made of."""

import time

import pytest

from rehearsal_room.scenarios.core.statements import readings

PIECES = (
    *("a", "a-", "a@", "a.", "1-", "1 ", "1.", "1,", "one ", "one-", "a hundred and ", "+", "(12"),
    *("may ", "1 may ", "http://", "_", "é", "0 ", "1/1/", "12:30:", "half a ", "a_b-", "$"),
    *("1'000", "half past ", "thirty thousand ", "+4 (", "12-34-"),
)


@pytest.mark.parametrize("piece", PIECES)
def test_reading_is_linear(piece: str) -> None:
    """20,000 characters of one piece are read within two seconds on a slow machine; where each
    letter was a new beginning, it took up to nine."""
    began = time.process_time()
    readings(piece * (20_000 // len(piece)))
    assert time.process_time() - began < 2.0


def test_addresses_and_codes_are_read_as_before() -> None:
    """From their first character, in sentences and after signs."""
    found = {
        (one.kind, next(iter(one.options)))
        for one in readings("Mail <ana.lopez+x@pine-mail.example>, order R-407131 and CS-03a_b-1.")
    }
    assert found == {
        ("code", "ana.lopez+x@pine-mail.example"),
        ("code", "r-407131"),
        ("code", "cs-03a_b-1"),
    }
