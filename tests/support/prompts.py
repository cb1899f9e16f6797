"""The briefing of a small world, every dialect, and strategies for replies and results."""

from typing import Any

from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import AgentCall, Briefing, Reply
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.registry import NAMES, dialect_of
from rehearsal_room.scenarios.format import Call

GET_ORDER = ToolSpec(
    "get_order",
    "One order with its lines.\n  Give its id.",
    {
        "type": "object",
        "properties": {"order_id": {"type": "integer", "minimum": 1, "description": "The id."}},
        "required": ["order_id"],
    },
)
VOID_ORDER = ToolSpec(
    "void_order",
    "Void an order.",
    {
        "type": "object",
        "properties": {
            "order_id": {"type": "integer"},
            "reason": {"enum": ["late", "wrong"], "type": "string", "default": "late"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "notify": {
                "type": "object",
                "properties": {"email": {"type": "string"}, "copies": {"type": "integer"}},
                "required": ["email"],
            },
        },
        "required": ["order_id"],
    },
)
PING = ToolSpec("ping", "Nothing.", {"type": "object", "properties": {}, "required": []})
BRIEFING = Briefing(
    "Void order 7.",
    "Only open orders can be voided.",
    (GET_ORDER, VOID_ORDER, PING),
    "Ann Lee (clerk)",
    "2026-03-14T09:30:00Z",
)
# Every dialect of the registry, and AWM's protocol in its strict form.
DIALECTS: list[Dialect] = [*map(dialect_of, NAMES), dialect_of("awm", lenient=False)]


def blocks(*bodies: str) -> str:
    """Tagged blocks with these bodies, one after the other."""
    return "\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)


texts = st.text(st.characters(codec="utf-8"))
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from(["</tool_call>", "<tool_call>", "<think>", "</think>", '"', "\\", "\n"])
)
json_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab_<>"), inner, max_size=4)
    ),
    max_leaves=12,
)
arguments = st.dictionaries(st.text("abc_", min_size=1), json_values, max_size=4)
tool_names = st.from_regex(r"[a-z][a-z_]{0,12}", fullmatch=True).filter(
    lambda name: name not in ("list_tools", "call_tool") and not name.startswith("mcp_tool_")
)
calls = st.builds(Call, tool_names, arguments)
answers = texts.filter(lambda text: "think>" not in text and "tool_call>" not in text)
results = st.builds(
    ToolResult,
    st.text(max_size=60),
    st.sampled_from([None, "unknown_tool", "arguments", "refused", "internal"]),
)


@st.composite
def steps(draw: Any, dialect: Dialect, turn: int = 0) -> StepTaken:
    """A step as the loop records it: a reply of any kind, as read, with results for its calls."""
    opening = dialect.opening_calls()
    call_of_any_tool = calls | st.sampled_from(opening) if opening else calls
    reply = draw(
        st.builds(lambda call: dialect.write((call,), "", turn=turn), call_of_any_tool)
        | st.builds(lambda text: dialect.write((), text, turn=turn), answers)
        | st.just(Reply("<tool_call>{", (AgentCall("x", "no json", ""),)))
    )
    decision = dialect.read(reply, turn=turn)
    num_calls = len(getattr(decision, "calls", ()))
    made = draw(st.lists(results, min_size=num_calls, max_size=num_calls))
    return StepTaken(reply, decision, tuple(made))
