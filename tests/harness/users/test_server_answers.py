"""How the automaton of a task fills in the form of an MCP server."""

from typing import Any

import pytest

from rehearsal_room.harness.users.server_answers import filled_in
from rehearsal_room.scenarios.core.dialogue import UserAutomaton, UserLine

USER = UserAutomaton(
    (
        UserLine("order", "It is order A-17.", asked=("order*",), values=("A-17",)),
        UserLine("day", "On Friday, please.", asked=("day", "when")),
        UserLine("parcels", "They are 2 parcels.", asked=("parcel*",)),
        UserLine("gift", "No, it isn't.", asked=("gift",)),
        UserLine("colours", "Red and blue.", asked=("colour*",)),
    )
)
DAY = {"type": "string", "enum": ["Monday", "Friday"]}
COLOURS = {"type": "array", "items": {"type": "string", "enum": ["red", "green", "blue"]}}


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("order_id", {"type": "string"}, "A-17"),
        ("id", {"type": "string", "description": "Which order is it?"}, "A-17"),
        ("when", {"type": "string"}, "On Friday, please."),
        ("day", DAY, "Friday"),
        ("day", {"oneOf": [{"const": 1, "title": "Monday"}, {"const": 5, "title": "Friday"}]}, 5),
        ("parcels", {"type": "integer"}, 2),
        ("parcels", {"type": "number"}, 2),
        ("is_gift", {"type": "boolean", "title": "A gift?"}, False),
        ("colours", COLOURS, ["red", "blue"]),
        ("address", {"type": "string"}, None),  # no line is asked for
        ("day", {"enum": ["Sunday"]}, None),  # the line says no such value
        ("order", {"type": "boolean"}, None),
    ],
)
def test_a_field_gets_what_the_line_says(name: str, field: dict[str, Any], value: Any) -> None:
    """The line is found by the field's words, and its value by the field's type; a user who has no
    line for it declines."""
    form = {"message": "Please.", "requestedSchema": {"properties": {name: field}}}
    expected: dict[str, Any] = {"action": "accept", "content": {name: value}}
    assert filled_in(USER, form) == ({"action": "decline"} if value is None else expected)


def test_a_form_is_filled_in_as_far_as_it_must_be() -> None:
    """A field that may be left out is left out, and the message asks for the only field."""
    fields = {"day": DAY, "address": {"type": "string"}}
    form = {"message": "Please.", "requestedSchema": {"properties": fields, "required": ["day"]}}
    assert filled_in(USER, form) == {"action": "accept", "content": {"day": "Friday"}}
    form["requestedSchema"] = {"properties": fields, "required": ["address"]}
    assert filled_in(USER, form) == {"action": "decline"}
    form = {"message": "Which order?", "requestedSchema": {"properties": {"value": {}}}}
    assert filled_in(USER, form) == {"action": "accept", "content": {"value": "A-17"}}
    assert filled_in(USER, {"message": "Open it", "url": "http://x"}) == {"action": "decline"}
