"""What the model was sent for each turn, written again from the log by the code that wrote it: the
history window (harness.history), the dialect, and the writer of policy `openai`.

Only what the log has is used: the scenario as it was logged, the settings in run.toml, and what the
run has learned of its server. So a world whose package has changed or is gone does not matter.
"""

import os
from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec

from rehearsal_room.harness.chat.adaptive import AdaptiveWriter
from rehearsal_room.harness.chat.wire import RequestWriter
from rehearsal_room.harness.core.briefings import logged_briefing
from rehearsal_room.harness.core.errors import LogError, SettingsError
from rehearsal_room.harness.core.events import AGENT, HistorySummarized, StepTaken
from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.last_turns import FullWindow
from rehearsal_room.harness.history.windows import (
    HistoryFold,
    parse_history,
    turns_of,
    windows_of,
)
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.harness.policies.openai import (
    OPENAI_URL,
    OpenAISettings,
    request_seed,
    writer_of,
)
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.policies import openai_settings
from rehearsal_room.viewer.sent.asked import asked_for
from rehearsal_room.viewer.sent.shown import (
    LeftOut,
    SentAtTurn,
    SentRequest,
    curl_of,
    shown_body,
    shown_messages,
    with_ids,
)

TextOf = Callable[[Sequence[int]], str]
_Replied = StepTaken | HistorySummarized
_Writer = AdaptiveWriter | RequestWriter


class Began(msgspec.Struct, frozen=True):
    """What is known of the run of an episode, beside its log."""

    settings: Settings | None  # None: it has no run.toml
    is_own: bool = False  # this user began the run on this machine
    text_of: TextOf | None = None  # reads token ids; None: the tokenizer is not here


def sent_at(
    trajectory: Trajectory, world: ScenarioSnapshot | None, began: Began, turn: int
) -> SentAtTurn:
    """What the model was sent for a turn (from 0)."""
    if not 0 <= turn < len(trajectory.steps):
        return SentAtTurn(missing=f"The episode has {len(trajectory.steps)} turns.")
    if trajectory.asked or trajectory.started.policy.startswith(AGENT):
        return asked_for(trajectory.asked, turn)
    if (why := _not_asked(trajectory, turn)) is not None:
        return SentAtTurn(missing=why)
    if world is None:
        digest = trajectory.started.scenario_digest
        return SentAtTurn(
            missing=f"The log does not have the tools and rules of its scenario (digest {digest})."
        )
    try:
        rebuilding = _Rebuilding(trajectory, world, began)
    except (LogError, SettingsError) as exc:
        return SentAtTurn(missing=f"The request cannot be written again: {exc}")
    return SentAtTurn(rebuilding.requests(turn), rebuilding.missing)


def _not_asked(trajectory: Trajectory, turn: int) -> str | None:
    """Why no policy of this run was asked for a turn; None: one was."""
    started = trajectory.started
    if turn < started.given:
        return "The task gave this turn to the agent; no model was asked for it."
    if turn >= trajectory.first_own_turn:
        return None
    source = started.forked_from
    assert source is not None
    if turn >= source.turn:
        return "Somebody wrote this turn by hand for the fork; no model was asked for it."
    return (
        f"This turn is kept from {source.where}; the model was asked in that episode, which shows "
        "the request."
    )


