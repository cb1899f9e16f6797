"""What the tools of a world are tried with."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rehearsal_room.envpool.store.states import States
from rehearsal_room.judge.playback.tool_fuzzing import plausible


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ("orders", {"order_id"}),
        ("policies", {"policy_id"}),
        ("lenses", {"lense_id", "lens_id"}),
        ("cases", {"case_id", "cas_id"}),
        ("boxes", {"boxe_id", "box_id"}),
        ("names", {"name_id"}),
        ("staff", {"staff_id"}),
    ],
)
def test_a_key_goes_by_the_names_that_one_row_may_have(table: str, names: set[str]) -> None:
    """English has no rule that distinguishes `lens` from `case`, so that both ways are taken."""
    rows: dict[str, list[dict[str, Any]]] = {table: [{"id": 7, "note": None}]}
    template = SimpleNamespace(overlay=lambda: None)
    world = SimpleNamespace(template=template, dump=lambda _: rows)
    assert plausible(cast(States, world)) == {name: [7] for name in ("id", *names)}
