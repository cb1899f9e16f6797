"""Repairing JSON that is almost right."""

import msgspec
import pytest
from hypothesis import given

from rehearsal_room.harness.core.json_repair import repair_json
from tests.support.prompts import json_values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("```json\n{'order_id': 7,}\n```", {"order_id": 7}),
        ('Sure: {"a": True, "b": None} - done', {"a": True, "b": None}),
        ('{"a": "two\nlines", "b": [1, 2', {"a": "two\nlines", "b": [1, 2]}),
        ("{'it\\'s': 'a \"word\"'}", {"it's": 'a "word"'}),
        ('{"arguments": "{"city": "Bonn"}"}', {"arguments": {"city": "Bonn"}}),
        ('{"a": "cut', {"a": "cut"}),
    ],
)
def test_almost_right_json(text: str, value: object) -> None:
    """JSON that is almost right gives the value that it most likely means."""
    assert repair_json(text) == value


@given(json_values)
def test_valid_json_is_unchanged(value: object) -> None:
    """Valid JSON gives its own value."""
    text = msgspec.json.encode(value).decode()
    assert repair_json(text) == msgspec.json.decode(text)


@pytest.mark.parametrize("text", ["", "no", "{a: 1}", "{]"])
def test_what_cannot_be_repaired(text: str) -> None:
    """A text whose value is unclear is a ValueError."""
    with pytest.raises(ValueError, match="it is not JSON"):
        repair_json(text)
