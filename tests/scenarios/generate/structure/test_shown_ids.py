"""Tools of generated worlds whose ids other tools show."""

from rehearsal_room.scenarios.generate.content.drawn_world import draw_world
from rehearsal_room.scenarios.generate.content.package_texts import with_promised_tools
from rehearsal_room.scenarios.generate.content.shown_ids import without_unusable
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.world_plans import plan_worlds


def test_a_tool_whose_id_no_other_shows_is_left_out() -> None:
    """Who cannot see an absence cannot cancel it; one that a task needs stays."""
    [plan] = plan_worlds(1, 3, Knobs(tasks=2, rows=60), trades=["hotel"], modules=[], among=())
    world = draw_world(plan)
    both = ["get_employee", "search_employees", "cancel_absence"]
    assert without_unusable(world, both, ()) == both
    assert without_unusable(world, ["search_employees", "cancel_absence"], ()) == [
        "search_employees"
    ]
    needed = ["search_employees", "cancel_absence"]
    assert without_unusable(world, needed, ["cancel_absence"]) == needed
    assert without_unusable(world, ["get_my_profile", "move_employee"], ()) == ["get_my_profile"]


def test_a_tool_that_another_one_promises_is_kept() -> None:
    """Who announces a return reads that further lines are added one by one."""
    [plan] = plan_worlds(1, 3, Knobs(tasks=2, rows=60), modules=["returns"], among=())
    world = draw_world(plan)
    assert with_promised_tools(world, ["announce_return"]) == ["announce_return", "add_return_line"]
    assert with_promised_tools(world, ["find_returns"]) == ["find_returns"]