class _Rebuilding:
    """The requests of one episode. Raises LogError and SettingsError."""

    def __init__(self, trajectory: Trajectory, world: ScenarioSnapshot, began: Began) -> None:
        started = trajectory.started
        self._trajectory = trajectory
        self._began = began
        self._dialect: Dialect = dialect_of(started.dialect)
        self._history = _history_of(trajectory)
        self._briefing = logged_briefing(
            started, rules=world.rules, tools=world.tools, user=world.user, now=world.now
        )
        self._model, self.missing = _model_of(trajectory, began)

    def requests(self, turn: int) -> list[SentRequest]:
        """Those of one turn, in order."""
        replies = self._trajectory.replies()
        prompts = self._trajectory.prompts()
        fold = HistoryFold(self._history, self._dialect, self._briefing)
        writer = self._writer()
        found, at = [], 0
        first_own = self._trajectory.num_context
        for number, (event, window) in enumerate(
            zip(replies, windows_of(fold, replies), strict=True)
        ):
            is_summary = isinstance(event, HistorySummarized)
            if at == turn:
                found.append(self._request(event, window, writer, prompts[number], at))
                if not is_summary:
                    break
            if isinstance(writer, AdaptiveWriter) and number >= first_own:
                writer.read(window, event.reply)
            at += not is_summary
        return found

    def _writer(self) -> _Writer:
        if self._model is None:
            return RequestWriter({})
        return writer_of(self._model, self._model.base_url or OPENAI_URL)

    def _request(
        self,
        event: _Replied,
        window: Window,
        writer: _Writer,
        prompt: bytes,
        turn: int,
    ) -> SentRequest:
        reply, body = event.reply, self._body(window, writer)
        what = "summary" if isinstance(event, HistorySummarized) else "turn"
        request = shown_body(
            what,
            body,
            head=self._num_head(event),
            left_out=self._left_out(window, turn, writer),
            prompt_tokens=reply.usage.prompt_tokens or None,
            attempts=reply.attempts,
            notes=self._notes(turn),
        )
        if self._model is not None:
            request = self._with_copies(request, body.decode(), self._model)
        return with_ids(request, prompt, self._began.text_of) if prompt else request

    def _body(self, window: Window, writer: _Writer) -> bytes:
        if isinstance(writer, RequestWriter):
            return writer.body(window)
        assert self._model is not None
        return writer.body(window, request_seed(self._model, self._trajectory.started.seed))

    def _with_copies(self, request: SentRequest, body: str, model: OpenAISettings) -> SentRequest:
        url = model.base_url or ""
        curl = curl_of(url or OPENAI_URL, body, sends_key=self._began.is_own)
        return msgspec.structs.replace(request, body=body, url=url, curl=curl)

    def _num_head(self, event: _Replied) -> int:
        """How many messages come before the turns: a first turn that is pinned is one of them."""
        num = len(self._dialect.opening_messages(self._briefing))
        steps = self._trajectory.steps
        if steps and steps[0] is not event and self._dialect.pins(steps[0]):
            num += len(self._dialect.turn_messages(steps[0]))
        return num

    def _left_out(self, window: Window, turn: int, writer: _Writer) -> list[LeftOut]:
        """The turns that the window does not show, as they would be sent in one that shows all."""
        dropped = [one for one in range(window.first_turn) if one not in window.recalled]
        if not dropped:
            return []
        fold = HistoryFold(FullWindow(), self._dialect, self._briefing)
        for step in self._trajectory.steps[:turn]:
            fold.apply(step)
        whole = fold.window()
        head = len(self._dialect.opening_messages(self._briefing))
        turns = turns_of(whole.messages[head:])
        written = msgspec.json.decode(self._body(whole, writer))["messages"]
        starts = [head, *accumulate(map(len, turns), initial=head)][1:]
        pinned = self._dialect.pins(self._trajectory.steps[0])
        return [
            LeftOut(number, shown_messages(written[starts[number] : starts[number + 1]]))
            for number in dropped
            if number < len(turns) and not (pinned and number == 0)
        ]

    def _notes(self, turn: int) -> list[str]:
        notes = []
        model, started = self._model, self._trajectory.started
        if model is None:
            return []
        if not self._began.is_own:
            notes.append(
                "You did not begin this run on this machine, so the command sends no key to the "
                "server that it names."
            )
        kept = [step.reply for step in self._trajectory.steps[: self._trajectory.first_own_turn]]
        if started.forked_from is not None and any(map(_has_fields, kept)):
            notes.append(
                "The turns that the fork keeps have fields of their server; whether they went back "
                "depends on what the server had sent to this run before, which is not logged."
            )
        return notes


def _model_of(trajectory: Trajectory, began: Began) -> tuple[OpenAISettings | None, str]:
    """How the run asked its model, and what is missing of it in a sentence (empty: nothing)."""
    policy = trajectory.started.policy
    kind = policy.partition(":")[0]
    if began.settings is None:
        return None, (
            "The run has no run.toml, so the model's name, its URL and how it sampled are not "
            "known; messages and tools are those that the agent was shown."
        )
    if kind in ("vllm", "local"):
        return None, (
            f"Policy {kind!r} sends token ids, which are shown as they were logged; messages and "
            "tools are those that the ids were made of."
        )
    if kind != "openai":
        return None, (
            f"Policy {kind!r} asks no model; messages and tools are those that a model would have "
            "been sent."
        )
    model = openai_settings(began.settings)
    if policy != f"openai:{model.model}":
        return None, (
            f"The episode was played by {policy}, and run.toml names {model.model!r}: URL and "
            "sampling are not known; messages and tools are those that the agent was shown."
        )
    if model.base_url:
        return model, ""
    known = os.environ.get("OPENAI_BASE_URL") if began.is_own else None
    return msgspec.structs.replace(model, base_url=known or OPENAI_URL), (
        "The URL of the server was in the environment and is not logged; the request is shown as "
        f"it is sent to {known or OPENAI_URL}."
    )


def _history_of(trajectory: Trajectory) -> HistoryWindow:
    started = trajectory.started
    history = parse_history(started.history)
    if history.fingerprint != started.fingerprint:
        raise SettingsError(
            f"the episode was played under another form of the history window {started.history} "
            f"(fingerprint {started.fingerprint}) than this version has"
        )
    return history


def _has_fields(reply: Reply) -> bool:
    return bool(reply.fields) or any(call.fields for call in reply.calls)
