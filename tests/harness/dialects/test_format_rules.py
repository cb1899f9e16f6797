"""Format rules: which steps they call malformed."""

import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolErrorKind, ToolResult
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.dialects.awm import Awm
from rehearsal_room.harness.dialects.format_rules import FormatSettings, make_rules
from rehearsal_room.harness.dialects.hermes import Hermes
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.scenarios.format import Call

AWM = Awm(lenient=False)
LIST, PING = Call("list_tools"), Call("ping")
RULES = make_rules(FormatSettings("awm"), AWM)


def reply_of(*calls: Call, text: str = "") -> Reply:
    return AWM.write(calls, text, turn=0)


def step(*calls: Call, error: ToolErrorKind | None = None) -> StepTaken:
    reply = reply_of(*calls)
    return StepTaken(reply, AWM.read(reply, turn=0), (ToolResult("text of the result", error),))


def fault_of(reply: Reply, *earlier: StepTaken) -> str | None:
    return RULES.decision_fault(AWM.read(reply, turn=len(earlier)), reply, earlier)


def test_a_well_behaved_episode() -> None:
    """The tool list, a call, an answer: nothing is malformed."""
    assert fault_of(reply_of(LIST)) is None
    assert fault_of(reply_of(PING), step(LIST)) is None
    assert fault_of(reply_of(text="Done."), step(LIST), step(PING)) is None


def test_the_list_comes_first() -> None:
    """A call or an answer before list_tools is malformed."""
    assert fault_of(reply_of(PING)) == "list_tools must be called first."
    assert fault_of(reply_of(text="Done.")) == "list_tools must be called first."


def test_the_list_comes_once() -> None:
    """A second list_tools is malformed."""
    reason = "list_tools was called already; it is called exactly once."
    assert fault_of(reply_of(LIST), step(LIST), step(PING)) == reason


def test_an_answer_needs_a_call() -> None:
    """An answer after list_tools alone, or after failed calls only, is malformed."""
    reason = "The reply answers before any tool was called with success."
    assert fault_of(reply_of(text="Done."), step(LIST)) == reason
    assert fault_of(reply_of(text="Done."), step(LIST), step(PING, error="refused")) == reason


def test_a_reply_has_a_thought() -> None:
    """A reply without a thought is malformed, unless the setting `think` is off."""
    bare = Reply('<tool_call>{"name": "list_tools"}</tool_call>')
    empty = Reply("<think> </think>" + bare.text)
    reason = "The reply has no thought within <think></think>."
    assert (fault_of(bare), fault_of(empty)) == (reason, reason)
    lenient = make_rules(FormatSettings("awm", think=False), AWM)
    assert lenient.decision_fault(AWM.read(bare, turn=0), bare, ()) is None


@pytest.mark.parametrize("error", ["unknown_tool", "arguments"])
def test_a_call_must_fit(error: ToolErrorKind) -> None:
    """A call of a tool that does not exist, or with arguments that do not fit, is malformed; a
    refused call is not."""
    assert RULES.results_fault(step(PING, error=error)) == "text of the result"
    assert RULES.results_fault(step(PING, error="refused")) is None
    assert make_rules(FormatSettings(), AWM).results_fault(step(PING, error=error)) is None


def test_dialects_without_list_tools() -> None:
    """The rules about list_tools do not apply to dialects that show the tools from the start."""
    rules = make_rules(FormatSettings("awm"), Hermes())
    reply = Reply("<think>easy</think>Done.")
    assert rules.decision_fault(Hermes().read(reply, turn=0), reply, ()) is None


@pytest.mark.parametrize(("name", "is_malformed"), [("basic", True), ("awm", True), ("off", False)])
def test_a_reply_that_cannot_be_read(name: str, is_malformed: bool) -> None:
    """A reply that the dialect cannot read is malformed under all rules but `off`."""
    rules = make_rules(msgspec.convert({"rules": name}, FormatSettings), Native())
    reply = Reply("<think>cut off")
    decision = Native().read(reply, turn=0)
    fault = rules.decision_fault(decision, reply, ())
    assert (fault == getattr(decision, "reason", None)) is is_malformed
    assert (fault is None) is not is_malformed


def test_basic_rules_ignore_order() -> None:
    """Under `basic` neither the order of calls nor thoughts matter."""
    rules = make_rules(FormatSettings(), AWM)
    for reply in (reply_of(PING), reply_of(text="Done."), Reply("Done.")):
        assert rules.decision_fault(AWM.read(reply, turn=0), reply, ()) is None


def test_settings_are_strict() -> None:
    """An unknown rule or key is an error that names it."""
    with pytest.raises(msgspec.ValidationError, match="rules"):
        msgspec.convert({"rules": "hard"}, FormatSettings)
    with pytest.raises(msgspec.ValidationError, match="punish"):
        msgspec.convert({"punish": 1}, FormatSettings)
