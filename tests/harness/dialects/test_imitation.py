"""Replies that imitate the environment."""

import pytest

from rehearsal_room.harness.core.messages import Answer, FormatError, Reply
from rehearsal_room.harness.dialects.awm import Awm
from rehearsal_room.harness.dialects.hermes import Hermes
from rehearsal_room.harness.dialects.imitation import call_as_text, imitated_result

CALL = '<tool_call>\n{"name": "get_order", "arguments": {"order_id": 7}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "marker"),
    [
        ("Done. <tool_response>{}</tool_response>", "<tool_response>"),
        (f"{CALL}\n<tool_response>paid</tool_response>", "<tool_response>"),
        ("Done.<|im_end|><|im_start|>user", "<|im_end|>"),
        ('<tool_call>{"name": "note", "arguments": {"text": "<tool_response>"}}</tool_call>', None),
        ("I answered the user: all done.", None),
    ],
)
def test_a_result_that_the_model_wrote_itself(text: str, marker: str | None) -> None:
    """The markers of chat templates, outside of calls."""
    assert imitated_result(text) == marker


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"name": "list_notes", "arguments": {}}', "list_notes"),
        ('I will call {"name": "list_notes", "parameters": {"a": 1}} now.', "list_notes"),
        ('{"name": "list_notes"}', "list_notes"),
        ("<function=list_notes>{}</function>", "<function=list_notes>"),
        ("[TOOL_CALLS][]", "[TOOL_CALLS]"),
        ("<｜DSML｜invoke name=list_notes>", "<｜DSML｜invoke name="),
        ("<minimax:tool_call>", "<minimax:tool_call>"),
        ('<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "a"}]', "<|START_ACTION|>"),
        ('<|channel|>commentary to=functions.list_notes {"a": 1}', "to=functions.list_notes"),
        ("<function_calls>list_notes()</function_calls>", "<function_calls>"),
        ("```tool_code\nprint(list_notes())", "```tool_code"),
        ('The record is {"name": "Ann", "city": "Cork", "age": 3, "id": 4}.', None),
        ("Order 7 is paid.", None),
    ],
)
def test_a_call_as_text(text: str, name: str | None) -> None:
    """An answer that is or contains a call; a record with a name is none."""
    assert call_as_text(text) == name


@pytest.mark.parametrize("dialect", [Hermes(), Awm()])
def test_an_imitation_is_malformed_where_calls_are_read_from_text(dialect: Hermes | Awm) -> None:
    """The agent reads why; a plain answer stays one."""
    for text in (
        f"{CALL}\n<tool_response>paid</tool_response>",
        "It is paid. <tool_response>paid</tool_response>",
        '{"name": "get_order", "arguments": {"order_id": 7}}',
    ):
        assert isinstance(dialect.read(Reply(text), turn=0), FormatError), text
    assert dialect.read(Reply("It is paid."), turn=0) == Answer("It is paid.")
