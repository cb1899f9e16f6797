"""Wiring a synthesis: the model behind its endpoint, the workers, the purse, the folder."""

from contextlib import AsyncExitStack
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from envpool.router import RoutingPool
from envpool.workers.pool import MAX_WORKERS, WorkerSettings
from harness.chat.budget import Budget
from harness.chat.prices import Prices, read_prices
from harness.core.errors import SettingsError
from harness.policies.openai import OpenAISettings
from judge.worlds.author import ModelAuthor
from judge.worlds.bench import MAX_STEPS, WorkerBench
from scenarios.synth.awm_export.files import write_awm
from scenarios.synth.core.prompt_files import NAMES, Prompts
from scenarios.synth.core.seeds import read_seeds
from scenarios.synth.report import Report
from scenarios.synth.run import MAY_CHANGE, ReportProgress, SynthesisSettings, synthesise
from scenarios.synth.stages.common import Sizes
from scenarios.synth.stages.ideas import IdeaSettings
from scenarios.synth.storage.output_folder import SynthesisFolder, write_json
from scenarios.synth.storage.spending import Ledger


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the command line asks for."""

    model: str
    seeds: str  # the file
    output: str
    count: int | None = None  # scenarios; None: as many as there are seeds
    tasks: int = 10
    tables: int = 18
    rows: int = 120
    tools: int = 35
    tries: int = 5
    least_tasks: int = 1
    seed: int = 0
    same: float = 0.85  # cosine above which two scenarios are one
    cap: int = 80  # scenarios of one category
    prompts: str = ""  # a folder of prompts of one's own
    awm: bool = False  # AWM's files, too
    again: bool = False  # make anew what failed
    base_url: str = ""
    embeddings: str = ""  # a model; empty: texts are compared by their wording
    prices: str = ""  # a file; empty: cost is not known
    budget: float | None = None  # USD, of all runs in this folder together
    concurrency: int = 8  # scenarios worked on side by side
    temperature: float | None = 1.0
    max_tokens: int = 32_000  # of one answer
    timeout: float = 600.0  # seconds for one request
    attempts: int = 5  # requests for one answer
    max_steps: int = MAX_STEPS  # of the solver
    call_timeout: float = 10.0  # seconds for one call of a tool, one verifier, one seeding
    workers: int = 0  # 0: one a core
    sandbox: str = "best"


_AT_LEAST = {
    **dict.fromkeys(("tasks", "tables", "rows", "tools", "tries", "cap", "concurrency"), 1),
    "attempts": 1,
    "max_steps": 1,
    "max_tokens": 256,
    "least_tasks": 1,
    "workers": 0,
}


def checked(asked: Asked) -> Asked:
    """The settings, if they can be used. Raises SettingsError naming the flag."""
    for name, least in _AT_LEAST.items():
        if getattr(asked, name) < least:
            flag = "--" + name.replace("_", "-")
            raise SettingsError(f"{flag}: must be at least {least}, not {getattr(asked, name)}")
    if asked.workers > MAX_WORKERS:
        raise SettingsError(f"--workers: must be at most {MAX_WORKERS}, not {asked.workers}")
    if asked.least_tasks > asked.tasks:
        raise SettingsError(
            f"--least-tasks: must be at most --tasks {asked.tasks}, not {asked.least_tasks}"
        )
    if asked.count is not None and asked.count < 1:
        raise SettingsError(f"--count: must be at least 1, not {asked.count}")
    if not 0 < asked.same <= 1:
        raise SettingsError(f"--same: must be above 0 and at most 1, not {asked.same}")
    for name in ("timeout", "call_timeout"):
        if not getattr(asked, name) > 0:
            flag = "--" + name.replace("_", "-")
            raise SettingsError(f"{flag}: must be more than 0, not {getattr(asked, name)}")
    if asked.budget is not None and not asked.budget >= 0:
        raise SettingsError(f"--budget: must be at least 0, not {asked.budget}")
    if asked.budget is not None and not asked.prices:
        raise SettingsError("--budget: spending can be limited only where --prices are given, too")
    return asked


async def run_synthesis(asked: Asked, told: ReportProgress) -> Report:
    """Do it, and write report.json. Raises SettingsError, SynthesisError, JudgeError for prices,
    PoolError where no worker can be started."""
    seeds = read_seeds(Path(asked.seeds))
    prompts = Prompts(Path(asked.prompts) if asked.prompts else None)
    prices = _prices(asked)
    folder = SynthesisFolder(Path(asked.output))
    settings = _settings(asked, len(seeds))
    began = _began(asked, settings, prompts)
    async with AsyncExitStack() as stack:
        stack.enter_context(folder.lock())
        folder.begin(began, MAY_CHANGE)
        ledger = Ledger(folder.path / "ledger.jsonl")
        author = ModelAuthor(
            _model(asked),
            prices=prices,
            purse=Budget(asked.budget, spent=ledger.usd),
            ledger=ledger,
            embeddings=asked.embeddings,
        )
        await stack.enter_async_context(author)
        workers = WorkerSettings(
            workers=asked.workers, sandbox=asked.sandbox, call_deadline=asked.call_timeout
        )
        pool = await stack.enter_async_context(RoutingPool(workers, isolate=True))
        await pool.start()
        report = await synthesise(
            seeds,
            folder,
            ledger,
            author=author,
            host=WorkerBench(pool, author, max_steps=asked.max_steps),
            prompts=prompts,
            settings=settings,
            again=asked.again,
            report_progress=told,
        )
    write_json(folder.path / "report.json", report)
    if asked.awm:
        write_awm(folder)
    return report


def _prices(asked: Asked) -> Prices:
    if not asked.prices:
        return Prices()
    prices = read_prices(Path(asked.prices))
    prices.require([asked.model, *([asked.embeddings] if asked.embeddings else [])])
    return prices


def _settings(asked: Asked, num_seeds: int) -> SynthesisSettings:
    return SynthesisSettings(
        ideas=IdeaSettings(
            count=asked.count or num_seeds,
            invent=asked.count is not None,
            same=asked.same,
            cap=asked.cap,
        ),
        sizes=Sizes(tasks=asked.tasks, tables=asked.tables, rows=asked.rows, tools=asked.tools),
        tries=asked.tries,
        seed=asked.seed,
        least_tasks=asked.least_tasks,
        at_once=asked.concurrency,
    )


def _began(asked: Asked, settings: SynthesisSettings, prompts: Prompts) -> dict[str, Any]:
    """What a rerun must agree with, and some of what it may change."""
    seeds = blake2b(Path(asked.seeds).read_bytes(), digest_size=8).hexdigest()
    told: dict[str, Any] = {"model": asked.model, "seeds": seeds, "count": settings.ideas.count}
    for name in ("tasks", "tables", "rows", "tools", "tries", "least_tasks", "seed", "same", "cap"):
        told[name] = getattr(asked, name)
    told |= {f"prompt_{name}": prompts.version(name) for name in NAMES}
    return told | {"embeddings": asked.embeddings}


def _model(asked: Asked) -> OpenAISettings:
    return OpenAISettings(
        asked.model,
        base_url=asked.base_url or None,
        temperature=asked.temperature,
        max_tokens=asked.max_tokens,
        seed=asked.seed,
        timeout_s=asked.timeout,
        max_attempts=asked.attempts,
    )
