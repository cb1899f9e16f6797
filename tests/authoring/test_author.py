"""The model that writes worlds: its requests, their cost and the ledger."""

from pathlib import Path

import anyio
import pytest

from rehearsal_room.authoring.author import ModelAuthor
from rehearsal_room.harness.chat.budget import Budget
from rehearsal_room.harness.chat.prices import Price, Prices
from rehearsal_room.harness.policies.openai import OpenAISettings
from rehearsal_room.scenarios.errors import SynthesisError
from rehearsal_room.scenarios.synth.core.protocols import ModelAnswer, PromptMessage, RequestPurpose
from rehearsal_room.scenarios.synth.storage.spending import LedgerEntry, SpendingLedger
from tests.support.model_server import Completes, Cut, ModelServer, ReceivedRequest, Stall, Status

ASKED = (PromptMessage("user", "Write a world."),)
CODE, EMBED = RequestPurpose("code", "w"), RequestPurpose("embed")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def author(url: str, ledger: Path, budget: Budget) -> ModelAuthor:
    """An author whose answers cost at most 1 USD; embeddings cost 1 USD for each byte sent."""
    return ModelAuthor(
        OpenAISettings("m", base_url=url, max_tokens=1_000, max_attempts=1),
        prices=Prices({"m": Price(input=0, output=1_000), "e": Price(input=1_000_000, output=0)}),
        budget=budget,
        ledger=SpendingLedger(ledger),
        embeddings="e",
    )


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (Status(400, "no", "content_filter"), "the server filters it: no"),
        (Status(400, "no", "context_length_exceeded"), "it is too long for the model: no"),
    ],
)
async def test_a_question_without_an_answer_is_a_fault_of_its_stage(
    tmp_path: Path, status: Status, sentence: str
) -> None:
    """It does not end the synthesis: other questions are answered."""
    async with (
        ModelServer() as server,
        author(server.url, tmp_path / "ledger", Budget()) as model,
    ):
        server.plan(status, Completes("a world"))
        assert await model.answer(ASKED, CODE, seed=1) == ModelAnswer("", sentence)
        assert await model.answer(ASKED, CODE, seed=1) == ModelAnswer("a world")


async def test_lost_answers_count_as_the_most_that_they_may_cost(tmp_path: Path) -> None:
    """For chats and for embeddings; a request that was not sent costs nothing."""
    budget = Budget()
    async with (
        ModelServer(Cut()) as server,
        author(server.url, tmp_path / "ledger", budget) as model,
    ):
        for ask in (model.answer(ASKED, CODE, seed=1), model.embed(["a"], EMBED)):
            with pytest.raises(SynthesisError):
                await ask
    bytes_sent = 0.0 + len(b'{"model":"e","input":["a"]}')
    entered = [LedgerEntry("code", "w", cost_usd=1.0), LedgerEntry("embed", cost_usd=bytes_sent)]
    assert SpendingLedger(tmp_path / "ledger").entries == entered
    assert budget.spent == 1.0 + bytes_sent
    async with author(server.url, tmp_path / "ledger", budget) as model:  # it is gone
        for ask in (model.answer(ASKED, CODE, seed=1), model.embed(["a"], EMBED)):
            with pytest.raises(SynthesisError):
                await ask
    assert SpendingLedger(tmp_path / "ledger").entries == entered
    assert budget.spent == 1.0 + bytes_sent


async def test_a_cancelled_request_counts_as_the_most_that_it_may_cost(tmp_path: Path) -> None:
    """A rerun under the same budget counts it."""
    arrived = anyio.Event()

    class Stalls(Stall):
        async def perform(self, request: ReceivedRequest, writer: object) -> bool:  # type: ignore[override]
            arrived.set()
            await anyio.sleep_forever()
            return False

    async with (
        ModelServer(Stalls()) as server,
        author(server.url, tmp_path / "ledger", Budget()) as model,
        anyio.create_task_group() as group,
    ):

        async def ask() -> None:
            await model.answer(ASKED, CODE, seed=1)

        group.start_soon(ask)
        await arrived.wait()
        group.cancel_scope.cancel()
    assert SpendingLedger(tmp_path / "ledger").entries == [LedgerEntry("code", "w", cost_usd=1.0)]
