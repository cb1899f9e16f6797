"""python -m tests.cli.fault_campaign [EPISODES]: labels behind a server that fails now and then.

The server plays the oracle of each task, and for every third member of a group half of it and a
false claim. It answers after 30 ms; of its answers 3 % are 429, 1 % 5xx, 1 % are cut in the middle,
and 1 % are generations that failed (`finish_reason: error`) with a part of the reply. The same
episodes of a server without faults are the truth: a label that differs from it is false. Both in
one piece and streamed. 2,000 episodes of each take some minutes.
"""

import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import click

from rehearsal_room.cli.play.run import play_run
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.rollout.process import configure_logging
from rehearsal_room.harness.settings.run import resolve_table
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Task
from tests.support.judged_runs import served
from tests.support.model_server import Completes, ReceivedRequest, Status, response

WORLDS = ("shop_support", "claims_desk")
SHARES = {"rate_limit": 0.03, "error": 0.01, "cut": 0.01, "failed": 0.01}
LATENCY_S = 0.03


class Scripted:
    """Plays the oracles of the worlds, with these shares of faults, drawn from each request."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        self.faults: Counter[str] = Counter()
        self._shares = shares
        self._seen: Counter[bytes] = Counter()
        self._tasks = {
            task.instruction: task for world in WORLDS for task in find(world).default_tasks
        }

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(LATENCY_S)
        right = self._reply(request.body)
        fault = self._fault(request.body)
        if fault:
            self.faults[fault] += 1
        if fault == "rate_limit":
            return await Status(429, headers={"Retry-After": "0.05"}).perform(request, writer)
        if fault == "error":
            status = Random(self.faults[fault]).choice((500, 502, 503, 529))
            return await Status(status, body=b"<html>bad gateway</html>").perform(request, writer)
        answer = right.completion()
        if fault == "failed":
            answer["choices"][0]["finish_reason"] = "error"
            answer["choices"][0]["message"]["content"] = "All is d"
        data = response(200, json.dumps(answer).encode())
        if request.body.get("stream"):
            data = response(200, events(answer), {"Content-Type": "text/event-stream"})
        writer.write(data[: len(data) // 2] if fault == "cut" else data)
        return fault != "cut"

    def _fault(self, body: Mapping[str, Any]) -> str:
        digest = blake2b(json.dumps(body).encode(), digest_size=8).digest()
        self._seen[digest] += 1
        drawn = Random(digest + bytes([self._seen[digest]])).random()
        for name, share in self._shares.items():
            if drawn < share:
                return name
            drawn -= share
        return ""

    def _reply(self, body: Mapping[str, Any]) -> Completes:
        task = self._task(body["messages"])
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        calls = task.oracle
        if body["seed"] % 3 == 0:
            calls = calls[: len(calls) // 2]
        if turn < len(calls):
            one = calls[turn]
            return Completes(None, ((f"call_{turn}", one.name, json.dumps(one.arguments)),))
        return Completes(task.answer)

    def _task(self, messages: list[Mapping[str, Any]]) -> Task:
        texts = [str(message["content"]) for message in messages if message["role"] == "user"]
        return next(task for words, task in self._tasks.items() if words in texts[0])


def events(answer: Mapping[str, Any]) -> bytes:
    """The stream that says the same: its message in two pieces, its end and its usage."""
    choice = answer["choices"][0]
    message = choice["message"]
    text, calls = message["content"] or "", message.get("tool_calls", [])
    half = len(text) // 2
    numbered = [{"index": number, **call} for number, call in enumerate(calls)]
    parts: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text[:half]}}]},
        {"choices": [{"index": 0, "delta": {"content": text[half:], "tool_calls": numbered}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {"choices": [], "usage": answer["usage"]},
    ]
    return "".join(f"data: {json.dumps(part)}\n\n" for part in parts).encode() + b"data: [DONE]\n\n"


class Found(NamedTuple):
    """The labels of the two runs."""

    episodes: int
    false: list[str]  # episodes with a label that is not the true one
    unanswered: int  # episodes that ended because the model could not answer
    labels: dict[str, int]  # the true ones
    faults: Counter[str]


def campaign(folder: Path, episodes: int, *, stream: bool, seed: int = 0) -> Found:
    """Play the episodes behind both servers, and compare."""
    quiet, _ = _played(folder / "quiet", episodes, Scripted({}), stream=stream, seed=seed)
    faulty = Scripted(SHARES)
    found, unanswered = _played(folder / "faulty", episodes, faulty, stream=stream, seed=seed)
    false = [name for name, label in found.items() if label not in (None, quiet[name])]
    counts = Counter(str(label) for label in quiet.values())
    return Found(len(found), false, unanswered, dict(counts), faulty.faults)


def _played(
    folder: Path, episodes: int, behaviour: Scripted, *, stream: bool, seed: int
) -> tuple[dict[str, str | None], int]:
    with served(behaviour) as server:
        table = {
            "scenarios": list(WORLDS),
            "policy": "openai",
            "model": "m",
            "base_url": server.url,
            "episodes": episodes,
            "concurrency": 64,
            "stream": stream,
            "seed": seed,
        }
        play_run(resolve_table(table, {}), folder, resume=False, progress=False)
    with open_reader(folder) as reader:
        rows = reader.episodes()
    unanswered = sum(row.ending is Ending.POLICY_ERROR for row in rows)
    return {row.episode: None if row.label is None else str(row.label) for row in rows}, unanswered


def main() -> None:
    """Print what the two kinds of runs give; the exit status is 1 where a label is false."""
    configure_logging(0)
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    num_false = 0
    for stream in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            found = campaign(Path(folder), episodes, stream=stream)
        num_false += len(found.false)
        click.echo(
            f"{'streamed' if stream else 'in one piece'}: {found.episodes:,} episodes,"
            f" {len(found.false)} with a false label, {found.unanswered} without an answer;"
            f" true labels {found.labels}; faults {dict(found.faults)}"
        )
    sys.exit(num_false > 0)


if __name__ == "__main__":
    main()
