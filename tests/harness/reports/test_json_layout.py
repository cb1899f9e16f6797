"""JSON texts laid out for a reader."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.reports.json_layout import lay_out_json

ORDER = '{"id":7,"status":"open","lines":[{"sku":"A1","qty":2.50},{"sku":"B2","qty":1}],"tags":[]}'
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


def test_lines_break_between_fields() -> None:
    """Short parts stay on one line, scalar fields share lines, nested parts are indented."""
    assert lay_out_json(ORDER, 32) == [
        "{",
        '  "id": 7, "status": "open",',
        '  "lines": [',
        '    {"sku": "A1", "qty": 2.50},',
        '    {"sku": "B2", "qty": 1}',
        "  ],",
        '  "tags": []',
        "}",
    ]


def test_a_short_text_is_one_line() -> None:
    """What fits into the width is not broken."""
    assert lay_out_json(' {"id":\n7}', 20) == ['{"id": 7}']
    assert lay_out_json("[]", 1) == ["[]"]


@pytest.mark.parametrize("text", ["", "Order 7.", "7", '"a"', '{"a": ', '{"a": 1} and so on'])
def test_other_texts_are_left_alone(text: str) -> None:
    """Only whole JSON objects and arrays are laid out."""
    assert lay_out_json(text, 20) is None


@pytest.mark.slow
@given(st.lists(VALUES) | st.dictionaries(st.text(max_size=8), VALUES), st.integers(1, 100))
def test_the_content_stays(value: Any, width: int) -> None:
    """The lines are the same JSON, and a line that is too wide has only one field."""
    lines = lay_out_json(json.dumps(value, ensure_ascii=False), width)
    assert lines is not None
    assert json.loads("\n".join(lines)) == value
    for line in lines:
        body = line.strip().rstrip(",")
        if len(line) > width and body[-1] not in "{[]}":
            assert num_fields(body) == 1


def num_fields(line: str) -> int:
    """The number of fields or items on a line."""
    try:
        return len(json.loads(f"{{{line}}}"))
    except json.JSONDecodeError:
        return len(json.loads(f"[{line}]"))
