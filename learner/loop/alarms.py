"""Warnings of a run that collapses, from its metrics: each is given once.

    entropy        less than a tenth of what it was in the first batches
    equal groups   nearly all groups have equal rewards: nothing is compared any more
    control        special tokens inside of replies: many times as many as in the first batches

They stop nothing: a run may recover, and its checkpoints are there for anyone who wants to stop it.
"""

from collections import deque
from collections.abc import Mapping
from statistics import median

import structlog

from rehearsal_room.learner.loop.metrics import MetricValue

_FIRST = 5  # batches that later ones are compared with
_LATEST = 3  # batches whose median is compared
_COLLAPSED = 0.1  # of the first entropy
_EQUAL = 0.9  # share of the groups
_WINDOW = 10  # batches over which equal groups are counted
_MORE_CONTROL = 5.0  # times the first share
_LEAST_CONTROL = 0.01  # share of the sampled tokens
_log = structlog.get_logger(__name__)


class CollapseAlarm:
    """Watches the metrics of a run's batches. A resumed run compares with its first batches since
    then."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._firsts: dict[str, list[float]] = {}
        self._latest: dict[str, deque[float]] = {}
        self._groups: deque[tuple[float, float]] = deque(maxlen=_WINDOW)  # equal, all

    def watch(self, batch: int, values: Mapping[str, MetricValue]) -> None:
        """Take the metrics of a batch, and warn where they show a collapse."""
        entropy = self._moved("entropy", values)
        if entropy is not None and 0 <= entropy[1] < _COLLAPSED * entropy[0]:
            self._warn(
                batch,
                "entropy",
                f"the entropy is {entropy[1]:.3g}, and was {entropy[0]:.3g} in the first batches:"
                " the policy repeats itself; lower optimizer.lr, or raise loss.entropy",
            )
        control = self._moved("control_tokens", values)
        if control is not None and control[1] > max(_LEAST_CONTROL, _MORE_CONTROL * control[0]):
            self._warn(
                batch,
                "control",
                f"{control[1]:.1%} of the sampled tokens are special tokens inside of replies, and"
                f" {control[0]:.1%} were in the first batches: look at replies in `rehearse show`",
            )
        equal, trained = values.get("dropped/equal"), values.get("groups")
        dropped = values.get("groups_dropped")
        if isinstance(trained, int) and isinstance(dropped, int):
            self._groups.append((float(equal or 0), float(trained + dropped)))
        number, total = map(sum, zip(*self._groups, strict=True)) if self._groups else (0.0, 0.0)
        if len(self._groups) == _WINDOW and number >= _EQUAL * total:
            self._warn(
                batch,
                "equal groups",
                f"{number / total:.0%} of the groups of the last {_WINDOW} batches had equal"
                " rewards: the tasks are solved always or never; mix in others",
            )

    def _moved(self, name: str, values: Mapping[str, MetricValue]) -> tuple[float, float] | None:
        """The medians of a metric in the first and the latest batches; None: too few have it."""
        value = values.get(name)
        if not isinstance(value, int | float):
            return None
        firsts = self._firsts.setdefault(name, [])
        if len(firsts) < _FIRST:
            firsts.append(value)
            return None
        latest = self._latest.setdefault(name, deque(maxlen=_LATEST))
        latest.append(value)
        return (median(firsts), median(latest)) if len(latest) == _LATEST else None

    def _warn(self, batch: int, what: str, why: str) -> None:
        if what not in self._given:
            self._given.add(what)
            _log.warning("collapse_suspected", batch=batch, sign=what, why=why)
