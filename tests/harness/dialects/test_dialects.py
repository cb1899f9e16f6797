import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envpool.core.types import ToolResult
from harness.core.errors import SettingsError
from harness.core.events import Record, StepTaken, decode_record, encode
from harness.core.messages import Act, AgentCall, Answer, Decision, FormatError, Message, Reply
from harness.dialects.awm import Awm, listing
from harness.dialects.base import Dialect, thoughts, unfit, without_thoughts
from harness.dialects.hermes import Hermes
from harness.dialects.json_repair import mended
from harness.dialects.native import Native
from harness.dialects.registry import NAMES, dialect_of
from scenarios.format import Call
from tests.support.prompts import BRIEFING, DIALECTS, answers, calls, json_values

NATIVE, HERMES, AWM, STRICT = Native(), Hermes(), Awm(), Awm(mend=False)
TEXT_DIALECTS: list[Dialect] = [HERMES, AWM, STRICT]

_fragments = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<think>", "</think>", "{", "}", "[", "]", '"', "'", ","),
        *('{"name": "ping", "arguments": {}}', '{"name": "list_tools"}', "null", "\\", "\ud800"),
        *('{"name": "call_tool", "arguments": {"tool_name": "ping", "arguments": "', "mcp_tool_"),
    ]
)
any_text = st.text() | st.lists(_fragments | st.text(max_size=8)).map("".join)


