"""Wiring a synthesis: the model behind its endpoint, the workers, the budget, the folder."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rehearsal_room.authoring.author import ModelAuthor
from rehearsal_room.authoring.draft_host import MAX_STEPS, SandboxedDraftHost
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.workers.pool import MAX_WORKERS, WorkerSettings
from rehearsal_room.harness.chat.budget import Budget
from rehearsal_room.harness.chat.prices import Prices, read_prices
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.policies.openai import OpenAISettings
from rehearsal_room.scenarios.synth.awm_export.files import write_awm
from rehearsal_room.scenarios.synth.core.prompt_files import NAMES, Prompts
from rehearsal_room.scenarios.synth.core.seeds import read_seeds
from rehearsal_room.scenarios.synth.dry_prompts import StagePrompt, stage_prompts
from rehearsal_room.scenarios.synth.report import SynthesisReport
from rehearsal_room.scenarios.synth.run import (
    MAY_CHANGE,
    ReportProgress,
    SynthesisSettings,
    synthesise,
)
from rehearsal_room.scenarios.synth.stages.common import Sizes
from rehearsal_room.scenarios.synth.stages.ideas import IdeaSettings
from rehearsal_room.scenarios.synth.storage.output_folder import SynthesisFolder, write_json
from rehearsal_room.scenarios.synth.storage.spending import SpendingLedger
from rehearsal_room.scenarios.validation import MAX_FLOAT

_Count = Annotated[int, Meta(ge=1)]


class SynthesisOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a synthesis."""

    model: Annotated[
        str,
        Meta(
            description="Name of the model that writes the worlds; required to write any.",
            extra={"short": "-m"},
        ),
    ]
    seeds: Annotated[
        str,
        Meta(
            description="File of scenario descriptions, one JSON object per line.",
            extra={"flag": ""},
        ),
    ]
    output: Annotated[
        str,
        Meta(
            description="Folder of the worlds and of the results of all stages; required to write "
            "any.",
            extra={"short": "-o", "metavar": "DIR"},
        ),
    ]
    count: Annotated[
        _Count | None,
        Meta(
            description="Number of scenarios in all; the model invents more "
            "where the file has fewer.",
            extra={"short": "-n", "default": "the number of seeds"},
        ),
    ] = None
    tasks: Annotated[_Count, Meta(description="Number of tasks per world.")] = 10
    tables: Annotated[_Count, Meta(description="Approximate number of tables per world.")] = 18
    rows: Annotated[_Count, Meta(description="Approximate number of seed rows per world.")] = 120
    tools: Annotated[_Count, Meta(description="Approximate number of tools per world.")] = 35
    tries: Annotated[
        _Count, Meta(description="Maximum number of answers of the model in one stage.")
    ] = 5
    least_tasks: Annotated[
        _Count, Meta(description="Minimum number of proved tasks for a world to be accepted.")
    ] = 1
    seed: Annotated[int, Meta(description="Seed of all random choices.")] = 0
    same: Annotated[
        float,
        Meta(gt=0, le=1, description="Cosine similarity above which two scenarios count as one."),
    ] = 0.85
    cap: Annotated[_Count, Meta(description="Maximum number of scenarios of one category.")] = 80
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
    solver: Annotated[
        str,
        Meta(
            description="Name of the model that solves the tasks, on the same server.",
            extra={"metavar": "MODEL", "default": "the model that writes the worlds"},
        ),
    ] = ""
    embeddings: Annotated[
        str,
        Meta(
            description="Embedding model of the server, with which similar scenarios are found.",
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
            description="Maximum cost of all runs on this folder together, in USD; needs --prices.",
            extra={"metavar": "USD", "default": "no limit"},
        ),
    ] = None
    concurrency: Annotated[
        _Count,
        Meta(
            description="Number of scenarios in progress at the same time.", extra={"short": "-c"}
        ),
    ] = 8
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_FLOAT)] | None,
        Meta(description="Sampling temperature."),
    ] = 1.0
    max_tokens: Annotated[
        int, Meta(ge=256, description="Maximum number of tokens in one answer of the model.")
    ] = 32_000
    timeout: Annotated[
        float, Meta(gt=0, description="Seconds to wait for one request to the model.")
    ] = 600.0
    attempts: Annotated[
        _Count, Meta(description="Maximum number of requests for one answer, retries included.")
    ] = 5
    max_steps: Annotated[
        _Count, Meta(description="Maximum number of steps in which the model solves a task.")
    ] = MAX_STEPS
    call_timeout: Annotated[
        float,
        Meta(
            gt=0,
            description="Maximum duration of one tool call, verifier or seeding, in seconds.",
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


def require_consistent(options: SynthesisOptions) -> SynthesisOptions:
    """The settings, if they go together. Raises SettingsError naming the flag."""
    if options.least_tasks > options.tasks:
        raise SettingsError(
            f"--least-tasks: must be at most --tasks {options.tasks}, found {options.least_tasks}"
        )
    if options.budget is not None and not options.prices:
        raise SettingsError("--budget: spending can be limited only where --prices are given, too")
    return options


async def run_synthesis(
    options: SynthesisOptions, report_progress: ReportProgress
) -> SynthesisReport:
    """Run the synthesis and write report.json. Raises SettingsError (prices too), SynthesisError,
    and PoolError where no worker can be started."""
    seeds = read_seeds(Path(options.seeds))
    prompts = Prompts(Path(options.prompts) if options.prompts else None)
    prices = _prices(options)
    folder = SynthesisFolder(Path(options.output))
    settings = _settings(options, len(seeds))
    rerun_facts = _rerun_facts(options, settings, prompts)
    async with AsyncExitStack() as stack:
        stack.enter_context(folder.lock())
        folder.begin(rerun_facts, MAY_CHANGE)
        ledger = SpendingLedger(folder.path / "ledger.jsonl")
        budget = Budget(options.budget, spent=ledger.usd)
        author = ModelAuthor(
            _model(options, options.model),
            prices=prices,
            budget=budget,
            ledger=ledger,
            embeddings=options.embeddings,
        )
        await stack.enter_async_context(author)
        solver = author
        if options.solver:
            settings_of_solver = _model(options, options.solver)
            solver = ModelAuthor(settings_of_solver, prices=prices, budget=budget, ledger=ledger)
            await stack.enter_async_context(solver)
        workers = WorkerSettings(
            workers=options.workers, sandbox=options.sandbox, call_deadline=options.call_timeout
        )
        pool = await stack.enter_async_context(RoutingPool(workers, isolate=True))
        await pool.start()
        report = await synthesise(
            seeds,
            folder,
            ledger,
            author=author,
            host=SandboxedDraftHost(pool, solver, max_steps=options.max_steps),
            prompts=prompts,
            settings=settings,
            again=options.again,
            report_progress=report_progress,
        )
    write_json(folder.path / "report.json", report)
    if options.awm:
        write_awm(folder)
    return report


def _prices(options: SynthesisOptions) -> Prices:
    if not options.prices:
        return Prices()
    prices = read_prices(Path(options.prices))
    prices.require(filter(None, (options.model, options.solver, options.embeddings)))
    return prices


def _settings(options: SynthesisOptions, num_seeds: int) -> SynthesisSettings:
    return SynthesisSettings(
        ideas=IdeaSettings(
            count=options.count or num_seeds,
            invent=options.count is not None,
            same=options.same,
            cap=options.cap,
        ),
        sizes=_sizes(options),
        tries=options.tries,
        seed=options.seed,
        least_tasks=options.least_tasks,
        at_once=options.concurrency,
    )


def _sizes(options: SynthesisOptions) -> Sizes:
    return Sizes(tasks=options.tasks, tables=options.tables, rows=options.rows, tools=options.tools)


def dry_prompts(options: SynthesisOptions) -> Iterator[StagePrompt]:
    """Yield every stage's prompt for the first scenario of the seeds; no model is asked. Raises
    SynthesisError."""
    first, *_ = read_seeds(Path(options.seeds))
    prompts = Prompts(Path(options.prompts) if options.prompts else None)
    folder = SynthesisFolder(Path(options.output)) if options.output else None
    yield from stage_prompts(first, prompts, _sizes(options), folder)


def _rerun_facts(
    options: SynthesisOptions, settings: SynthesisSettings, prompts: Prompts
) -> dict[str, Any]:
    """The facts in which a rerun must agree with the first run (see MAY_CHANGE for the rest)."""
    seeds = blake2b(Path(options.seeds).read_bytes(), digest_size=8).hexdigest()
    models = {"model": options.model, "solver": options.solver}
    facts: dict[str, Any] = models | {"seeds": seeds, "count": settings.ideas.count}
    for name in ("tasks", "tables", "rows", "tools", "tries", "least_tasks", "seed", "same", "cap"):
        facts[name] = getattr(options, name)
    facts |= {f"prompt_{name}": prompts.version(name) for name in NAMES}
    return facts | {"embeddings": options.embeddings}


def _model(options: SynthesisOptions, name: str) -> OpenAISettings:
    return OpenAISettings(
        name,
        base_url=options.base_url or None,
        temperature=options.temperature,
        max_tokens=options.max_tokens,
        seed=options.seed,
        timeout_s=options.timeout,
        max_attempts=options.attempts,
    )
