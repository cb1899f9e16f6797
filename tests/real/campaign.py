"""python -m tests.real.campaign MODEL_FOLDER: a pretrained model, played as users play it.

What takes part that is not ours: the model, vLLM with its tool parser and its chat template, the
openai package, transformers, and entries of the BFCL. The command line plays the same tasks by
policies `openai`, `vllm` and `local`; what must hold with any model is checked, and what this model
got is printed as tables. The exit status is 1 where something does not hold.
"""

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import structlog

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.vllm.server import VllmServer, VllmServerSettings
from tests.real.bfcl_calls import compare_readings
from tests.real.commands import kill_when, rehearse
from tests.real.plays import (
    Checks,
    Played,
    check_native_calls,
    check_resumed,
    check_run,
    check_text_calls,
    make_worlds,
    run_arguments,
    say,
)
from tests.real.recorder import Exchange, Recorder
from tests.real.token_ids import Ids, compare_ids, ids_of, trajectories_of

# Policy, dialect, history window, and whether the server must answer each request by a call.
_WAYS = (
    ("openai", "native", "full"),
    ("openai", "native", "full", "forced"),
    ("openai", "hermes", "full"),
    ("vllm", "hermes", "full"),
    ("local", "hermes", "full"),
    ("openai", "native", "last:2", "forced"),
    ("vllm", "hermes", "last:2"),
    ("local", "hermes", "last:2"),
)
_CONTEXT = 8192
_log = structlog.get_logger(__name__)


