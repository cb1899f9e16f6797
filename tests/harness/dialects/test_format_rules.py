import msgspec
import pytest

from envpool.core.types import ToolError, ToolResult
from harness.core.events import StepTaken
from harness.core.messages import Reply
from harness.dialects.awm import Awm
from harness.dialects.format_rules import FormatSettings, make_rules
from harness.dialects.hermes import Hermes
from harness.dialects.native import Native
from scenarios.format import Call

AWM = Awm(mend=False)
LIST, PING = Call("list_tools"), Call("ping")
RULES = make_rules(FormatSettings("awm"), AWM)


def said(*calls: Call, text: str = "") -> Reply:
    return AWM.write(calls, text, turn=0)


def step(*calls: Call, error: ToolError | None = None) -> StepTaken:
    reply = said(*calls)
    return StepTaken(reply, AWM.read(reply, turn=0), (ToolResult("text of the result", error),))


def broken(reply: Reply, *earlier: StepTaken) -> str | None:
    return RULES.before(AWM.read(reply, turn=len(earlier)), reply, earlier)


def test_a_well_behaved_episode() -> None:
    """The tool list, a call, an answer: nothing is malformed."""
    assert broken(said(LIST)) is None
    assert broken(said(PING), step(LIST)) is None
    assert broken(said(text="Done."), step(LIST), step(PING)) is None


def test_the_list_comes_first() -> None:
    """A call or an answer before list_tools is malformed."""
    assert broken(said(PING)) == "list_tools must be called first."
    assert broken(said(text="Done.")) == "list_tools must be called first."


def test_the_list_comes_once() -> None:
    """A second list_tools is malformed."""
    reason = "list_tools was called already; it is called exactly once."
    assert broken(said(LIST), step(LIST), step(PING)) == reason


def test_an_answer_needs_a_call() -> None:
    """Only list_tools, or only calls that failed, is not enough to answer."""
    reason = "The reply answers before any tool was called with success."
    assert broken(said(text="Done."), step(LIST)) == reason
    assert broken(said(text="Done."), step(LIST), step(PING, error="refused")) == reason


def test_a_reply_has_a_thought() -> None:
    """A reply without a thought is malformed, unless the setting does not ask for one."""
    bare = Reply('<tool_call>{"name": "list_tools"}</tool_call>')
    empty = Reply("<think> </think>" + bare.text)
    reason = "The reply has no thought within <think></think>."
    assert (broken(bare), broken(empty)) == (reason, reason)
    lenient = make_rules(FormatSettings("awm", think=False), AWM)
    assert lenient.before(AWM.read(bare, turn=0), bare, ()) is None


@pytest.mark.parametrize("error", ["unknown_tool", "arguments"])
def test_a_call_must_fit(error: ToolError) -> None:
    """A tool that is not there and arguments that do not fit are malformed; refusals are not."""
    assert RULES.after(step(PING, error=error)) == "text of the result"
    assert RULES.after(step(PING, error="refused")) is None
    assert make_rules(FormatSettings(), AWM).after(step(PING, error=error)) is None


def test_where_the_dialect_has_no_list() -> None:
    """Dialects that show the tools from the start are not asked for list_tools."""
    rules = make_rules(FormatSettings("awm"), Hermes())
    reply = Reply("<think>easy</think>Done.")
    assert rules.before(Hermes().read(reply, turn=0), reply, ()) is None


@pytest.mark.parametrize(("name", "reason"), [("basic", True), ("awm", True), ("off", False)])
def test_what_cannot_be_read(name: str, reason: bool) -> None:
    """The dialect's own complaint counts under every rule but `off`."""
    rules = make_rules(msgspec.convert({"rules": name}, FormatSettings), Native())
    reply = Reply("<think>cut off")
    decision = Native().read(reply, turn=0)
    given = rules.before(decision, reply, ())
    assert (given == getattr(decision, "reason", None)) is reason
    assert (given is None) is not reason


def test_basic_lets_the_agent_mend() -> None:
    """Under `basic` neither order nor thoughts matter."""
    rules = make_rules(FormatSettings(), AWM)
    for reply in (said(PING), said(text="Done."), Reply("Done.")):
        assert rules.before(AWM.read(reply, turn=0), reply, ()) is None


def test_settings_are_strict() -> None:
    """An unknown rule or key is an error that names it."""
    with pytest.raises(msgspec.ValidationError, match="rules"):
        msgspec.convert({"rules": "hard"}, FormatSettings)
    with pytest.raises(msgspec.ValidationError, match="punish"):
        msgspec.convert({"punish": 1}, FormatSettings)
