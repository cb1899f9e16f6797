"""The shares of an evaluation by world and tag, against the same run's report."""

from pathlib import Path

import pytest

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.learner.loop.evaluation import shares_of
from tests.support.cli import Rehearse, json_of


def test_shares_by_world_and_tag(rehearse: Rehearse, tmp_path: Path) -> None:
    """pass@k of all tasks and pass@1 of each tag are those of the run's report; a world's are those
    of a run of this world alone."""
    words = ("-p", "mutant", "--seed", 3, "-g", 4)
    both = json_of(rehearse, "run", "shop_support", "flight_desk", *words, "-o", tmp_path / "both")
    with open_reader(tmp_path / "both") as reader:
        rows = reader.episodes()
    found = shares_of(rows, 4)
    statistics = both["statistics"]
    assert found["pass_at_4"] == pytest.approx(statistics["pass_at_k"]["4"]["value"])
    tags = {name: one["completed"]["value"] for name, one in statistics["tags"].items()}
    assert len(tags) > 3
    for tag, value in tags.items():
        assert found[f"pass_at_1/tag {tag}"] == pytest.approx(value)
    alone = shares_of([row for row in rows if row.scenario == "flight_desk"], 4)
    assert found["pass_at_4/flight_desk"] == alone["pass_at_4"]
    assert "pass_at_1/flight_desk" not in alone  # it would say the pass rate again
    assert not any(name.startswith("pass_at_4") for name in shares_of(rows, 1))