def each(dialects: list[Dialect]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("dialect", dialects, ids=lambda dialect: dialect.name)


def blocks(*bodies: str) -> str:
    return "\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)


@each(DIALECTS)
@given(text=any_text)
def test_any_text_is_read(dialect: Dialect, text: str) -> None:
    """Whatever a model writes, there is a decision and no exception."""
    assert isinstance(dialect.read(Reply(text), turn=3), Decision)


@each(TEXT_DIALECTS)
@given(value=json_values)
def test_any_json_in_a_call_is_read(dialect: Dialect, value: object) -> None:
    """A block may hold any JSON: there is a decision, and calls have a name and an object."""
    reply = Reply(f"<tool_call>{msgspec.json.encode(value).decode()}</tool_call>")
    decision = dialect.read(reply, turn=0)
    for call in decision.calls if isinstance(decision, Act) else ():
        assert call.name
        assert isinstance(call.arguments, dict)


@given(name=st.text(), arguments=json_values)
def test_any_native_call_is_read(name: str, arguments: object) -> None:
    """A server may give any name and arguments: only a name with an object is a call."""
    decision = NATIVE.read(Reply("", (AgentCall(name, arguments, "x"),)), turn=2)
    if name and isinstance(arguments, dict):
        assert decision == Act((AgentCall(name, arguments, "c2-0"),))
    else:
        assert isinstance(decision, FormatError)


@pytest.mark.parametrize("nested", ["[" * 100_000, '{"a":' * 100_000, "[" * 900 + "]" * 900])
@each(TEXT_DIALECTS)
def test_deep_nesting_is_a_format_error(dialect: Dialect, nested: str) -> None:
    """Arguments nested beyond reason are refused, and nothing overflows."""
    text = blocks('{"name": "call_tool", "arguments": {"tool_name": "x", "arguments": ' + nested)
    whole = blocks('{"name": "mcp_tool_x", "arguments": {"a": ' + "[" * 900 + "]" * 900 + "}}")
    assert not isinstance(dialect.read(Reply(text), turn=0), Answer)
    assert isinstance(dialect.read(Reply(whole), turn=0), FormatError)


@each(DIALECTS)
@given(call=calls, turn=st.integers(0, 30))
def test_what_is_written_is_read(dialect: Dialect, call: Call, turn: int) -> None:
    """read(write(call)) gives the call back, under the id of its turn."""
    read = dialect.read(dialect.write((call,), "", turn=turn), turn=turn)
    assert read == Act((AgentCall(call.name, call.arguments, f"c{turn}-0"),))


@each([NATIVE, HERMES])
@given(several=st.lists(calls, min_size=1, max_size=4), text=answers)
def test_several_calls_are_read(dialect: Dialect, several: list[Call], text: str) -> None:
    """Dialects with parallel calls give them back in order, with ids of their own."""
    read = dialect.read(dialect.write(several, text, turn=1), turn=1)
    wanted = [AgentCall(call.name, call.arguments, f"c1-{i}") for i, call in enumerate(several)]
    assert read == Act(tuple(wanted))


@each(DIALECTS)
@given(text=answers)
def test_an_answer_is_read(dialect: Dialect, text: str) -> None:
    """read(write(text)) gives the text as the answer."""
    assert dialect.read(dialect.write((), text, turn=0), turn=0) == Answer(text.strip())


@each(DIALECTS)
def test_an_unsayable_text_is_refused(dialect: Dialect) -> None:
    """A text that would be read as something else is not written."""
    with pytest.raises(ValueError, match="cannot hold"):
        dialect.write((), "I <think>think</think> so.", turn=0)
    if dialect.name != "native":
        with pytest.raises(ValueError, match="cannot hold"):
            dialect.write((), blocks("{}"), turn=0)


@each(DIALECTS)
def test_what_a_reply_gives_can_be_logged(dialect: Dialect) -> None:
    """Integers past 64 bits, which the log cannot hold, are format errors and no calls."""
    huge = str(2**64)
    text = blocks('{"name": "mcp_tool_ping", "arguments": {"a": [' + huge + "]}}")
    for reply in (Reply(text), Reply("", (AgentCall("ping", {"a": [2**64]}, ""),))):
        decision = dialect.read(reply, turn=0)
        assert not isinstance(decision, Act)
        record = Record("e", 0, 0, 0.0, StepTaken(Reply(text), decision))
        assert decode_record(encode(record)) == record


@each(DIALECTS)
def test_the_head_says_who_when_what(dialect: Dialect) -> None:
    """The head is a system prompt with user, clock and rules, then the task; worlds share it."""
    system, task = dialect.opening(BRIEFING)
    assert (system.role, task) == ("system", Message("user", "Void order 7."))
    for text in (BRIEFING.user, BRIEFING.now, BRIEFING.rules):
        assert text in system.content
    other = msgspec.structs.replace(BRIEFING, instruction="Void order 8.")
    assert dialect.opening(other)[0].content is system.content
    stranger = msgspec.structs.replace(BRIEFING, user="Bob")
    assert "Bob" in dialect.opening(stranger)[0].content


def test_where_the_tools_stand() -> None:
    """Native: in the request. Hermes: in the prompt, a line each. AWM: behind list_tools."""
    assert NATIVE.request_tools(BRIEFING) == BRIEFING.tools
    assert HERMES.request_tools(BRIEFING) == AWM.request_tools(BRIEFING) == ()
    prompt = HERMES.opening(BRIEFING)[0].content
    lines = prompt.partition("<tools>\n")[2].partition("\n<tools>")[0].splitlines()
    told = [msgspec.json.decode(line)["function"] for line in lines if line.startswith('{"type"')]
    assert told == [
        {"name": tool.name, "description": tool.description, "parameters": tool.schema}
        for tool in BRIEFING.tools
    ]
    assert "get_order" not in AWM.opening(BRIEFING)[0].content


def test_native_reads_calls() -> None:
    """Calls win over text; ids are ours, because servers give theirs twice in an episode."""
    reply = Reply("Let me see.", (AgentCall("ping", {}, "call_0"), AgentCall("ping", {}, "call_1")))
    assert NATIVE.read(reply, turn=4) == Act(
        (AgentCall("ping", {}, "c4-0"), AgentCall("ping", {}, "c4-1"))
    )
    broken = NATIVE.read(Reply("", (AgentCall("ping", '{"a": ', "x"),)), turn=0)
    assert broken == FormatError('The arguments of ping must be a JSON object, not {"a": .')


def test_native_history() -> None:
    """The history has the server's ids, each result under its call's."""
    reply = Reply("Hm.", (AgentCall("get_order", {"order_id": 7}, "call_a"),))
    results = (ToolResult("There is no order 7.", "refused"),)
    step = StepTaken(reply, NATIVE.read(reply, turn=0), results)
    assert NATIVE.turn(step) == (
        Message("assistant", "Hm.", reply.calls),
        Message("tool", "Error: There is no order 7.", call_id="call_a"),
    )


@pytest.mark.parametrize("ids", [("", ""), ("same", "same"), ("one", "")])
def test_native_history_without_ids(ids: tuple[str, str]) -> None:
    """Where a server gave no ids, or one twice, calls and results go by ours."""
    reply = Reply("", tuple(AgentCall("ping", {}, name) for name in ids))
    step = StepTaken(reply, NATIVE.read(reply, turn=1), (ToolResult("1"), ToolResult("2")))
    assistant, one, two = NATIVE.turn(step)
    assert [call.id for call in assistant.calls] == ["c1-0", "c1-1"]
    assert (one, two) == (
        Message("tool", "1", call_id="c1-0"),
        Message("tool", "2", call_id="c1-1"),
    )


def test_native_history_of_a_broken_call() -> None:
    """A call that was no call is told as text, which every server takes back."""
    reply = Reply("Now.", (AgentCall("ping", "{", "x"),))
    decision = NATIVE.read(reply, turn=0)
    assert isinstance(decision, FormatError)
    assert NATIVE.turn(StepTaken(reply, decision)) == (
        Message("assistant", "Now.\nping({)"),
        Message("user", decision.reason),
    )


PING = '{"name": "ping", "arguments": {}}'


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("All done.", Answer("All done.")),
        ("<think>call ping?</think>\n\nNo.", Answer("No.")),
        ("so I am done</think>Yes.", Answer("Yes.")),
        (f"<think>{blocks(PING)}</think>No.", Answer("No.")),
        (f"Look: {blocks(PING)}", Act((AgentCall("ping", {}, "c0-0"),))),
        (
            blocks(PING, '{"name": "get_order", "arguments": {"order_id": 7}}'),
            Act((AgentCall("ping", {}, "c0-0"), AgentCall("get_order", {"order_id": 7}, "c0-1"))),
        ),
        (blocks('{"name": "ping"}'), Act((AgentCall("ping", {}, "c0-0"),))),
        (
            '<tool_call>{"name": "say", "arguments": {"text": "</tool_call>"}}</tool_call>',
            Act((AgentCall("say", {"text": "</tool_call>"}, "c0-0"),)),
        ),
        ("<think>hm", FormatError("The reply stops inside <think>: it has no call and no answer.")),
        (f"<tool_call>{PING}", FormatError("A <tool_call> is not closed.")),
        (f"{PING}</tool_call>", FormatError("</tool_call> closes a tag that was never opened.")),
        (blocks('{"arguments": {}}'), FormatError("A tool call has no name.")),
        (blocks('{"name": 7}'), FormatError("A tool call has no name.")),
        (
            blocks("[]"),
            FormatError("A <tool_call> must hold a JSON object with name and arguments."),
        ),
        (
            blocks('{"name": "ping", "arguments": "x"}'),
            FormatError("The arguments of ping must be a JSON object."),
        ),
    ],
)
def test_hermes_reads(text: str, decision: Decision) -> None:
    """Calls are what stands in tags outside of thoughts; what is broken is said."""
    assert HERMES.read(Reply(text), turn=0) == decision


