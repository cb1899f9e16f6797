"""Prompts of a served checkpoint: its own windows and dialect, whatever clients send."""

from typing import Any

import msgspec
import pytest

from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from tests.support.scripted_tokens import ScriptedTokens
from tests.support.served_models import (
    CALLS,
    HISTORIES,
    TOOL,
    card_of,
    complete,
    play_locally,
    play_over_http,
    results_of,
    served,
    service_of,
)


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("dialect", ["hermes", "native"])
async def test_a_client_with_tools_gets_the_prompts_of_the_training(
    chat: ChatTokenizer, history: str, dialect: str
) -> None:
    """A native conversation that is sent whole gives, token for token, the prompts of a run under
    the checkpoint's own history and dialect, and its calls have the same results."""
    prompts, steps = await play_locally(chat, history=history, dialect=dialect)
    got, made = await play_over_http(
        chat, history=history, dialect=dialect, client_dialect="native"
    )
    assert got == prompts
    assert results_of(made) == results_of(steps)


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("dialect", ["hermes", "awm"])
async def test_a_client_of_the_models_dialect_gets_the_prompts_of_the_training(
    chat: ChatTokenizer, history: str, dialect: str
) -> None:
    """A conversation in the model's own dialect gives those prompts too, AWM's pinned tool list
    included."""
    prompts, steps = await play_locally(chat, history=history, dialect=dialect)
    got, made = await play_over_http(chat, history=history, dialect=dialect, client_dialect=dialect)
    assert got == prompts
    assert made == [
        msgspec.structs.replace(step, **_differing(step, mine))
        for step, mine in zip(steps, made, strict=True)
    ]


def _differing(step: StepTaken, mine: StepTaken) -> dict[str, Any]:
    """The fields that may differ: tokens, the window of the client's own run, and times."""
    names = ("reply", "policy_s", "calls_s", "call_s", "first_turn", "recalled")
    assert step.reply.text == mine.reply.text
    return {name: getattr(mine, name) for name in names}


@pytest.mark.parametrize("history", [name for name in HISTORIES if name != "full"])
async def test_the_histories_of_these_tests_leave_turns_out(
    chat: ChatTokenizer, history: str
) -> None:
    """Under each history prompts differ from whole conversations, so the tests above can fail."""
    prompts, _ = await play_locally(chat, history=history, dialect="hermes")
    whole, _ = await play_locally(chat, history="full", dialect="hermes")
    assert prompts != whole


async def test_a_misalignment_is_visible(chat: ChatTokenizer) -> None:
    """Prompts under `last:2` are not those of `last:1`: so the tests above can fail."""
    prompts, _ = await play_locally(chat, history="last:1", dialect="hermes")
    got, _ = await play_over_http(chat, history="last:2", dialect="hermes", client_dialect="native")
    assert got != prompts


async def test_sampled_ids_are_shown_again(chat: ChatTokenizer) -> None:
    """A remembered reply is shown with its sampled ids. A restarted server, which has forgotten it,
    continues from the client's version, reports that, and shows other ids."""
    backend = ScriptedTokens(chat, CALLS)
    messages: list[Any] = [{"role": "user", "content": "Hi"}]
    body = {"model": "m", "messages": messages, "tools": [TOOL]}
    card = card_of(chat)
    async with served(service_of(backend, chat, card)) as url:
        first = (await complete(url, body))["choices"][0]["message"]
        call = first["tool_calls"][0]["id"]
        messages += [first, {"role": "tool", "tool_call_id": call, "content": "Soll"}]
        again = await complete(url, body)
    async with served(service_of(backend, chat, card)) as url:
        restarted = await complete(url, body)
    assert [again["rehearsal"]["rewritten"], restarted["rehearsal"]["rewritten"]] == [0, 1]
    known, forgotten = backend.prompts[1:]
    assert backend.ids(CALLS[0]) == known[len(backend.prompts[0]) :][: len(backend.ids(CALLS[0]))]
    assert known != forgotten
    assert chat.decode(known).replace(" ", "") == chat.decode(forgotten).replace(" ", "")
