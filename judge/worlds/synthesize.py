"""Wiring a synthesis: the model behind its endpoint, the workers, the purse, the folder."""

from contextlib import AsyncExitStack
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

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
from scenarios.validation import MAX_FLOAT

_Count = Annotated[int, Meta(ge=1)]


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a synthesis."""

    model: Annotated[str, Meta(description="Name of the model that writes.", extra={"short": "-m"})]
    seeds: Annotated[
        str,
        Meta(description="File of the scenarios in words, one JSON line each.", extra={"flag": ""}),
    ]
    output: Annotated[
        str,
        Meta(
            description="Folder of the worlds and of the results of all stages.",
            extra={"short": "-o", "metavar": "DIR"},
        ),
    ]
    count: Annotated[
        _Count | None,
        Meta(
            description="Number of scenarios in all; the model invents those that are missing.",
            extra={"short": "-n", "default": "the number of seeds"},
        ),
    ] = None
    tasks: Annotated[_Count, Meta(description="Tasks per world.")] = 10
    tables: Annotated[_Count, Meta(description="Tables per world, about.")] = 18
    rows: Annotated[_Count, Meta(description="Rows of seed data per world, about.")] = 120
    tools: Annotated[_Count, Meta(description="Tools per world, about.")] = 35
    tries: Annotated[_Count, Meta(description="Most answers of the model in one stage.")] = 5
    least_tasks: Annotated[
        _Count, Meta(description="Least proved tasks that a world must have to be kept.")
    ] = 1
    seed: Annotated[
        int, Meta(description="Seed from which everything that is drawn at random follows.")
    ] = 0
    same: Annotated[
        float,
        Meta(gt=0, le=1, description="Cosine similarity above which two scenarios count as one."),
    ] = 0.85
    cap: Annotated[_Count, Meta(description="Most scenarios of one category.")] = 80
    prompts: Annotated[
        str,
        Meta(
            description="Folder of your own prompts.",
            extra={"metavar": "DIR", "default": "the built-in prompts"},
        ),
    ] = ""
    awm: Annotated[
        bool,
        Meta(description="Whether the worlds are also written as AWM's files.", extra={"flag": ""}),
    ] = False
    again: Annotated[
        bool, Meta(description="Whether scenarios that failed before are tried again.")
    ] = False
    base_url: Annotated[
        str,
        Meta(
            description="URL of the model server, for example http://localhost:8000/v1.",
            extra={
                "metavar": "URL",
                "default": "OPENAI_BASE_URL of the environment, else OpenAI",
            },
        ),
    ] = ""
    embeddings: Annotated[
        str,
        Meta(
            description="Model of the server whose vectors tell which scenarios are alike.",
            extra={"metavar": "MODEL", "default": "scenarios are compared by their wording"},
        ),
    ] = ""
    prices: Annotated[
        str,
        Meta(
            description="TOML file with the prices of the models, in USD per million tokens.",
            extra={"metavar": "FILE", "default": "costs are not counted"},
        ),
    ] = ""
    budget: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(
            description="Most USD that all runs on this folder together may spend; needs --prices.",
            extra={"metavar": "USD", "default": "no limit"},
        ),
    ] = None
    concurrency: Annotated[
        _Count,
        Meta(description="Scenarios that are worked on side by side.", extra={"short": "-c"}),
    ] = 8
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_FLOAT)] | None,
        Meta(description="Sampling temperature."),
    ] = 1.0
    max_tokens: Annotated[
        int, Meta(ge=256, description="Most tokens of one answer of the model.")
    ] = 32_000
    timeout: Annotated[
        float, Meta(gt=0, description="Seconds to wait for one request to the model.")
    ] = 600.0
    attempts: Annotated[
        _Count, Meta(description="Most requests sent for one answer, retries included.")
    ] = 5
    max_steps: Annotated[
        _Count, Meta(description="Most steps that the model may take to solve a task.")
    ] = MAX_STEPS
    call_timeout: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds that one tool call, one verifier or one seeding may take.",
        ),
    ] = 10.0
    workers: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_WORKERS,
            description="Number of worker processes for the code of worlds; 0: one per core.",
        ),
    ] = 0
    sandbox: Annotated[
        str,
        Meta(
            description="Use the best sandbox that this machine offers, or refuse to run without "
            "the full one (required)."
        ),
    ] = "best"


def checked(asked: Asked) -> Asked:
    """The settings, if they go together. Raises SettingsError naming the flag."""
    if asked.least_tasks > asked.tasks:
        raise SettingsError(
            f"--least-tasks: must be at most --tasks {asked.tasks}, found {asked.least_tasks}"
        )
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