def test_hermes_names_bad_json() -> None:
    """Broken JSON is a format error even when a good block follows."""
    decision = HERMES.read(Reply(blocks("{nonsense", PING)), turn=0)
    assert isinstance(decision, FormatError)
    assert decision.reason.startswith("A <tool_call> does not hold valid JSON: ")


def test_hermes_history() -> None:
    """The reply stays as it was written; all results come in one user message."""
    reply = Reply(f"<think>a</think>{blocks(PING, PING)}")
    results = (ToolResult("pong"), ToolResult("no", "refused"))
    step = StepTaken(reply, HERMES.read(reply, turn=0), results)
    assert HERMES.turn(step) == (
        Message("assistant", reply.text),
        Message(
            "user",
            "<tool_response>\npong\n</tool_response>\n<tool_response>\nError: no\n</tool_response>",
        ),
    )
    last = Reply("Done.")
    assert HERMES.turn(StepTaken(last, Answer("Done."))) == (Message("assistant", "Done."),)


def get_order(text: str = "7") -> Act:
    return Act((AgentCall("get_order", {"order_id": int(text)}, "c0-0"),))


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        (blocks('{"name": "list_tools", "arguments": null}'), "list"),
        (blocks('{"name": "list_tools"}', PING), "list"),
        (
            blocks(
                '{"name": "call_tool", "arguments": '
                '{"tool_name": "mcp_tool_get_order", "arguments": "{\\"order_id\\": 7}"}}'
            ),
            get_order(),
        ),
        (
            blocks(
                '{"name": "call_tool", "arguments": '
                '{"tool_name": "get_order", "arguments": {"order_id": 7}}}'
            ),
            get_order(),
        ),
        (blocks('{"name": "mcp_tool_get_order", "arguments": {"order_id": 7}}'), get_order()),
        (f"<think>{blocks(PING.replace('ping', 'mcp_tool_ping'))}</think> Done.", "ping"),
        ("<think>I am done.</think>Order 7 is void.", Answer("Order 7 is void.")),
        (
            blocks('{"name": "get_order", "arguments": {"order_id": 7}}'),
            FormatError(
                "There is no function 'get_order': call list_tools, or call_tool with a tool's "
                "name."
            ),
        ),
        (
            blocks('{"name": "call_tool", "arguments": {"arguments": "{}"}}'),
            FormatError("call_tool needs tool_name and arguments."),
        ),
    ],
)
@each([AWM, STRICT])
def test_awm_reads(dialect: Dialect, text: str, decision: Decision | str) -> None:
    """AWM's two functions become plain calls: the first one, wherever it stands."""
    if isinstance(decision, str):
        name = {"list": "list_tools", "ping": "ping"}[decision]
        decision = Act((AgentCall(name, {}, "c0-0"),))
    assert dialect.read(Reply(text), turn=0) == decision


