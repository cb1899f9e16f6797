"""How much a test tries: little in `just test`, much more in `just test-long`.

The environment variable REHEARSAL_TEST_PROFILE chooses: `short` (the default) or `long`.
"""

import os

import pytest

IS_LONG = os.environ.get("REHEARSAL_TEST_PROFILE", "short") == "long"
_LONG_FACTOR = 20

# A test, or one of its parameters, whose like is in `just test` with other data.
only_long = pytest.mark.skipif(not IS_LONG, reason="`just test-long` runs it")


def examples(short: int) -> int:
    """The number of hypothesis's examples: `short`, or twenty times as many in the long profile."""
    return short * _LONG_FACTOR if IS_LONG else short


def repeats(*, short: int, long: int) -> int:
    """The number of repetitions, worlds or episodes in the profile that was chosen."""
    return long if IS_LONG else short
