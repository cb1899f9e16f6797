"""Tools of generated worlds whose ids other tools show."""

from rehearsal_room.scenarios.generate.content.drawn_world import draw_world
from rehearsal_room.scenarios.generate.content.shown_ids import with_usable
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.world_plans import plan_worlds


def test_a_tool_whose_id_no_other_shows_is_left_out() -> None:
    """Who cannot see an absence cannot cancel it; where a task needs it, the tool that shows the
    absences stays."""
    [plan] = plan_worlds(1, 3, Knobs(tasks=2, rows=60), trades=["hotel"], modules=[], among=())
    world = draw_world(plan)
    both = ["search_employees", "get_employee", "cancel_absence"]
    alone = ["search_employees", "cancel_absence"]
    assert with_usable(world, both, ()) == both
    assert with_usable(world, alone, ()) == ["search_employees"]
    assert with_usable(world, alone, ["cancel_absence"]) == both
    assert with_usable(world, ["get_my_profile", "move_employee"], ()) == ["get_my_profile"]