_CALL = '{"name": "call_tool", "arguments": {"tool_name": "get_order", "arguments": %s}}'


@pytest.mark.parametrize(
    "text",
    [
        blocks("[" + _CALL % '{"order_id": 7}' + "]"),
        blocks(_CALL % '"{"order_id": 7}"'),
        blocks(_CALL % "\"{'order_id': 7,}\""),
        blocks("```json\n" + _CALL % '{"order_id": 7}' + "\n```"),
        blocks((_CALL % '{"order_id": 7}')[:-2]),
        blocks("nonsense", _CALL % '{"order_id": 7}'),
    ],
)
def test_awm_mends(text: str) -> None:
    """JSON that is almost right is read as the released agent reads it, and not when strict."""
    assert AWM.read(Reply(text), turn=0) == get_order()
    assert isinstance(STRICT.read(Reply(text), turn=0), FormatError)


def test_awm_arguments_that_are_no_object() -> None:
    """The released agent calls with no arguments then; strictly it is a format error."""
    reply = Reply(blocks(_CALL % '"[1, 2]"'))
    assert AWM.read(reply, turn=0) == Act((AgentCall("get_order", {}, "c0-0"),))
    assert isinstance(STRICT.read(reply, turn=0), FormatError)


def test_awm_unclosed_tag() -> None:
    """The released agent takes it as the answer; strictly it is a format error."""
    reply = Reply(f"<tool_call>{PING}")
    assert AWM.read(reply, turn=0) == Answer(f"<tool_call>{PING}")
    assert STRICT.read(reply, turn=0) == FormatError("A <tool_call> is not closed.")


