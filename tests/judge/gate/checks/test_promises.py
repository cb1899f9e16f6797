"""The gate's check that promised tools exist."""

from typing import Any

import pytest

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.judge.gate.checks.promises import missing_tools

START = "Begin a draft. Further\n    products are added one by one, then it is sent."


def tool(name: str, description: str = "Does it.", **properties: Any) -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": properties})


@pytest.mark.parametrize(
    ("others", "missing"),
    [
        ([tool("add_to_purchase"), tool("send_purchase")], []),
        ([tool("add_to_purchase"), tool("send_order")], ["send"]),
        ([tool("add_note"), tool("send_purchase")], ["add"]),
        ([], ["add", "send"]),
        ([tool("change_purchase", action={"enum": ["add", "send"]})], []),
    ],
)
def test_what_is_promised_must_be_there(others: list[ToolSpec], missing: list[str]) -> None:
    """A tool of the verb and the noun, or an action of one; other tools' do not count."""
    found = list(missing_tools([tool("start_purchase", START), *others]))
    assert [verb for verb in ("add", "send") if any(f"does {verb!r}" in one for one in found)] == (
        missing
    )
    assert len(found) == len(missing)


def test_other_sentences_promise_nothing() -> None:
    """A state, or a deed of the tool itself."""
    said = ("It is closed then.", "Orders are listed one by one.", "Then it is red.")
    assert list(missing_tools([tool("get_order", one) for one in said])) == []
