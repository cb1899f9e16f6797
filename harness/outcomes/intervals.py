"""An estimate and the bounds of its interval, as all reports have them."""

from typing import Generic, TypeVar

import msgspec

Bound = TypeVar("Bound", bound="float | None", covariant=True)


class Interval(msgspec.Struct, Generic[Bound], frozen=True):
    """An estimate between two bounds.

    In an `Interval[float | None]` a value of None is not defined for its data, and bounds of None
    beside a value mean that the data do not show how uncertain it is.
    """

    value: Bound
    lower: Bound
    upper: Bound
