"""How often situations are drawn: what people ask for all the time comes before the rare."""

from collections import Counter
from random import Random

from rehearsal_room.scenarios.generate.plan.chosen_situations import SituationDraw
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.situation_files import situations


def test_common_requests_come_more_often_than_rare_ones() -> None:
    """Of situations about payments alone, whatever their length."""
    same = [one for one in situations().values() if one.modules == ("payments",)]
    drawn: Counter[str] = Counter()
    for seed in range(400):
        first = SituationDraw(same, Knobs(forbidden=0, memory=0), Random(seed)).draw()
        assert first is not None
        drawn["common" if first.common else "rare" if first.rare else "usual"] += 1
    assert drawn["common"] > 5 * drawn["rare"]


def test_no_situation_is_both() -> None:
    """Common and rare exclude each other."""
    assert not [name for name, one in situations().items() if one.common and one.rare]
