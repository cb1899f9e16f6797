"""The runs of the campaign: worlds, settings, and what must hold of each run with any model."""

import json
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import connect
from typing import Any

import msgspec
from transformers import AutoTokenizer

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.messages import Act, AgentCall
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.real.commands import rehearse, rehearse_json
from tests.real.recorder import Exchange
from tests.real.token_ids import trajectories_of
from tests.real.written_calls import written_calls
from tests.support.paths import LIBRARY

LABELS = ("completed", "partially_completed", "agent_error", "environment_error")
_LIBRARY_TASKS = ("pay-fine", "overdue")
_MICRO_TASKS = ("goals-1-a", "memory-a")
# Greedy, so that two ways to the same model can be compared. A small model breaks the format often:
# it reads the fault, and the episode goes on, so that windows lose turns. Small, for CPUs.
_HOW = ("--temperature", "0", "--seed", "1", "--max-steps", "4", "--max-tokens", "64")
_PATIENCE = ("--no-format-stop", "--request-timeout", "1200", "--reply-timeout", "3600", "-c", "8")


class Checks:
    """What must hold with any model; a check that fails is counted, and the campaign goes on."""

    def __init__(self) -> None:
        self.num = 0
        self.num_failed = 0

    def that(self, holds: bool, what: str) -> None:
        """Say whether something holds."""
        self.num += 1
        self.num_failed += not holds
        say(f"{'ok    ' if holds else 'FAILED'} {what}")

    @contextmanager
    def no_error_in(self, what: str) -> Generator[None]:
        """Count an error as a check that fails, and go on after the block."""
        try:
            yield
        except Exception as exc:
            self.that(False, f"{what}: {type(exc).__name__}: {exc}")


def say(line: str) -> None:
    """Write a line at once: a campaign takes long."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Played(msgspec.Struct, frozen=True):
    """One run: how the model is asked, and where its folder is."""

    policy: str
    dialect: str
    history: str
    folder: Path
    is_forced: bool = False  # whether the server must answer each request by a call

    @property
    def title(self) -> str:
        """The run in words."""
        words = f"{self.policy} {self.dialect} {self.history}"
        return f"{words}, calls required" if self.is_forced else words


async def make_worlds(folder: Path) -> list[str]:
    """Tasks of the library (ten tools, two rules), of the scaffold's world, and of a micro-world
    (the last ones), as arguments of `rehearse run`."""
    await rehearse("new", "world", "clinic", "-o", folder)
    (micro,) = write_microworlds(folder, seed=1, count=1, split="held_out")
    tasks = [f"{LIBRARY}:{task}" for task in _LIBRARY_TASKS]
    return [*tasks, str(folder / "clinic"), *(f"{micro}:{task}" for task in _MICRO_TASKS)]


def run_arguments(
    played: Played, worlds: Sequence[str], model: Path, base_url: str
) -> list[str | Path]:
    """The arguments of the run's command."""
    if played.policy == "local":  # it is the slowest on a CPU: prompts of the micro-world are short
        worlds = worlds[-len(_MICRO_TASKS) :]
    arguments: list[str | Path] = ["run", *worlds, "-p", played.policy, "-m", model]
    arguments += ["--dialect", played.dialect, "--history", played.history, *_HOW, *_PATIENCE]
    arguments += ["-o", played.folder]
    return [*arguments, *(["--base-url", base_url] if played.policy != "local" else [])]


async def check_run(played: Played, model: Path, checks: Checks) -> dict[str, Any]:
    """Check the run's log, and what the commands on it say. Returns its row of the table."""
    found = trajectories_of(played.folder)
    judged = [one for one in found if one.judged]
    decided = all(
        one.ended is not None and (one.judged or one.ended.ending.lacks_reply) for one in found
    )
    checks.that(decided, f"{played.title}: each of {len(found)} episodes has an outcome")
    failed = sum(one.ended is not None and one.ended.ending.lacks_reply for one in found)
    checks.that(failed == 0, f"{played.title}: the server answered each request")

    into = played.folder.with_suffix(".json")
    replayed = await rehearse_json("replay", played.folder, into=into)
    checks.that(
        not replayed["divergences"] and replayed["episodes"] == len(found),
        f"{played.title}: replay of {replayed['calls']} calls is equal",
    )
    before = Counter(one.judged[-1].label for one in judged)
    again = await rehearse_json("judge", played.folder, "--mode", "code", into=into)
    checks.that(
        {name: number for name, number in again["labels"].items() if number} == dict(before),
        f"{played.title}: judged again, the labels are the same",
    )
    kinds = (await rehearse_json("failures", played.folder, into=into))["kinds"]
    await _check_exports(played, model, len(found), checks)
    return _row(played, found, kinds)


