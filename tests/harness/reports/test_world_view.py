"""A world on a terminal."""

import io

from rich.console import Console

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.reports.world_view import WorldReport, render_world
from rehearsal_room.scenarios.api import User


def test_a_long_description_of_a_tool_ends_with_an_ellipsis() -> None:
    """A description of several lines is shown as one, and what is cut says so."""
    tools = (
        ToolSpec("get", "One order\nwith its lines.", {}),
        ToolSpec("find", "word " * 30, {}),
    )
    user = User("ann", "Ann", "clerk")
    report = WorldReport("w", "W", "1", "", "2026-01-01", user, "", {"t": 1200}, tools, ())
    out = io.StringIO()
    render_world(report, Console(file=out, width=200))

    assert [line.strip() for line in out.getvalue().splitlines()[4:9]] == [
        "1 tables, 1,200 rows",
        "t 1,200",
        "",
        "2 tools",
        "get   One order with its lines.",
    ]
    assert f"find  {'word ' * 24}…" in out.getvalue()
