"""python -m tests.real.bfcl_calls MODEL_FOLDER --base-url URL: read calls as another client does.

Our command line plays single-turn entries of the BFCL v3, one at a time and greedy, on a vLLM
server. The bytes of each request are then sent again by the openai package, to the same server;
what it reads from the answer must be what our log has, and what `re` and `json` find in the text
that the model wrote. The proxy in between asks the server for a call in each answer. The exit
status is 1 where an entry differs.
"""

import argparse
import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import openai
from openai.types.chat import ChatCompletion

from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from tests.real.commands import rehearse
from tests.real.plays import say
from tests.real.recorder import Exchange, Recorder
from tests.real.token_ids import trajectories_of
from tests.real.written_calls import written_calls

_CATEGORIES = ("simple_python", "parallel", "parallel_multiple", "multiple")
_Calls = list[tuple[str, Any]]


async def compare_readings(
    folder: Path, model: Path, base_url: str, package: Path, *, num_entries: int
) -> list[dict[str, Any]]:
    """A row of the table for each category; `package` is the folder of the package bfcl_eval."""
    chat = ChatTokenizer.open(model)
    rows = []
    async with Recorder(base_url) as recorder:
        recorder.is_forced = True
        for category in _CATEGORIES:
            numbers = range(num_entries // len(_CATEGORIES))
            names = [f"{category}_{number}" for number in numbers]
            into = folder / category
            ours = await _play(into, names, model, recorder.base_url, package)
            rows.append({"category": category} | await _compare(ours, recorder, chat))
            say(str(rows[-1]))
    return rows


async def _play(
    folder: Path, names: Sequence[str], model: Path, base_url: str, package: Path
) -> list[_Calls]:
    """Play entries; returns the calls that the log has of each."""
    await rehearse(
        *("run", *names, "--suite", "bfcl_v3", "--suite-path", package),
        *("-p", "openai", "-m", model, "--base-url", base_url, "-c", "1"),
        *("--temperature", "0", "--max-tokens", "160", "--max-steps", "1"),
        *("--request-timeout", "1200", "--reply-timeout", "3000"),
        *("--judge", "none", "-o", folder),
    )
    replies = [one.steps[0].reply for one in trajectories_of(folder)]
    return [[(call.name, call.arguments) for call in reply.calls] for reply in replies]


async def _compare(
    ours: Sequence[_Calls], recorder: Recorder, chat: ChatTokenizer
) -> dict[str, int]:
    """Send the recorded requests again by the openai package, and count."""
    sent = recorder.take()
    assert len(sent) == len(ours), f"{len(sent)} requests for {len(ours)} entries"
    counts: Counter[str] = Counter()
    async with openai.AsyncOpenAI(
        base_url=recorder.base_url, api_key="none", max_retries=0, timeout=1200
    ) as client:
        for exchange, calls in zip(sent, ours, strict=True):
            completion = await client.post(
                "/chat/completions", cast_to=ChatCompletion, content=exchange.request
            )
            (again,) = recorder.take()
            written = written_calls(chat.decode(exchange.reply_ids))
            counts.update(
                {
                    "entries": 1,
                    "equal bytes": again.request == exchange.request,
                    "equal calls": _calls_of(completion) == calls,
                    "equal replies": again.reply_ids == exchange.reply_ids,
                    "with calls": bool(calls),
                    "calls": len(calls),
                    "as written": written.calls == calls,
                    "cut off": _is_cut(exchange),
                }
            )
    return {name: int(number) for name, number in counts.items()}


def _is_cut(exchange: Exchange) -> bool:
    return bool(exchange.answer["choices"][0]["finish_reason"] == "length")


def _calls_of(completion: ChatCompletion) -> _Calls:
    """The calls as the package's users read them."""
    calls = completion.choices[0].message.tool_calls or []
    return [
        (call.function.name, json.loads(call.function.arguments))
        for call in calls
        if call.type == "function"
    ]


def main() -> int:
    """Compare on a running server; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--bfcl", type=Path, required=True, help="folder of bfcl_eval")
    parser.add_argument("--entries", type=int, default=80)
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/real-bfcl"))
    options = parser.parse_args()
    shutil.rmtree(options.output, ignore_errors=True)
    options.output.mkdir(parents=True)

    async def compare() -> list[dict[str, Any]]:
        return await compare_readings(
            options.output,
            options.model.resolve(),
            options.base_url,
            options.bfcl,
            num_entries=options.entries,
        )

    rows = anyio.run(compare)
    return int(any(row["equal calls"] != row["entries"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
