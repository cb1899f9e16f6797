"""Whatever a model server answers, a request ends in a reply or a failure that the log can hold.

The answers are mutated from good ones by fixed seeds (see tests.support.mutated_answers); the long
profile tries many more.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from typing import Any

import anyio
import pytest

from rehearsal_room.harness.chat.answer_limits import AnswerBudget, AnswerLimits
from rehearsal_room.harness.chat.completions import read_completion, read_error
from rehearsal_room.harness.chat.http1 import BadResponse, ModelResponse, ResponseReader
from rehearsal_room.harness.chat.preflight import cause_of, names_in
from rehearsal_room.harness.chat.retry import is_context_overflow, is_retried, requested_wait
from rehearsal_room.harness.chat.transport import HttpResponse, LeanTransport, TransportError
from rehearsal_room.harness.chat.transport_aiohttp import AiohttpTransport
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import Record, StepTaken
from rehearsal_room.harness.core.messages import Reply, Usage
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.log.schema import record_of, row_of
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings, endpoint_of
from rehearsal_room.harness.policies.token_agent import GeneratedTokens
from rehearsal_room.harness.vllm.wire import read_tokens
from tests.harness.policies.test_openai import HELLO, agent_of
from tests.support.budgets import repeats
from tests.support.mutated_answers import bodies, streams

DIALECTS = [dialect_of(name, lenient=True) for name in ("native", "hermes", "awm", "awm-tool")]
SMALL = AnswerLimits(each=200_000, together=400_000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def check_loggable(reply: Reply) -> None:
    """Every dialect reads the reply, shows its turn, and the log holds it."""
    for dialect in DIALECTS:
        decision = dialect.read(reply, turn=3)
        step = StepTaken(reply, decision)
        dialect.turn_messages(step)
        row = row_of(1, Record("e1", 1, 1, 0.0, step))
        assert isinstance(record_of(row).event, StepTaken)


@pytest.mark.parametrize("seed", range(4))
def test_any_mutated_body_can_be_read(seed: int) -> None:
    """Mutated bodies are replies that can be logged, failures, or refusals of the whole server."""
    outcomes = {"reply": 0, "failure": 0, "tokens": 0}
    for body in bodies(seed=seed, number=repeats(short=400, long=20_000)):
        reply = read_completion(body)
        outcomes["reply" if isinstance(reply, Reply) else "failure"] += 1
        if isinstance(reply, Reply):
            check_loggable(reply)
        failure = read_error(500, {}, body)
        assert failure.status == 500 and len(failure.message) <= 501
        cause_of(failure, names_in(body))
        try:
            generated = read_tokens(body, 5, attempts=1)
        except PolicyError:
            continue
        if isinstance(generated, GeneratedTokens):
            outcomes["tokens"] += 1
            assert all(id >= 0 for id in generated.token_ids)
            assert all(-9999.0 < value <= 0.01 for value in generated.logprobs)
            assert encode_ids(generated.token_ids) is not None
            assert encode_logprobs(generated.logprobs) is not None
            check_loggable(Reply(usage=Usage(5, 3, generated.cached_tokens)))
    assert all(number > 10 for number in outcomes.values()), outcomes  # the seeds reach each case


@pytest.mark.parametrize("seed", range(4))
def test_any_mutated_stream_can_be_read(seed: int) -> None:
    """Mutated HTTP is a response, is refused, or is incomplete; a budget is given back whole."""
    budget, found = AnswerBudget(SMALL), {"whole": 0, "refused": 0, "cut": 0}
    for pieces in streams(seed=seed, number=repeats(short=300, long=10_000)):
        with closing(ResponseReader(budget)) as reader:
            response, outcome = None, "cut"
            try:
                for piece in pieces:
                    if (response := reader.feed(piece)) is not None:
                        break
                response = response or reader.end()
            except BadResponse:
                outcome = "refused"
        if isinstance(response, ModelResponse):
            outcome = "whole"
            assert len(response.body) <= SMALL.each
            wait = requested_wait(response.headers, 0.0)
            assert wait is None or 0.0 <= wait < float("inf")
            failure = read_error(response.status, response.headers, response.body)
            assert is_retried(failure) in (True, False)
            assert is_context_overflow(failure) in (True, False)
        found[outcome] += 1
        assert budget.held == 0
    assert all(number > 10 for number in found.values()), found


@asynccontextmanager
async def raw_server(respond: Callable[[asyncio.StreamWriter], Any]) -> AsyncIterator[str]:
    """A server that reads requests and calls a coroutine function to respond to each connection."""
    tasks: set[asyncio.Task[Any]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task := asyncio.current_task())  # type: ignore[arg-type]  # it runs in one
        try:
            await reader.readuntil(b"\r\n\r\n")
            await respond(writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@pytest.mark.parametrize("seed", range(2))
async def test_a_policy_survives_any_stream(seed: int) -> None:
    """Over real connections each request ends in a reply or a PolicyError, whatever the bytes."""
    number = repeats(short=100, long=3_000)
    left: Iterable[list[bytes]] = streams(seed=100 + seed, number=number)
    outcomes: dict[str, int] = {"reply": 0, "error": 0}

    async def respond(writer: asyncio.StreamWriter) -> None:
        for piece in next(iterator, []):
            writer.write(piece)
            await writer.drain()

    iterator = iter(left)
    async with raw_server(respond) as url:
        settings = OpenAISettings(
            "m", base_url=url, timeout_s=10.0, max_attempts=2, first_wait_s=0.0, longest_wait_s=0.0
        )
        async with OpenAIPolicy(settings) as policy:
            for _ in range(number):
                try:
                    check_loggable(await agent_of(policy).reply(HELLO))
                    outcomes["reply"] += 1
                except PolicyError as exc:
                    assert str(exc).startswith(f"model 'm' at {url}: ")
                    outcomes["error"] += 1
    assert all(outcomes.values()), outcomes


async def endless_chunks(writer: asyncio.StreamWriter) -> None:
    """A body that never ends, in chunks of one byte."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\nx\r\n" * 10_000)
        await writer.drain()


