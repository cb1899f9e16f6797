"""How much memory the answers of one server may take: each alone, and all that are in flight."""

import msgspec

MAX_ANSWER = 16 * 1024 * 1024  # bytes
MAX_ANSWERS = 256 * 1024 * 1024
_UNCOUNTED = 64 * 1024  # bytes of each answer that cost no budget; most answers are shorter


class AnswerLimits(msgspec.Struct, frozen=True):
    """Limits in bytes, as they arrive."""

    each: int = MAX_ANSWER
    together: int = MAX_ANSWERS

    def fault_of_length(self, length: int) -> str | None:
        """Why an answer of this length is refused; None: it is not."""
        return f"the answer is longer than {self.each:,} bytes" if length > self.each else None


class AnswerBudget:
    """The memory of all answers in flight of one client.

    When it is used up, an answer that has more than an equal share of it is refused; so a short
    answer never fails because of long ones.
    """

    __slots__ = ("_num_held", "held", "limits")

    def __init__(self, limits: AnswerLimits) -> None:
        self.limits = limits
        self.held = 0  # bytes of the answers that are counted
        self._num_held = 0

    def grow(self, before: int, now: int) -> str | None:
        """Count an answer that has grown from `before` to `now` bytes (`before` 0: it was not
        counted yet); return why it is refused, None: it is not.

        Every answer that was counted is given back with `release`.
        """
        self._num_held += before == 0
        self.held += now - before
        if self.held <= self.limits.together or now * self._num_held <= self.limits.together:
            return None
        return f"the answers in flight hold more than {self.limits.together:,} bytes together"

    def release(self, held: int) -> None:
        """An answer of which `held` bytes were counted is over (0: it was not counted)."""
        self._num_held -= held > 0
        self.held -= held


class AnswerMeter:
    """The memory of one answer after the other. `fault_at` is called with the bytes so far."""

    __slots__ = ("_budget", "_counted")

    def __init__(self, budget: AnswerBudget) -> None:
        self._budget = budget
        self._counted = 0

    def fault_at(self, length: int) -> str | None:
        """Why an answer is refused that has this many bytes so far; None: it is not."""
        if length <= _UNCOUNTED:
            return None
        fault = self._budget.limits.fault_of_length(length)
        if fault is None:
            fault = self._budget.grow(self._counted, length)
            self._counted = length
        if fault is not None:  # at once, so that the next one may fit
            self.end()
        return fault

    def end(self) -> None:
        """The answer is over."""
        if self._counted:
            self._budget.release(self._counted)
            self._counted = 0
