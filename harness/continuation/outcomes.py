"""How an episode ends with a turn, from the turn alone.

The episode loop asks after each turn; a resumed episode and a fork ask for the last one that they
keep.
"""

from collections.abc import Sequence

import msgspec

from rehearsal_room.envpool.core.types import WORLD_FAULTS, ToolResult
from rehearsal_room.harness.core.events import Ending, StepTaken
from rehearsal_room.harness.core.messages import NOTHING_SAID, Act, Answer, FormatError, Reply
from rehearsal_room.harness.dialects.format_rules import FormatRules, FormatSettings
from rehearsal_room.harness.settings.limits import Limits

EpisodeOutcome = tuple[
    Ending, str | None
]  # how an episode ended, and why where that needs a sentence
_MAX_ERROR_TEXT = 1_000  # characters of a broken tool's text; a server's page of HTML is longer


def failure_message(tool: str, result: ToolResult) -> str:
    """The error of an episode that ended because the world failed in a call.

    Example: ToolResult("ship took too long and was stopped.", "timeout") ->
    "the world failed in a call of ship: ship took too long and was stopped."
    """
    text = result.text
    if len(text) > _MAX_ERROR_TEXT:
        text = f"{text[:_MAX_ERROR_TEXT]}… ({len(text):,} characters)"
    return f"the world failed in a call of {tool}: {text}"


def cut_message(reply: Reply) -> str:
    """The reason why an episode ended with a reply that was cut off.

    Example: 512 sampled tokens -> "the reply was cut off at its limit of tokens, after 512 tokens"
    """
    sampled = reply.usage.completion_tokens
    after = f", after {sampled:,} tokens" if sampled else ""
    return f"the reply was cut off at its limit of tokens{after}"


def world_failure_in(step: StepTaken, limits: Limits) -> str | None:
    """How the world failed in a step, as a sentence, where that ends the episode; None: the episode
    continues."""
    if not isinstance(step.decision, Act) or not limits.stops_with_world:
        return None
    if (last := step.results[-1]).error not in WORLD_FAULTS:
        return None
    return failure_message(step.decision.calls[-1].name, last)


class TalkLength(msgspec.Struct, frozen=True):
    """How long an episode is, as limits count it."""

    messages: int = 0  # replies, messages of the user, and the results of the calls of each
    errors: int = 0  # failed calls of both

    def after(
        self, results: Sequence[ToolResult], acts: int, *, single: bool = False
    ) -> "TalkLength":
        """The length after messages with calls, which had these results. `single`: each call and
        each result is a message."""
        errors = sum(result.is_error for result in results)
        messages = 2 * (len(results) if single else acts)
        return TalkLength(self.messages + messages, self.errors + errors)

    def limit_reached(self, limits: Limits) -> str | None:
        """Which limit is reached, as a sentence; None: none is."""
        if limits.max_errors is not None and self.errors >= limits.max_errors:
            return f"{self.errors} tool calls failed"
        if limits.max_messages is not None and self.messages >= limits.max_messages:
            return f"{self.messages} messages"
        return None


def length_of(steps: Sequence[StepTaken], given: int, *, single: bool = False) -> TalkLength:
    """The length of an episode. `given`: turns at the start for which no agent was asked; `single`:
    see `TalkLength.after`."""
    length = TalkLength()
    for number, step in enumerate(steps):
        acted = isinstance(step.decision, Act)
        user = step.user
        acts = int(acted) if user is None else len(user.acts) or len(user.calls)
        length = length.after(step.executed_results, acts, single=single)
        spoken = int(number >= given and not acted and step.decision != NOTHING_SAID)
        if user is not None:
            spoken += bool(user.text) or not user.ended
        length = TalkLength(length.messages + spoken, length.errors)
    return length


def outcome_of(
    step: StepTaken, fault: str | None, format: FormatSettings, limits: Limits
) -> EpisodeOutcome | None:
    """How an episode ends with a step that breaks this format rule (None: none), limits on the
    whole episode aside; None: it goes on."""
    if step.reply.was_cut and isinstance(step.decision, FormatError):
        return Ending.TOKEN_LIMIT, cut_message(step.reply)
    if fault is not None and format.stop:
        return Ending.FORMAT_ERROR, fault
    if fault is None and isinstance(step.decision, Answer):
        is_over = not step.again and (step.user is None or step.user.ended)
        return (Ending.ANSWERED, None) if is_over else None
    failure = world_failure_in(step, limits)
    return None if failure is None else (Ending.WORLD_ERROR, failure)


def fault_of(step: StepTaken, rules: FormatRules) -> str | None:
    """The format rule that a logged step breaks; None: it breaks none."""
    if step.reward is None:
        return None
    if isinstance(step.decision, FormatError):
        return step.decision.reason
    return rules.results_fault(step) or ""
