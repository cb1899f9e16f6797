"""The structure of worlds: lists, merged actions, coded refusals, what tables keep."""

import re
from random import Random
from typing import Any

import msgspec
import pytest

from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.plan.business_modules import module, module_names
from rehearsal_room.scenarios.generate.structure.schema_shapes import (
    kept_columns,
    kept_statements,
    shape_tables,
)
from rehearsal_room.scenarios.generate.structure.tool_shapes import shape_call, shape_tools
from rehearsal_room.scenarios.generate.structure.world_style import WorldStyle, draw_style

PLAIN = WorldStyle(lists="items", errors="plain", merged=0.0, stamps="none")


def styled(**fields: Any) -> WorldStyle:
    """The plain style with other fields."""
    return msgspec.structs.replace(PLAIN, **fields)


@pytest.mark.parametrize("name", module_names())
def test_shaped_code_can_be_compiled(name: str) -> None:
    """In every style, each module's tools are valid code, and no call names a tool that is hidden
    now."""
    for seed in range(4):
        one, shapes = shape_tools(module(name), draw_style(Random(seed)), Random(seed))
        text = "\n\n".join(piece.text for piece in one.code.pieces)
        compile(text, name, "exec")
        names = {piece.name for piece in one.code.pieces}
        assert {shape.name for shape in shapes.values()} <= set(one.tools)
        for gone in set(module(name).tools) - names:
            assert not re.search(rf"(?<!\w){gone}\(", text), gone


def test_actions_on_one_record_become_one_tool() -> None:
    """Approving, rejecting and cancelling a refund are one tool with an action; a situation's call
    of one of them is a call of it."""
    one, shapes = shape_tools(module("refunds"), styled(merged=1.0), Random(1))
    assert "update_refund" in one.tools and "approve_refund" not in one.tools
    call = shape_call(Call("approve_refund", {"refund_id": 7}), shapes)
    assert call == Call("update_refund", {"refund_id": 7, "action": "approve"})


def test_pages_replace_limits() -> None:
    """In the style of pages a limit is a page size."""
    one, shapes = shape_tools(module("orders"), styled(lists="pages"), Random(1))
    text = next(piece.text for piece in one.code.pieces if piece.name == "find_orders")
    assert "page: Page = 1" in text and "page_size: Limit" in text
    call = shape_call(Call("find_orders", {"customer_id": 7, "limit": 5}), shapes)
    assert call.arguments == {"customer_id": 7, "page_size": 5}


def test_refusals_have_codes() -> None:
    """In the coded style every refusal of a tool begins with one of three codes."""
    one, _ = shape_tools(module("orders"), styled(errors="coded"), Random(1))
    texts = "".join(piece.text for piece in one.code.pieces)
    codes = re.findall(r"ToolError\(\s*f?\"(\w+)", texts)
    assert codes and set(codes) <= {"not_found", "forbidden", "conflict"}


@pytest.mark.parametrize("stamps", ["updated_at", "version", "history"])
def test_tables_with_a_status_keep_more(stamps: str) -> None:
    """Each such table gets a column, or a table of its history."""
    style = styled(stamps=stamps)
    one = shape_tables(module("orders"), style)
    if stamps == "history":
        assert "orders_history" in one.tables
        assert "CREATE TRIGGER" in kept_statements(module("orders"), style, "2026-01-05T09:00:00Z")
    else:
        assert stamps in one.tables["orders"].columns and stamps in kept_columns(style)
    assert shape_tables(module("orders"), PLAIN).tables == module("orders").tables
