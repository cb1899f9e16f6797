"""A run as a log of Inspect AI (`--to inspect`): an `.eval` file, a zip of JSON, version 2.

    header.json                     what ran, its results and status
    samples/<id>_epoch_<n>.json     one for each episode (see `inspect_events`)
    summaries.json                  a line of each sample, for lists
    _journal/start.json             the header as it was at the start
    _journal/summaries/1.json       the summaries again: readers of a live log use them

`inspect view --log-dir FOLDER` and `inspect_ai.log.read_eval_log` open it; the package inspect_ai
is not needed to write it. A task is a sample, and its episodes are the sample's epochs.
"""

import zipfile
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.log.schema import EpisodeRow, replacing
from rehearsal_room.interop.exports.inspect_events import SampleMaker, model_name, stamp
from rehearsal_room.interop.exports.lines import encode
from rehearsal_room.interop.exports.source import ExportSource
from rehearsal_room.scenarios.distribution import NAME, version

Json = dict[str, Any]
_VERSION = 2


def inspect_name(source: ExportSource) -> str:
    """The file's name in the form that Inspect's lists read: time, task and id."""
    created = stamp(min((row.started_at for row in source.rows), default=0.0))
    time = created.partition(".")[0].replace("+00:00", "").replace(":", "-")
    return f"{time}-00-00_{_task(source).replace('_', '-')}_{_id(source, 'task')}.eval"


def write_inspect_log(source: ExportSource, path: Path) -> None:
    """Write the log. Raises LogError and OSError."""
    summaries: list[Json] = []
    names = _sample_names(source.rows)
    with (
        replacing(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as members,
    ):
        start = {"version": _VERSION, "eval": _spec(source), "plan": _plan(source)}
        _put(members, "_journal/start.json", start)
        for episode in source.episodes():
            sample_id, epoch = names[episode.row.episode]
            maker = SampleMaker(episode, sample_id, epoch)
            _put(members, f"samples/{sample_id}_epoch_{epoch}.json", maker.sample())
            summaries.append(maker.listed())
        _put(members, "_journal/summaries/1.json", summaries)
        _put(members, "summaries.json", summaries)
        _put(members, "header.json", {**start, **_results(source, summaries)})


def _put(members: zipfile.ZipFile, name: str, value: Any) -> None:
    info = zipfile.ZipInfo(name)  # 1980-01-01: equal logs give equal files
    members.writestr(info, encode(value), zipfile.ZIP_DEFLATED, 6)


def _sample_names(rows: list[EpisodeRow]) -> dict[str, tuple[str, int]]:
    """Sample and epoch of each episode: the n-th episode of a task is its n-th epoch."""
    seen: Counter[str] = Counter()
    names = {}
    for row in rows:
        sample = f"{row.scenario}:{row.task}"
        seen[sample] += 1
        names[row.episode] = (sample, seen[sample])
    return names


def _task(source: ExportSource) -> str:
    """The name of the task: the scenario, where there is one, else the run."""
    scenarios = {row.scenario for row in source.rows}
    return scenarios.pop() if len(scenarios) == 1 else source.run


def _id(source: ExportSource, what: str) -> str:
    """An id that is the same in every export of a log."""
    return blake2b(f"{what} {source.log_id}".encode(), digest_size=11).hexdigest()


def _policy(source: ExportSource) -> str:
    policies = sorted({row.policy for row in source.rows})
    return policies[0] if len(policies) == 1 else "several"


def _spec(source: ExportSource) -> Json:
    names = _sample_names(source.rows)
    samples = list(dict.fromkeys(sample for sample, _ in names.values()))
    epochs = max((epoch for _, epoch in names.values()), default=1)
    settings = source.settings
    judges = list(dict.fromkeys(row.judge for row in source.rows if row.judge is not None))
    return {
        "eval_id": _id(source, "eval"),
        "run_id": _id(source, "run"),
        "created": stamp(min((row.started_at for row in source.rows), default=0.0)),
        "task": _task(source),
        "task_id": _id(source, "task"),
        "task_version": 0,
        "task_attribs": {},
        "task_args": {},
        "dataset": {
            "name": source.run,
            "samples": len(samples),
            "sample_ids": samples,
            "shuffled": False,
        },
        "model": model_name(_policy(source)),
        "model_args": {},
        "config": {"epochs": epochs},
        "packages": {NAME: version()},
        "scorers": [{"name": judge} for judge in judges],
        "metadata": {
            "run": source.run,
            "log": source.log_id,
            **({} if settings is None else {"seed": settings.seed}),
            "worlds": {world.scenario: world.scenario_digest for world in source.worlds.values()},
        },
    }


def _plan(source: ExportSource) -> Json:
    settings = source.settings
    params = {} if settings is None else {"history": settings.history, "dialect": settings.dialect}
    return {
        "name": "plan",
        "steps": [{"solver": _policy(source), "params": params}],
        "config": {},
    }


def _results(source: ExportSource, summaries: list[Json]) -> Json:
    rows = source.rows
    ended = [row for row in rows if row.ending not in (None, Ending.CANCELLED)]
    starts = [row.started_at for row in rows]
    ends = [one["completed_at"] for one in summaries]
    return {
        "status": "success" if len(ended) == len(rows) else "cancelled",
        "results": {
            "total_samples": len(rows),
            "completed_samples": len(ended),
            "scores": list(_scores(summaries)),
        },
        "stats": {
            "started_at": stamp(min(starts)) if starts else "",
            "completed_at": max(ends) if ends else "",
            "model_usage": _usage(summaries),
        },
    }


def _scores(summaries: list[Json]) -> Iterator[Json]:
    """For each judge the mean reward, and the share of completed episodes."""
    judges = dict.fromkeys(judge for one in summaries for judge in one["scores"])
    for judge in judges:
        found = [one["scores"][judge] for one in summaries if judge in one["scores"]]
        completed = sum(one["metadata"]["label"] == "completed" for one in found)
        reward = sum(one["value"] for one in found)
        yield {
            "name": judge,
            "scorer": judge,
            "scored_samples": len(found),
            "unscored_samples": len(summaries) - len(found),
            "params": {},
            "metrics": {
                "pass_rate": {"name": "pass_rate", "value": completed / len(found)},
                "mean_reward": {"name": "mean_reward", "value": reward / len(found)},
            },
        }


def _usage(summaries: list[Json]) -> Json:
    total: dict[str, Counter[str]] = {}
    for one in summaries:
        for model, usage in one["model_usage"].items():
            total.setdefault(model, Counter()).update(usage)
    return {model: dict(counts) for model, counts in total.items()}
