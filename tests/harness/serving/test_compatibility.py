"""Formats that differ from the training of a served checkpoint."""

import pytest
from structlog.testing import capture_logs

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.policy_card import PolicyCard
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.policies.token_agent import Sampling
from rehearsal_room.harness.serving.compatibility import ServingFormats
from rehearsal_room.harness.serving.service import sampling_of
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from tests.support.scripted_tokens import ScriptedTokens
from tests.support.served_models import HELLO, card_of, post, served, service_of


async def test_a_mismatch_is_reported(chat: ChatTokenizer) -> None:
    """A client may override the history window: header, body and log report the difference."""
    backend = ScriptedTokens(chat, ["ok"])
    service = service_of(backend, chat, card_of(chat))
    fault = "it was trained under the history window last:1 and is run under full"
    with capture_logs() as logs:
        async with served(service) as url:
            body = HELLO | {"rehearsal": {"history": "full"}}
            status, headers, content = await post(url, body)
    assert (status, headers["x-rehearsal-warning"]) == (200, fault)
    assert (content["rehearsal"]["history"], content["rehearsal"]["warnings"]) == ("full", [fault])
    assert logs == [{"event": "misaligned", "log_level": "warning", "model": "m", "why": fault}]


def test_the_default_format_is_the_cards(chat: ChatTokenizer) -> None:
    """Without settings there is no warning, and tokens are counted as in the training."""
    for counter in (chat, None):
        history = parse_history("tokens:900", counter)
        card = PolicyCard("v7", "tokens:900", history.fingerprint, "native")
        format = ServingFormats("m", chat, card).default
        assert (format.history.fingerprint, format.dialect.name) == (history.fingerprint, "native")
        assert format.warnings == ()
    with capture_logs():
        other = ServingFormats("m", chat, card, history="last:9", dialect="hermes").default
    assert other.warnings == (
        "it was trained under the history window tokens:900 and is run under last:9",
        "it was trained in the dialect native and is run in hermes",
    )


def test_folding_is_not_served(chat: ChatTokenizer) -> None:
    """The client owns the conversation and its tools, so the model cannot be given `fold`."""
    card = PolicyCard("v7", "fold", parse_history("fold").fingerprint, "native")
    with pytest.raises(SettingsError, match="gives the agent a tool, which the client would"):
        ServingFormats("m", chat, card).get()


def test_a_model_without_a_card_needs_settings(chat: ChatTokenizer) -> None:
    """Without a card the history window and the dialect must be set: nothing is guessed."""
    with pytest.raises(SettingsError, match=r"^m has no model card \(rehearsal\.json\)"):
        ServingFormats("m", chat, None, history="last:3")
    format = ServingFormats("m", chat, None, history="last:3", dialect="hermes").default
    assert (format.history.spec, format.warnings) == ("last:3", ())
    assert sampling_of(None) == Sampling()
