"""The share of completed episodes, with its interval, and the interval's unit."""

from collections.abc import Mapping

from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.outcomes.units import Unit, UnitChoice, by_unit, choose_unit
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.viewer.index.run_index import RunIndex

Tries = Mapping[tuple[str, str], tuple[int, int]]  # by scenario and task: completed, in all


def completed_share(tries: Tries, unit: Unit) -> Interval[float] | None:
    """The share that is completed, with its 95 % interval. None: there is no try."""
    scores = {key: [1.0] * hits + [0.0] * (total - hits) for key, (hits, total) in tries.items()}
    return share_interval(by_unit(scores, unit))


def unit_of(index: RunIndex, asked: Unit | None) -> UnitChoice:
    """The unit of a run's intervals, which its settings may name: as `rehearse run` chooses it."""
    sql = "SELECT DISTINCT scenario, task FROM episodes WHERE ending IS NOT NULL"
    return choose_unit(index.rows(sql), asked)