async def endless_body(writer: asyncio.StreamWriter) -> None:
    """A body that only the connection's end would end."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b" " * 60_000)
        await writer.drain()


async def endless_trailers(writer: asyncio.StreamWriter) -> None:
    """Trailers without end after a complete body."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
    while True:
        writer.write(b"A: b\r\n" * 10_000)
        await writer.drain()


async def endless_head(writer: asyncio.StreamWriter) -> None:
    """Headers without end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"A: b\r\n" * 10_000)
        await writer.drain()


async def endless_interim(writer: asyncio.StreamWriter) -> None:
    """Interim responses without a final one."""
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000)
        await writer.drain()


async def bomb(writer: asyncio.StreamWriter) -> None:
    """A compressed answer."""
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\n"
        + b"\x1f\x8b" * 10
    )


ENDLESS = [endless_chunks, endless_body, endless_trailers, endless_head, endless_interim, bomb]


@pytest.mark.parametrize("respond", ENDLESS)
@pytest.mark.parametrize("kind", [LeanTransport, AiohttpTransport])
async def test_an_endless_answer_is_refused(respond: Any, kind: Any) -> None:
    """An answer without end is refused at its limit, long before its timeout."""
    if kind is AiohttpTransport and respond is endless_interim:
        pytest.skip("aiohttp reads interim responses until its timeout, and keeps none of them")
    async with raw_server(respond) as url:
        settings = OpenAISettings("m", base_url=url, timeout_s=60.0, answers=SMALL)
        async with kind(endpoint_of(settings, {})) as transport:
            with anyio.fail_after(20), pytest.raises(TransportError) as caught:
                await transport.post(b"{}")
    assert caught.value.kind != "timeout"


@pytest.mark.parametrize("client", ["lean", "package"])
async def test_an_answer_over_the_limit_is_named(client: Any) -> None:
    """The error says how long an answer may be, with each client."""
    async with raw_server(endless_body) as url:
        settings = OpenAISettings(
            "m", base_url=url, client=client, max_attempts=1, answers=SMALL, timeout_s=60.0
        )
        async with OpenAIPolicy(settings) as policy:
            with pytest.raises(PolicyError, match="the answer is longer than 200,000 bytes"):
                await agent_of(policy).reply(HELLO)


async def test_all_answers_in_flight_share_a_budget() -> None:
    """Where the answers in flight are too long together, the long ones are refused and a short one
    arrives; afterwards the budget is whole again."""
    many, arrived = 8, anyio.Event()

    async def respond(writer: asyncio.StreamWriter) -> None:
        nonlocal many
        many -= 1
        if many < 0:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 190000\r\n\r\n" + b" " * 150_000)
        await writer.drain()
        await arrived.wait()

    failures: list[str] = []
    async with raw_server(respond) as url:
        settings = OpenAISettings("m", base_url=url, timeout_s=60.0, answers=SMALL)
        async with LeanTransport(endpoint_of(settings, {})) as transport:

            async def ask() -> None:
                try:
                    await transport.post(b"{}")
                except TransportError as exc:
                    failures.append(str(exc))
                    if len(failures) == 6:  # two of 150,000 bytes always fit
                        arrived.set()

            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(ask)
            assert await transport.post(b"{}") == HttpResponse(200, {"content-length": "2"}, b"{}")
            assert transport._budget.held == 0
    fault = "the answers in flight hold more than 400,000 bytes together"
    assert failures.count(fault) == 6
    assert sum("the connection ended" in failure for failure in failures) == 2
