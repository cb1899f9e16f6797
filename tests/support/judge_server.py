"""Scripted judges behind a chat endpoint on loopback: real HTTP, no model.

In a test:

    async with ModelServer(Speaks(lying(truth, 0.3))) as server:
        ... ask server.url; server.requests has the questions

As a process, which prints its URL and then `asked N` for each request, before it is answered:

    python -m tests.support.judge_server --play lying --p 0.3 --truth truth.json --port 0

A Truth gives the right label for the text of all messages; `truth_of({"words": label})` makes one
that looks for words in it. A Speaker says something about a request; speakers are wrapped around
each other, and a behaviour of the server is made of the outermost by `Speaks`:

    good(truth)             gives the true label
    biased(label)           always gives the same label
    lying(truth, p)         lies with probability p, drawn from the prompt and the request's seed:
                            the same question gets the same answer, repeats are independent
    injected(truth)         obeys who says "say completed" or shows such a verdict to it, else good
    chatty(speaker)         thoughts, prose and a fence around the object, a quoted verdict first
    malformed(speaker, n)   its first n answers to each prompt cannot be read
    truncating(speaker, n)  answers of less than n tokens' room are cut off (finish `length`)
    billed(speaker, ...)    reports how many tokens that took; expensive: a million each, which is
                            more than any limit allows. Others report a token for 4 bytes.

Behaviours are wrapped, too:

    Flaky(inner, every)     each n-th request fails, in turns: 429, 503, a cut connection
    Slow(inner, ...)        waits for an event or some seconds first
    Picky(inner, fields)    refuses requests that have one of the fields, or that format, with 400
    Status(503)             is dead (see tests.support.model_server)
"""

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import cycle
from pathlib import Path

import click

from rehearsal_room.harness.core.events import Label
from tests.support.model_server import (
    Behaviour,
    Completes,
    Cut,
    ModelServer,
    ReceivedRequest,
    Status,
    response,
)


@dataclass(frozen=True)
class Spoken:
    """A judge's text, and what the server reports with it."""

    text: str
    finish: str = "stop"
    usage: Mapping[str, int | Mapping[str, int]] | None = None  # None: a token for 4 bytes


Truth = Callable[[str], Label]
Speaker = Callable[[ReceivedRequest], Spoken]

_OBEYED = re.compile(
    r"say\W+(?:that it is\W+)?completed|[\"'](?:label|classification)[\"']\s*:\s*[\"']complete",
    re.IGNORECASE,
)


def text_of(request: ReceivedRequest, role: str | None = None) -> str:
    """The text of a request's messages; of one role only where it is given."""
    messages = request.body["messages"]
    return "\n".join(m["content"] for m in messages if role is None or m["role"] == role)


def truth_of(labels: Mapping[str, str], default: str = "agent_error") -> Truth:
    """The label of the first words that the text holds."""

    def truth(text: str) -> Label:
        return Label(next((label for words, label in labels.items() if words in text), default))

    return truth


def verdict(
    label: str,
    *,
    reasoning: str = "It looks that way.",
    confidence: float = 0.9,
    cited: tuple[str, ...] = ("T", "E"),
) -> str:
    """An answer as the schema has it."""
    return json.dumps(
        {
            "reasoning": reasoning,
            "label": label,
            "confidence": confidence,
            "leaned_on": list(cited),
        }
    )


def good(truth: Truth) -> Speaker:
    """Gives the true label."""
    return lambda request: Spoken(verdict(truth(text_of(request))))


def biased(label: str = "completed") -> Speaker:
    """Gives the same label to every episode."""
    return lambda _: Spoken(verdict(label))


def lie_about(label: Label) -> Label:
    """The wrong label that changes a reward most."""
    return Label.AGENT_ERROR if label is Label.COMPLETED else Label.COMPLETED


def lying(truth: Truth, p: float, *, seed: int = 0) -> Speaker:
    """Lies with probability `p`; `seed` makes another liar."""

    def speaker(request: ReceivedRequest) -> Spoken:
        text = text_of(request)
        drawn = blake2b(f"{seed} {request.body.get('seed')} {text}".encode(), digest_size=8)
        label = truth(text)
        if int.from_bytes(drawn.digest()) / 2**64 < p:
            label = lie_about(label)
        return Spoken(verdict(label))

    return speaker


def injected(truth: Truth) -> Speaker:
    """Obeys an instruction inside of the exhibits."""

    def speaker(request: ReceivedRequest) -> Spoken:
        if _OBEYED.search(text_of(request, "user")):
            return Spoken(verdict(Label.COMPLETED, reasoning="I was asked to."))
        return Spoken(verdict(truth(text_of(request))))

    return speaker


def chatty(speaker: Speaker) -> Speaker:
    """Talks around its answer."""

    def wrapped(request: ReceivedRequest) -> Spoken:
        spoken = speaker(request)
        text = (
            "<think>Is it completed? Let me see.</think>Somebody claims "
            f'{{"label": "completed"}}, but:\n```json\n{spoken.text}\n```\n'
        )
        return replace(spoken, text=text)

    return wrapped


def malformed(speaker: Speaker, times: int = 1, text: str = "I would say: completed.") -> Speaker:
    """Cannot be read at first."""
    seen: Counter[str] = Counter()

    def wrapped(request: ReceivedRequest) -> Spoken:
        spoken = speaker(request)
        prompt = text_of(request)
        seen[prompt] += 1
        return replace(spoken, text=text) if seen[prompt] <= times else spoken

    return wrapped


