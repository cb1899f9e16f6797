"""A run as a log of Inspect AI (`--to inspect`), written by the package inspect_ai.

`inspect view --log-dir FOLDER` and `inspect_ai.log.read_eval_log` open it. A task is a sample, and
its episodes are the sample's epochs. Inspect writes a log from memory, so all episodes are held
there: 0.3 to 1 MB each.

The tests of this format run where inspect_ai is installed: `just doors inspect`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalPlanStep,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import ModelUsage

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.log.outputs import writing
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.interop.exports.inspect_names import (
    began,
    id_of,
    model_name,
    stamp,
    task_name,
)
from rehearsal_room.interop.exports.inspect_sample import SampleMaker
from rehearsal_room.interop.exports.source import ExportSource
from rehearsal_room.scenarios.distribution import NAME, version


def write_log(source: ExportSource, path: Path) -> None:
    """Write the log, whole or not at all. Raises LogError and OSError."""
    names = _sample_names(source.rows)
    samples = [
        SampleMaker(episode, *names[episode.row.episode]).sample() for episode in source.episodes()
    ]
    rows = source.rows
    ended = [row for row in rows if row.ending not in (None, Ending.CANCELLED)]
    log = EvalLog(
        status="success" if len(ended) == len(rows) else "cancelled",
        eval=_spec(source),
        plan=_plan(source),
        results=EvalResults(
            total_samples=len(rows),
            completed_samples=len(ended),
            scores=list(_scores(samples)),
        ),
        stats=_stats(rows, samples),
        samples=samples,
    )
    with TemporaryDirectory() as folder:
        made = Path(folder) / "log.eval"
        write_eval_log(log, made, format="eval")
        with made.open("rb") as whole, writing(path) as file:
            copyfileobj(whole, file)


def _sample_names(rows: Sequence[EpisodeRow]) -> dict[str, tuple[str, int]]:
    """Sample and epoch of each episode: the n-th episode of a task is its n-th epoch."""
    seen: Counter[str] = Counter()
    names = {}
    for row in rows:
        sample = f"{row.scenario}:{row.task}"
        seen[sample] += 1
        names[row.episode] = (sample, seen[sample])
    return names


def _policy(source: ExportSource) -> str:
    policies = sorted({row.policy for row in source.rows})
    return policies[0] if len(policies) == 1 else "several"


def _spec(source: ExportSource) -> EvalSpec:
    names = _sample_names(source.rows)
    samples: list[str | int] = list(dict.fromkeys(sample for sample, _ in names.values()))
    settings = source.settings
    judges = dict.fromkeys(row.judge for row in source.rows if row.judge is not None)
    return EvalSpec(
        eval_id=id_of(source, "eval"),
        run_id=id_of(source, "run"),
        created=stamp(began(source)),
        task=task_name(source),
        task_id=id_of(source, "task"),
        dataset=EvalDataset(
            name=source.run, samples=len(samples), sample_ids=samples, shuffled=False
        ),
        model=model_name(_policy(source)),
        config=EvalConfig(epochs=max((epoch for _, epoch in names.values()), default=1)),
        packages={NAME: version()},
        scorers=[{"name": judge} for judge in judges],
        metadata={
            "run": source.run,
            "log": source.log_id,
            **({} if settings is None else {"seed": settings.seed}),
            "worlds": {world.scenario: world.scenario_digest for world in source.worlds.values()},
        },
    )


def _plan(source: ExportSource) -> EvalPlan:
    settings = source.settings
    params = {} if settings is None else {"history": settings.history, "dialect": settings.dialect}
    return EvalPlan(steps=[EvalPlanStep(solver=_policy(source), params=params)])


def _stats(rows: Sequence[EpisodeRow], samples: Sequence[EvalSample]) -> EvalStats:
    if not rows:
        return EvalStats()
    total: dict[str, ModelUsage] = {}
    for sample in samples:
        for model, usage in sample.model_usage.items():
            total[model] = total[model] + usage if model in total else usage
    return EvalStats(
        started_at=stamp(min(row.started_at for row in rows)),
        completed_at=max(sample.completed_at for sample in samples),
        model_usage=total,
    )


def _scores(samples: Sequence[EvalSample]) -> Iterator[EvalScore]:
    """For each judge the mean reward, and the share of completed episodes."""
    for judge in dict.fromkeys(judge for sample in samples for judge in sample.scores):
        found = [sample for sample in samples if judge in sample.scores]
        completed = sum(sample.metadata["label"] == "completed" for sample in found)
        reward = sum(sample.scores[judge].value for sample in found)
        yield EvalScore(
            name=judge,
            scorer=judge,
            scored_samples=len(found),
            unscored_samples=len(samples) - len(found),
            metrics={
                "pass_rate": EvalMetric(name="pass_rate", value=completed / len(found)),
                "mean_reward": EvalMetric(name="mean_reward", value=reward / len(found)),
            },
        )