class Campaign:
    """The runs of one model in one folder."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._model: Path = options.model.resolve()
        self._folder: Path = options.output.resolve()
        self._checks = Checks()
        self._chat = ChatTokenizer.open(self._model)
        self._worlds: list[str] = []
        self._rows: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._readings: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._vllm_prompts: Counter[Ids] = Counter()  # made by its chat template, of hermes, full

    async def run(self) -> int:
        """Play everything; returns the exit status."""
        self._worlds = await make_worlds(self._folder / "worlds")
        runs = {way: self._played(way) for way in _WAYS}
        async with (
            VllmServer(self._server_settings(), self._folder / "vllm.log") as server,
            Recorder(server.base_url) as recorder,
        ):
            for played in runs.values():
                with self._checks.no_error_in(played.title):
                    await self._play(played, recorder)
            with self._checks.no_error_in("killed and resumed"):
                await self._kill_and_resume(recorder)
            if self._options.entries:
                self._readings = await compare_readings(
                    self._folder / "bfcl",
                    self._model,
                    server.base_url,
                    self._options.bfcl,
                    num_entries=self._options.entries,
                )
        with self._checks.no_error_in("first prompts"):
            self._compare_templates(runs["vllm", "hermes", "full"].folder)
        for history in ("full", "last:2"):
            with self._checks.no_error_in(f"vllm and local, {history}"):
                one, other = (runs[policy, "hermes", history] for policy in ("vllm", "local"))
                self._compare_policies(one.folder, other.folder, history)
        self._print()
        return min(self._checks.num_failed, 1)

    def _server_settings(self) -> VllmServerSettings:
        return VllmServerSettings(
            str(self._model),
            python=self._options.vllm_python,
            dtype="float32",  # as policy `local` computes, so that their samples can be compared
            max_model_len=_CONTEXT,
            max_num_seqs=8,
            kv_cache_gib=2,
            arguments=("--enable-auto-tool-choice", "--tool-call-parser", self._options.parser),
        )

    def _played(self, way: Sequence[str]) -> Played:
        folder = self._folder / "-".join(way).replace(":", "")
        return Played(*way[:3], folder, is_forced=len(way) > 3)

    async def _play(self, played: Played, recorder: Recorder) -> None:
        arguments = run_arguments(played, self._worlds, self._model, recorder.base_url)
        if played.dialect == "native":  # the ids are compared with those that vLLM made
            arguments += ["--tokens", self._model]
        recorder.is_forced = played.is_forced
        began = time.monotonic()
        await rehearse(*arguments)
        seconds = round(time.monotonic() - began)
        exchanges = recorder.take()
        _log.info("played", run=played.title, seconds=seconds, replies=len(exchanges))
        row = await check_run(played, self._model, self._checks)
        self._rows.append(row | {"seconds": seconds})
        if played.dialect == "native":
            self._check_native(played, exchanges)
        else:
            check_text_calls(played, self._checks)
        if (played.policy, played.dialect, played.history) == ("openai", "hermes", "full"):
            self._vllm_prompts = Counter(tuple(one.prompt_ids) for one in exchanges)

    def _check_native(self, played: Played, exchanges: Sequence[Exchange]) -> None:
        texts = [self._chat.decode(one.reply_ids) for one in exchanges]
        counts = check_native_calls(played, exchanges, texts, self._checks)
        ours = Counter(
            prompt for one in trajectories_of(played.folder) for prompt, _ in ids_of(one)
        )
        theirs = Counter(tuple(one.prompt_ids) for one in exchanges)
        counts["prompts as vLLM's template makes them"] = (ours & theirs).total()
        self._calls.append({"run": played.title} | counts)

    async def _kill_and_resume(self, recorder: Recorder) -> None:
        recorder.is_forced = True
        played = Played("openai", "native", "full", self._folder / "killed", is_forced=True)
        arguments = run_arguments(played, self._worlds, self._model, recorder.base_url)
        await kill_when(
            lambda: _is_half_done(played.folder),
            *arguments,
            *("-c", "2"),
            output=self._folder / "killed.txt",
            limit_s=3600,
        )
        await rehearse("run", "-o", played.folder, "--resume")
        recorder.take()
        check_resumed(played.folder, self._rows[0]["episodes"], self._checks)
        row = await check_run(played, self._model, self._checks)
        self._rows.append(row | {"run": "killed and resumed"})

    def _compare_templates(self, vllm: Path) -> None:
        """What policy vllm sends is what vLLM itself makes of the messages."""
        first = Counter(ids_of(one)[0][0] for one in trajectories_of(vllm))
        self._checks.that(
            (first & self._vllm_prompts).total() == first.total(),
            f"vLLM's chat template makes the ids of {first.total()} first prompts as we do",
        )

    def _compare_policies(self, vllm: Path, local: Path, history: str) -> None:
        found = compare_ids(vllm, local)
        self._checks.that(
            found.prompts == found.equal_prompts > 0,
            f"vllm and local, {history}: the ids of {found.prompts} prompts are equal",
        )
        self._notes.append(
            f"vllm and local, {history}: {found.equal_replies} of {found.prompts} replies sampled"
            f" alike; {found.equal_tokens} of {found.tokens} tokens before the first that differs"
        )

    def _print(self) -> None:
        for row in self._readings:
            self._checks.that(
                row["equal calls"] == row["equal bytes"] == row["entries"],
                f"{row['category']}: the openai package reads the calls of {row['entries']} entries"
                " as we do",
            )
        for rows in (self._rows, self._calls, self._readings):
            if rows:
                say("\n" + table(rows))
        say("\n" + "\n".join(self._notes))
        say(f"{self._checks.num} checks, {self._checks.num_failed} failed")


def _is_half_done(folder: Path) -> bool:
    """Whether an episode has ended, and another is in its middle."""
    if not (folder / LOG_NAME).exists():
        return False
    with open_reader(folder) as reader:
        rows = reader.episodes()
    ended = [row for row in rows if row.ending is not None]
    return bool(ended) and any(row.ending is None and row.num_steps > 0 for row in rows)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a table in Markdown; a cell that a row lacks is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names)]
    lines += [[str(row.get(name, "")) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Read the arguments and run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="Hugging Face folder of an instruct model")
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/real"))
    parser.add_argument("--parser", default="hermes", help="vLLM's --tool-call-parser")
    parser.add_argument("--entries", type=int, default=80, help="entries of the BFCL")
    parser.add_argument("--vllm-python", default=".venv-vllm/bin/python")
    parser.add_argument("--bfcl", type=Path, required=True, help="folder of bfcl_eval")
    options = parser.parse_args()
    shutil.rmtree(options.output, ignore_errors=True)
    options.output.mkdir(parents=True)
    return anyio.run(Campaign(options).run)


if __name__ == "__main__":
    sys.exit(main())
