"""The limit with the most replies per second, found by trying: no metrics, no clock.

    slow start    doubles the limit while that gets more replies
    hold          measures at a limit, and notices when much fewer or much more replies come
    try more      a step up; it stays there where the replies grew at least a little with the limit
    try fewer     a step down, where a step up got fewer replies: the best limit may be below
    search down   after a collapse: cuts again and again while that does not cost replies

A step up that changes nothing is doubled next time, one that gets fewer replies is halved: near a
limit above which a server collapses the steps are small, and far from it large. Limits between
which replies do not differ by more than chance are decided by the next windows.

The replies per second are compared, not the latency: a server that batches answers more per second
although each reply takes longer. The same idea steers PCC (Dong et al., NSDI 2015).
"""

import math
from collections.abc import Callable

from rehearsal_room.harness.admission.throughput import Rate

GROWTH = 0.1  # of the replies, relative to that of the limit, for which a larger limit is kept
_SMALLEST_WINDOW = 24  # replies
_START_STEP, _SMALLEST_STEP, _LARGEST_STEP = 0.5, 0.06, 1.0  # of the limit
_CAREFUL_STEP = 0.15  # after refusals and collapses
_LARGEST_SUCCESS = 0.35  # of the limit: a step after one that got more replies
_CLIFF = -0.3  # change of the replies after which the next step is much smaller
_SURE_BETTER, _SURE_WORSE, _SURE_COLLAPSE = 1.8, 2.0, 4.0  # standard errors
_NOT_ELASTIC = 0.6, 2.2  # a step up is over where replies grew less than this, by such a surety
_COLLAPSE = 0.25  # share of the replies that is missing
_CUT, _DEEPEST_FIRST_CUT = 0.7, 0.6
_HOLD, _TRY_FEWER_EVERY = 5.0, 14.0  # rounds; in one, as many replies come as episodes run
_LONGEST_TRY = 4.0  # rounds
_FEW_REFUSED = 0.05  # share of the requests; more of them end a step up
_MEMORY = 10.0  # rounds that a held rate counts
_NONE = Rate(0.0, 1.0)


