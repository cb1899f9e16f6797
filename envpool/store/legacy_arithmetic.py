"""Sums, averages and rounding as SQLite computed them before 3.43, for worlds made with it.

Later versions use compensated summation (Kahan and Babuska) and round the exact value of a number.
AWM's records were generated and tested with earlier versions, and so were the figures that their
tools return: the sum of six prices differs in its last digits in a third of the cases, and 2.675
rounds to 2.68 or to 2.67.

Covers sum, total, avg (with OVER as well) and round to at most 15 significant digits. Does not
cover how a REAL becomes text in SQL (CAST, ||, printf): with 15 digits before 3.43, 17 after.

Source: sqlite.org, src/func.c (sumStep, roundFunc) and src/printf.c of version 3.40.1.
"""

import math
import re
from fractions import Fraction
from typing import Any

import apsw

_FLAGS = apsw.SQLITE_DETERMINISTIC | apsw.SQLITE_INNOCUOUS
_PREFIX = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(\s*)")
_SLACK = Fraction(3e-16)  # by which a value may lie below a half and still be rounded up
_LARGE = 2**52  # reals from here on have no fraction
_PLAIN, _NEAR = 1e12, 1e-3  # up to here, a product with 10**n is exact to this
_MIN, _MAX = -(2**63), 2**63 - 1


def use_legacy_arithmetic(connection: apsw.Connection) -> None:
    """Make SQL on this connection add and round as SQLite did before 3.43."""
    for name, kind in (("sum", _Sum), ("total", _Total), ("avg", _Average)):
        connection.create_window_function(name, kind, 1, flags=_FLAGS)
    connection.create_scalar_function("round", sqlite_round, 1, deterministic=True, flags=_FLAGS)
    connection.create_scalar_function("round", sqlite_round, 2, deterministic=True, flags=_FLAGS)


class _Sum:
    """The sum of the values that are not NULL: an integer if all are integers, else a real."""

    def __init__(self) -> None:
        self._num = 0
        self._whole = 0
        self._real = 0.0
        self._is_real = False
        self._overflows = False

    def step(self, *values: Any) -> None:
        """Add a row."""
        number = values[0]
        if type(number) is float:
            self._num += 1
            self._real += number
            self._is_real = True
            return
        number = _number(number)
        if number is None:
            return
        self._num += 1
        self._real += number
        if isinstance(number, float):
            self._is_real = True
        elif not self._is_real:
            self._whole += number
            self._is_real = self._overflows = not _MIN <= self._whole <= _MAX

    def inverse(self, *values: Any) -> None:
        """Remove the row that leaves the window."""
        number = _number(values[0])
        if number is not None:
            self._num -= 1
            self._real -= number
            self._whole -= 0 if isinstance(number, float) else number

    def value(self) -> int | float | None:
        """The result so far."""
        if not self._num:
            return None
        if self._overflows:
            raise apsw.SQLError("integer overflow")
        return self._real if self._is_real else self._whole

    def final(self) -> int | float | None:
        """The result."""
        return self.value()


class _Total(_Sum):
    """The sum as a real, 0.0 for no rows."""

    def value(self) -> float:
        return self._real


class _Average(_Sum):
    """The mean of the values that are not NULL."""

    def value(self) -> float | None:
        return self._real / self._num if self._num else None


def sqlite_round(*arguments: Any) -> float | None:
    """SQL's round(value, digits): a half is rounded up, and so is a little less than a half.

    Example: (399.265, 2) -> 399.27, though the nearest double lies below 399.265
    """
    value, digits = arguments if len(arguments) > 1 else (arguments[0], 0)
    number = _number(value)
    if number is None or digits is None:
        return None
    num_digits = min(max(int(_number(digits) or 0), 0), 30)
    real = float(number)
    if not abs(real) <= _LARGE:
        return real
    if num_digits == 0:
        return float(math.trunc(real + math.copysign(0.5, real)))
    scaled = abs(real) * 10.0**num_digits
    if scaled < _PLAIN and abs(scaled % 1 - 0.5) > _NEAR:  # not a half: all ways of rounding agree
        return round(real, num_digits)
    exact = abs(Fraction(real))
    half = Fraction(1, 2 * 10**num_digits)
    exponent = math.frexp(real)[1] - 1
    if num_digits + int(exponent / 3) < 15:
        half += exact * _SLACK
    units = (exact + half) * 10**num_digits // 1
    return math.copysign(float(Fraction(units, 10**num_digits)), real)


def _number(value: Any) -> int | float | None:
    """A value as SQLite's aggregates read it: a text counts as the number at its start.

    Example: "12" -> 12, "1.5 kg" -> 1.5, "kg" -> 0.0
    """
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else bytes(value).decode(errors="replace")
    match = _PREFIX.match(text)
    if match is None:
        return 0.0
    whole = match.end() == len(text) and isinstance(value, str)
    if whole and re.fullmatch(r"[+-]?\d+", match[1]) and _MIN <= int(match[1]) <= _MAX:
        return int(match[1])
    return float(match[1])