def test_awm_has_one_call_a_turn() -> None:
    """Two calls in one turn cannot be said."""
    with pytest.raises(ValueError, match="one call a turn"):
        AWM.write((Call("ping"), Call("ping")), "", turn=0)


def test_awm_lists_tools() -> None:
    """list_tools is answered by the harness, in the released agent's layout."""
    (opener,) = AWM.openers()
    asked = AWM.read(AWM.write((opener,), "", turn=0), turn=0)
    assert asked == Act((AgentCall("list_tools", {}, "c0-0"),))
    assert AWM.local(asked.calls[0], BRIEFING) == ToolResult(listing(BRIEFING))
    assert AWM.local(AgentCall("ping", {}, "c1-0"), BRIEFING) is None
    assert listing(BRIEFING) == (
        "Available MCP Tools (3 tools):\n" + "=" * 80 + "\n\n"
        "1. mcp_tool_get_order\n"
        "   Description: One order with its lines.\n"
        "   Give its id.\n"
        "   Parameters:\n"
        "      - order_id: integer (required)\n"
        "        Description: The id.\n"
        "\n"
        "2. mcp_tool_void_order\n"
        "   Description: Void an order.\n"
        "   Parameters:\n"
        "      - order_id: integer (required)\n"
        "      - reason: string (optional)\n"
        "        Default: late\n"
        "        Allowed values: ['late', 'wrong']\n"
        "      - note: unknown (optional)\n"
        "      - notify: object (optional)\n"
        "        Properties:\n"
        "          - email: string (required)\n"
        "          - copies: integer (optional)\n"
        "\n"
        "3. mcp_tool_ping\n"
        "   Description: Nothing.\n"
        "   Parameters: None"
    )


def test_awm_history() -> None:
    """Results come back as a user message, or under role tool by setting."""
    reply = AWM.write((Call("ping"),), "", turn=2)
    step = StepTaken(reply, AWM.read(reply, turn=2), (ToolResult("gone", "refused"),))
    said = Message("assistant", reply.text)
    assert AWM.turn(step) == (said, Message("user", "Tool response:\nError: gone"))
    as_tool = Message("tool", "Error: gone", call_id="c2-0")
    assert dialect_of("awm-tool").turn(step) == (said, as_tool)


@pytest.mark.parametrize("name", NAMES)
def test_dialects_by_name(name: str) -> None:
    """A dialect is found by the name under which it is logged."""
    assert dialect_of(name).name == name


def test_an_unknown_dialect() -> None:
    """A wrong name is one sentence that tells the right ones."""
    with pytest.raises(SettingsError, match="no dialect 'xml'; there are native, hermes, awm"):
        dialect_of("xml")


@pytest.mark.parametrize(
    ("text", "spoken", "thought"),
    [
        ("plain", "plain", ""),
        (" <think> a </think> b ", "b", "a"),
        ("a</think>b", "b", "a"),
        ("<think></think>b", "b", ""),
        ("x <think>a</think> y <think>b</think> z", "x  y  z", "a"),
        ("x <think>cut", "x", ""),
    ],
)
def test_thoughts(text: str, spoken: str, thought: str) -> None:
    """Thoughts are told apart from what is said, also when the prompt began them."""
    assert (without_thoughts(text), thoughts(text)) == (spoken, thought)


@given(json_values)
def test_fit_values_can_be_logged(value: object) -> None:
    """What `unfit` lets through, MessagePack holds."""
    if unfit(value) is None:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(value)) == value


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
def test_mending(text: str, value: object) -> None:
    """JSON that is almost right gives what it means."""
    assert mended(text) == value


@given(json_values)
def test_mending_leaves_good_json_alone(value: object) -> None:
    """Good JSON means what it says."""
    text = msgspec.json.encode(value).decode()
    assert mended(text) == msgspec.json.decode(text)


@pytest.mark.parametrize("text", ["", "no", "{a: 1}", "{]"])
def test_beyond_mending(text: str) -> None:
    """What cannot be told is a ValueError."""
    with pytest.raises(ValueError, match="it is no JSON"):
        mended(text)