class Climber:
    """Finds a limit between 1 and `most`, beginning with `first`.

    `decide` gets a limit and what was measured at it, and returns the next limit: another one, the
    same one (measure again), or None (measure on).
    """

    def __init__(self, first: int, most: int) -> None:
        self._first, self._most = first, most
        self._phase: Callable[[int, Rate, float], int | None] = self._slow_start
        self._known = _NONE  # at the limit that is held
        self._half = _NONE  # at half the limit, in slow start
        self._base = first  # the limit from which a step is tried
        self._step = _START_STEP
        self._since_try = self._since_fewer = 0.0  # rounds
        self._num_worse = 0  # steps up that got fewer replies, since a step down was tried
        self._num_low = 0  # windows in a row in which replies were missing
        self._tried: list[tuple[float, int]] = []  # in a search down: replies per second, limit
        self.reason = ""  # what bounds the limit: a sentence; empty: nothing is known

    def decide(self, limit: int, rate: Rate, refused: float) -> int | None:
        """The next limit. `refused` is the share of the requests that was refused."""
        return self._phase(limit, rate, refused)

    def hold(self, *, forget: bool) -> None:
        """Something else set the limit: measure at it. `forget`: it changed by much."""
        self._phase, self._since_try = self._hold, 0.0
        if forget:
            self._known, self._step = _NONE, _CAREFUL_STEP

    def is_collapse(self, limit: int, rate: Rate) -> bool | None:
        """Whether much fewer replies come than at this limit before; None: not known yet."""
        known = self._known
        if _seen(rate, known) < max(_SMALLEST_WINDOW, limit / 2):
            return None
        if known is _NONE:
            self._known = rate
            return False
        is_low = rate.change(known) < -max(_COLLAPSE, _SURE_COLLAPSE * rate.error(known))
        self._num_low = self._num_low + 1 if is_low else 0
        if not is_low:
            self._known = known.joined(rate, most=_MEMORY * limit)
        return self._num_low >= 2

    def _slow_start(self, limit: int, rate: Rate, refused: float) -> int | None:
        if _seen(rate, self._half) < max(_SMALLEST_WINDOW, limit / 2):
            return None
        half, self._half = self._half, rate
        if half is not _NONE and rate.change(half) < 0.06 + 0.5 * rate.error(half):
            return self._end_slow_start(limit, half, rate)
        if limit >= self._most:
            self._known, self._phase = rate, self._hold
            self.reason = f"{limit:,} is the most that is allowed"
            return limit
        return min(self._most, 2 * limit)

    def _end_slow_start(self, limit: int, half: Rate, rate: Rate) -> int:
        before = limit // 2
        self._explain(limit, rate, before, half)
        if before <= self._first:  # the best limit may be far below the first one
            return self._begin_search(limit, (rate.per_s, limit), (half.per_s, before))
        self._phase = self._hold
        if rate.change(half) < -0.15:
            self._known = half
            return before
        return round(1.41 * before)

    def _hold(self, limit: int, rate: Rate, refused: float) -> int | None:
        known = self._known
        collapsed = self.is_collapse(limit, rate)
        if collapsed is None:
            return None
        rounds = rate.replies / limit
        self._since_try += rounds
        self._since_fewer += rounds
        if collapsed:
            return self._begin_search(limit, (rate.per_s, limit))
        if self._num_low:
            return limit
        if known is not _NONE and self._is_rise(rate, known):
            self._known, self._step = rate, max(self._step, 0.5)
            return self._try_more(limit)
        if self._since_try < _HOLD or self._known.replies < 2 * limit:
            return limit
        patience = _TRY_FEWER_EVERY * (1.0 if self._num_worse else 4.0)
        if self._since_fewer > patience and limit > 1:
            return self._try_fewer(limit)
        if refused >= _FEW_REFUSED:
            self._since_try = 0.0
            return limit
        return self._try_more(limit)

    def _is_rise(self, rate: Rate, known: Rate) -> bool:
        return rate.change(known) > max(0.15, _SURE_COLLAPSE * rate.error(known))

    def _try_more(self, limit: int) -> int:
        if limit >= self._most:
            self._since_try, self._phase = 0.0, self._hold
            self.reason = f"{limit:,} is the most that is allowed"
            return limit
        self._base, self._phase = limit, self._more
        return min(self._most, max(limit + 1, round(limit * (1.0 + self._step))))

    def _more(self, limit: int, rate: Rate, refused: float) -> int | None:
        known, step = self._known, limit / self._base - 1.0
        seen = rate.expected_by(known)
        if seen < max(_SMALLEST_WINDOW / 2, limit / 4):
            return None
        change, error = rate.change(known), rate.error(known)
        is_long = seen >= max(2 * _SMALLEST_WINDOW, _LONGEST_TRY * limit)
        if refused > _FEW_REFUSED and rate.replies >= limit / 2:
            self._step = _CAREFUL_STEP
            self.reason = f"the server refused {refused:.0%} of the requests at {limit:,}"
            return self._go_back()
        if change - GROWTH * step > _SURE_BETTER * error or (is_long and change > GROWTH * step):
            # Not more than in proportion: a window that is good by chance would be believed.
            self._known = _at_most(rate, known.per_s * (1.0 + step))
            self._step = min(_LARGEST_SUCCESS, max(2.0 * self._step, 0.2))
            return self._try_more(limit)
        share, surety = _NOT_ELASTIC
        is_flat = change < 0 and change - share * step < -surety * error
        if change < -_SURE_WORSE * error - 0.02 or is_flat:
            self._step = max(_SMALLEST_STEP, self._step / (4.0 if change < _CLIFF else 2.0))
            self._num_worse += 1
        elif is_long:
            self._step = min(_LARGEST_STEP, 2.0 * self._step)
            self._num_worse = 0
        else:
            return None
        self._explain(limit, rate, self._base, known)
        return self._go_back()

    def _try_fewer(self, limit: int) -> int:
        self._base, self._phase = limit, self._fewer
        self._since_fewer, self._num_worse = 0.0, 0
        step = min(0.2, max(_SMALLEST_STEP, self._step))
        return max(1, min(limit - 1, round(limit * (1.0 - step))))

    def _fewer(self, limit: int, rate: Rate, refused: float) -> int | None:
        known = self._known
        seen = rate.expected_by(known)
        if seen < max(_SMALLEST_WINDOW / 2, limit / 4):
            return None
        change, error = rate.change(known), rate.error(known)
        is_long = seen >= max(2 * _SMALLEST_WINDOW, _LONGEST_TRY * limit)
        if change > _SURE_BETTER * error or (is_long and change > 0.02):
            self._explain(self._base, known, limit, rate)
            self._known, self._phase = rate, self._hold
            self._since_try, self._since_fewer = 0.0, _TRY_FEWER_EVERY
            return limit
        if is_long or change < -_SURE_WORSE * error - 0.01:
            back = self._go_back()
            self._since_try = _HOLD
            return back
        return None

    def _go_back(self) -> int:
        self._phase, self._since_try = self._hold, 0.0
        return self._base

    def _begin_search(self, limit: int, *tried: tuple[float, int]) -> int:
        """Cut the limit; a collapse to a small part of the replies cuts deeper."""
        self._tried, self._base, self._phase = list(tried), limit, self._search_down
        self._num_low = 0
        if len(tried) > 1:
            return max(1, round(tried[-1][1] * _CUT))
        left = tried[0][0] / self._known.per_s  # share of the replies
        self.reason = f"replies fell to {left:.0%} at {limit:,}"
        cut = max(_DEEPEST_FIRST_CUT, min(0.8, math.sqrt(left)))
        return max(1, min(limit - 1, round(limit * cut)))

    def _search_down(self, limit: int, rate: Rate, refused: float) -> int | None:
        if rate.replies < max(_SMALLEST_WINDOW, 0.7 * limit):
            return None
        self._tried.append((rate.per_s, limit))
        most, least = max(self._tried)[0], min(self._tried)[0]
        is_far = limit <= 0.3 * self._base and most < 1.2 * least and self._base > 2 * self._first
        if rate.per_s > 0.93 * most and limit > 1 and not is_far:
            return max(1, min(limit - 1, round(limit * _CUT)))
        self._phase, self._known = self._hold, _NONE
        self._since_try, self._step = 0.0, _CAREFUL_STEP
        good = [limit for per_s, limit in self._tried if per_s >= 0.93 * most]
        return round(math.sqrt(min(good) * max(good)))  # the best one is between equal ones

    def _explain(self, limit: int, rate: Rate, better: int, better_rate: Rate) -> None:
        """State why a limit is not chosen."""
        more = "more" if limit > better else "fewer"
        self.reason = (
            f"{more} did not get more replies: {limit:,} at once {rate.per_s:,.3g}/s, "
            f"{better:,} at once {better_rate.per_s:,.3g}/s"
        )


def _seen(rate: Rate, known: Rate) -> float:
    """How much a rate says: the replies that should have come. So a collapse is seen as soon as
    anything else, although it yields few replies."""
    return rate.replies if known is _NONE else rate.expected_by(known)


def _at_most(rate: Rate, per_s: float) -> Rate:
    return Rate(rate.replies, max(rate.seconds, rate.replies / per_s))