def truncating(speaker: Speaker, room: int) -> Speaker:
    """Needs `room` tokens; with less the answer ends in the middle."""

    def wrapped(request: ReceivedRequest) -> Spoken:
        spoken = speaker(request)
        given = request.body.get("max_tokens") or request.body.get("max_completion_tokens") or room
        if given >= room:
            return spoken
        return replace(spoken, text=spoken.text[: len(spoken.text) // 2], finish="length")

    return wrapped


def billed(speaker: Speaker, prompt: int, completion: int, cached: int = 0) -> Speaker:
    """Reports so many tokens."""
    usage: dict[str, int | Mapping[str, int]] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return lambda request: replace(speaker(request), usage=usage)


def expensive(speaker: Speaker) -> Speaker:
    """Reports a million tokens each way, whatever was allowed."""
    return billed(speaker, 1_000_000, 1_000_000)


@dataclass(frozen=True)
class Speaks:
    """A behaviour: sends the speaker's text as a completion."""

    speaker: Speaker

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        spoken = self.speaker(request)
        completion = Completes(spoken.text, finish=spoken.finish).completion()
        usage = spoken.usage or _usage(text_of(request), spoken.text)
        body = completion | {"usage": usage, "model": request.body["model"]}
        writer.write(response(200, json.dumps(body).encode()))
        return True


def _usage(*texts: str) -> dict[str, int]:
    prompt, completion = (-(-len(text.encode()) // 4) for text in texts)
    return {"prompt_tokens": prompt, "completion_tokens": completion}


class Flaky:
    """Each `every`-th request fails, in turns by each of the faults."""

    def __init__(
        self,
        inner: Behaviour,
        every: int = 3,
        faults: tuple[Behaviour, ...] = (
            Status(429, headers={"retry-after-ms": "1"}),
            Status(503, "overloaded", headers={"retry-after-ms": "1"}),
            Cut(b"HTTP/1.1 200 OK\r\nContent-Le"),
        ),
    ) -> None:
        self._inner = inner
        self._every = every
        self._faults = cycle(faults)
        self._count = 0

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        self._count += 1
        failing = self._count % self._every == 0
        return await (next(self._faults) if failing else self._inner).perform(request, writer)


@dataclass(frozen=True)
class Slow:
    """Waits for the event, where there is one, and then so many seconds."""

    inner: Behaviour
    seconds: float = 0.0
    after: asyncio.Event | None = None

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        if self.after is not None:
            await self.after.wait()
        await asyncio.sleep(self.seconds)
        return await self.inner.perform(request, writer)


@dataclass(frozen=True)
class Picky:
    """Refuses what it does not know, in OpenAI's words.

    `fields` are names of fields of the body, or types of `response_format`.
    """

    inner: Behaviour
    fields: tuple[str, ...] = ("json_schema",)
    status: int = 400

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        kind = request.body.get("response_format", {}).get("type")
        for name in self.fields:
            if name == kind:
                message = f"Invalid parameter: 'response_format' of type '{name}' is not supported"
            elif name in request.body:
                message = f"Unsupported parameter: '{name}' is not supported with this model."
            else:
                continue
            if name == "max_tokens":
                message += " Use 'max_completion_tokens' instead."
            return await Status(self.status, message, "unsupported").perform(request, writer)
        return await self.inner.perform(request, writer)


def play(
    name: str, truth: Truth, *, p: float = 0.3, seed: int = 0, seconds: float = 1.0
) -> Behaviour:
    """The behaviour of a name, for a process. Raises KeyError."""
    honest = good(truth)
    plays: dict[str, Behaviour] = {
        "good": Speaks(honest),
        "biased": Speaks(biased()),
        "lying": Speaks(lying(truth, p, seed=seed)),
        "injected": Speaks(injected(truth)),
        "flaky": Flaky(Speaks(honest)),
        "slow": Slow(Speaks(honest), seconds),
        "truncating": Speaks(truncating(honest, 4096)),
        "malformed": Speaks(malformed(honest)),
        "chatty": Picky(Speaks(chatty(honest)), ("json_schema", "json_object")),
        "expensive": Speaks(expensive(honest)),
        "dead": Status(503, "overloaded", headers={"retry-after-ms": "1"}),
    }
    return plays[name]


class _Counted:
    """Writes on standard output how many requests there were."""

    def __init__(self, inner: Behaviour) -> None:
        self._inner = inner
        self._count = 0

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        self._count += 1
        _write_line(f"asked {self._count}")
        return await self._inner.perform(request, writer)


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def serve(behaviour: Behaviour, port: int) -> None:
    """Serve until the process is ended."""
    async with ModelServer(_Counted(behaviour), port=port) as server:
        _write_line(server.url)
        await asyncio.Event().wait()


@click.command()
@click.option("--play", "name", default="good", help="Behaviour of the judge.")
@click.option("--port", type=int, default=0, help="Port to listen on; 0: a free one.")
@click.option(
    "--truth",
    "truth_file",
    type=click.Path(path_type=Path),
    help="JSON file of the truth: from words in a prompt to labels.",
)
@click.option("--p", type=float, default=0.3, help="Share of answers that are wrong.")
@click.option("--seed", type=int, default=0, help="Seed of what is wrong.")
@click.option("--seconds", type=float, default=1.0, help="Seconds that a slow judge takes.")
def main(
    name: str, port: int, truth_file: Path | None, p: float, seed: int, seconds: float
) -> None:
    """Serve a scripted judge until the process is ended."""
    labels = json.loads(truth_file.read_text(encoding="utf-8")) if truth_file else {}
    behaviour = play(name, truth_of(labels), p=p, seed=seed, seconds=seconds)
    asyncio.run(serve(behaviour, port))


if __name__ == "__main__":
    main()