async def _check_exports(played: Played, model: Path, episodes: int, checks: Checks) -> None:
    """Every episode is exported, and the model's own chat template takes every exported chat."""
    lines, chats = played.folder.with_suffix(".jsonl"), played.folder.with_suffix(".sft.jsonl")
    await rehearse("export", played.folder, "--to", "jsonl", "-o", lines)
    exported = [json.loads(line) for line in lines.read_text().splitlines()]
    checks.that(len(exported) == episodes, f"{played.title}: every episode is exported")
    chosen = [word for label in LABELS for word in ("--label", label)]
    await rehearse("export", played.folder, "--to", "sft", *chosen, "-o", chats)
    tokenizer = AutoTokenizer.from_pretrained(model)
    num_rendered = 0
    for line in chats.read_text().splitlines():
        chat = json.loads(line)
        tools = json.loads(chat["tools"]) if chat.get("tools") else None
        tokenizer.apply_chat_template(chat["messages"], tools=tools)
        num_rendered += 1
    checks.that(num_rendered > 0, f"{played.title}: {num_rendered} chats fit the model's template")


def _row(played: Played, found: Sequence[Trajectory], kinds: dict[str, Any]) -> dict[str, Any]:
    steps = [step for one in found for step in one.steps]
    results = [result for step in steps for result in step.results]
    endings = Counter(one.ended.ending for one in found if one.ended is not None)
    labels = Counter(one.judged[-1].label for one in found if one.judged)
    return {
        "run": played.title,
        "episodes": len(found),
        "completed": labels["completed"],
        "answered": endings[Ending.ANSWERED],
        "format error": endings[Ending.FORMAT_ERROR],
        "step or token limit": endings[Ending.STEP_LIMIT] + endings[Ending.TOKEN_LIMIT],
        "calls": len(results),
        "refused calls": sum(one.error is not None for one in results),
        "longest prompt": max((step.reply.usage.prompt_tokens for step in steps), default=0),
        "failures": ", ".join(f"{name} {_number(kind)}" for name, kind in kinds.items()),
    }


def _number(kind: Any) -> int:
    return kind["episodes"] if isinstance(kind, dict) else kind


def check_text_calls(played: Played, checks: Checks) -> None:
    """Calls that were read from the text are those that the model wrote."""
    clean = wrong = calls = 0
    for one in trajectories_of(played.folder):
        for step in one.steps:
            written = written_calls(step.reply.text)
            if not (written.is_clean and written.calls):
                continue
            clean += 1
            calls += len(written.calls)
            if isinstance(step.decision, Act):
                wrong += _pairs(step.decision.calls) != written.calls
    what = f"{calls} calls in {clean} replies with well-formed blocks are read as written"
    checks.that(wrong == 0, f"{played.title}: {what}")


def check_native_calls(
    played: Played, exchanges: Sequence[Exchange], texts: Sequence[str], checks: Checks
) -> dict[str, int]:
    """The log has exactly the calls that the server's tool parser found, and that parser found
    those that the model wrote. `texts` are the replies before the parser. Returns counts."""
    steps = [step for one in trajectories_of(played.folder) for step in one.steps]
    logged = Counter(_key(call) for step in steps for call in _pairs(step.reply.calls))
    parsed = Counter(_key(call) for one in exchanges for call in one.calls)
    checks.that(
        logged == parsed, f"{played.title}: the log has the {parsed.total()} calls of the server"
    )
    counts: Counter[str] = Counter(replies=len(exchanges), parsed=parsed.total())
    unlike = 0
    for exchange, text in zip(exchanges, texts, strict=True):
        written = written_calls(text)
        if written.is_clean and written.calls:
            counts["written"] += len(written.calls)
            unlike += written.calls != exchange.calls
        counts["not clean"] += not written.is_clean
        counts["text without calls"] += not exchange.calls
    checks.that(
        unlike == 0, f"{played.title}: {counts['written']} well-formed calls, parsed as written"
    )
    return dict(counts)


def check_resumed(folder: Path, episodes: int, checks: Checks) -> None:
    """After a kill and `--resume` each episode is there once, and one of them was continued."""
    with closing(connect(folder / LOG_NAME)) as log:
        ended = dict(
            log.execute(
                "SELECT episode, count(*) FROM events WHERE kind = 'ended' GROUP BY episode"
            )
        )
        attempts = dict(log.execute("SELECT episode, max(attempt) FROM events GROUP BY episode"))
        first = log.execute("SELECT min(attempt) FROM events").fetchone()[0]
    checks.that(
        len(ended) == len(attempts) == episodes and set(ended.values()) == {1},
        f"killed and resumed: each of {episodes} episodes ended once",
    )
    continued = sum(attempt > first for attempt in attempts.values())
    checks.that(0 < continued < episodes, f"killed and resumed: {continued} episodes continued")


def _pairs(calls: Sequence[AgentCall]) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in calls]


def _key(call: tuple[str, Any]) -> str:
    return json.dumps(call, sort_keys=True)
