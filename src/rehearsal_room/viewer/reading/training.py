"""A training run, read from its folder: curves, evaluations, weights, samples.

`rehearsal_room.learner.core.training_folder` describes the folder. Nothing of the learner is
imported: a machine without torch shows training runs, too.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.scenarios.files import UNREADABLE, read_toml
from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.reading.open_runs import ShownRun, run_id
from rehearsal_room.viewer.reading.plain import plain

_METRICS, _EVALUATIONS, _VERSIONS = "metrics.jsonl", "evaluations", "versions"
_MAX_SAMPLES = 256
_GROUPS = {  # beginning of a metric's name: its group
    "evaluation/": "evaluation",
    "seconds/": "time",
    "dropped": "dropped",
    "groups_dropped": "dropped",
    "mismatch": "mismatch",
    "entropy": "policy",
    "logprob": "policy",
    "ratio": "policy",
    "drift": "policy",
    "clipped": "policy",
    "reward": "results",
    "pass_rate": "results",
    "loss": "update",
    "grad_norm": "update",
    "lr": "update",
    "tokens_per_second": "throughput",
    "num_": "throughput",
    "shared": "throughput",
}


class Evaluation(msgspec.Struct, frozen=True):
    """An evaluation, which is a run of its own."""

    step: int
    split: str  # the scenarios that it plays
    pass_rate: float | None
    reward: float | None
    episodes: int
    run: str  # id of the run


class Weights(msgspec.Struct, frozen=True):
    """A published version that is still there."""

    version: str
    step: int | None
    path: str
    at: float


class BatchSample(msgspec.Struct, frozen=True):
    """An episode of a batch."""

    episode: str
    group: str
    member: int
    scenario: str
    task: str
    reward: float | None
    advantage: float | None  # reward less the group's baseline, scaled as the run says
    label: str | None
    turns: int
    tokens: int  # sampled
    weights: str  # the version that sampled it


def training(run: ShownRun, add: Callable[[Path], Any]) -> dict[str, Any]:
    """The curves of a training run, its evaluations and weights. `add` makes an evaluation's run
    known. Raises SettingsError for a folder that is not a training run's."""
    folder = run.folder
    if run.kind != "training":
        raise SettingsError(f"{folder} is not a training run: it has no train.toml")
    steps = steps_in(folder / _METRICS)
    names = list(dict.fromkeys(name for step in steps for name in step if name != "step"))
    report = _report(folder / "report.json")
    return {
        "steps": plain(steps),
        "names": [{"name": name, "group": _group_of(name)} for name in names],
        "evaluations": _evaluations(folder, steps, add),
        "dropped": plain(report.get("dropped", {})),
        "weights": _weights(folder / _VERSIONS),
        "versions": _sampled(run),
        "report": plain(report),
        "settings": plain(_settings(folder)),
    }


def batch(run: ShownRun, step: int) -> dict[str, Any]:
    """The episodes of a batch, with their advantages. Batch k takes the groups k * size to
    (k + 1) * size - 1 of the plan (learner.data.batch_queue); step 1 trains batch 0."""
    settings = _settings(run.folder)
    size = settings.get("data", {}).get("groups", 0)
    kind = str(settings.get("loss", {}).get("advantage", "mean_std"))
    groups = [f"g{number:06d}" for number in range((step - 1) * size, step * size)]
    marks = ", ".join("?" * len(groups))
    rows = run.index().rows(
        "SELECT episode, grp, member, scenario, task, reward, label, turns, completion_tokens,"
        f" weights FROM episodes WHERE grp IN ({marks}) ORDER BY grp, member LIMIT ?",
        *groups,
        _MAX_SAMPLES,
    )
    rewards: dict[str, list[float]] = {}
    for row in rows:
        if row[5] is not None:
            rewards.setdefault(row[1], []).append(row[5])
    samples = [_sample(row, kind, rewards.get(row[1], [])) for row in rows]
    return {"step": step, "advantage": kind, "samples": samples}


def _sample(row: Sequence[Any], kind: str, rewards: Sequence[float]) -> BatchSample:
    episode, group, member, scenario, task, reward, label, turns, tokens, weights = row
    advantage = None if reward is None else advantage_of(kind, reward, rewards)
    return BatchSample(
        episode=episode,
        group=group,
        member=member,
        scenario=scenario,
        task=task,
        reward=reward,
        advantage=advantage,
        label=label,
        turns=turns,
        tokens=tokens,
        weights=weights,
    )


def advantage_of(kind: str, reward: float, group: Sequence[float]) -> float | None:
    """The advantage of an episode's reward in its group (learner.advantages has the formulas); None
    for a kind that is not known here.

    Example: "mean", 1.0 of [1.0, 0.0] -> 0.5
    """
    mean = sum(group) / len(group)
    if kind == "reward":
        return reward
    if kind == "mean":
        return reward - mean
    if kind == "leave_one_out":
        return (reward - mean) * len(group) / (len(group) - 1) if len(group) > 1 else 0.0
    if kind != "mean_std":
        return None
    if len(group) < 2:
        return reward - mean
    deviation = (sum((one - mean) ** 2 for one in group) / (len(group) - 1)) ** 0.5
    return (reward - mean) / (deviation if deviation >= 1e-6 else 1.0)


def steps_in(path: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; an incomplete one is left out, and so is a missing file."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    found = []
    for line in data.split(b"\n")[:-1]:
        try:
            row = msgspec.json.decode(line)
        except (UnicodeError, *UNREADABLE):
            continue
        if isinstance(row, dict) and "step" in row:
            found.append(row)
    return found


def _group_of(name: str) -> str:
    return next((group for start, group in _GROUPS.items() if name.startswith(start)), "other")


def _evaluations(
    folder: Path, steps: Sequence[dict[str, Any]], add: Callable[[Path], Any]
) -> list[Evaluation]:
    found = []
    for path in sorted((folder / _EVALUATIONS).glob("b*")):
        number = path.name[1:]
        if not number.isdigit() or not (path / LOG_NAME).is_file():
            continue
        add(path)
        report = _report(path / "report.json")
        scenarios = _toml(path / "run.toml").get("scenarios", ())
        found.append(
            Evaluation(
                int(number),
                _split(scenarios),
                report.get("pass_rate"),
                report.get("mean_reward"),
                int(report.get("episodes", 0)),
                run_id(path),
            )
        )
    return found


def _split(scenarios: Any) -> str:
    names = [Path(str(one)).name for one in scenarios]
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


def _weights(folder: Path) -> list[Weights]:
    found = []
    for path in folder.glob("v*"):
        number = path.name[1:]
        if path.is_dir():
            step = int(number) if number.isdigit() else None
            found.append(Weights(path.name, step, str(path), path.stat().st_mtime))
    return sorted(found, key=lambda one: (one.step or 0, one.version))


def _sampled(run: ShownRun) -> list[dict[str, Any]]:
    """The versions that played the rollouts, with their episodes; none without rollouts."""
    try:
        index: RunIndex = run.index()
    except SettingsError:
        return []
    rows = index.rows(
        "SELECT weights, count(*), avg(reward) FROM episodes WHERE weights <> '' GROUP BY weights"
        " ORDER BY min(number)"
    )
    return [{"version": version, "episodes": n, "reward": reward} for version, n, reward in rows]


def _settings(folder: Path) -> dict[str, Any]:
    return _toml(folder / "train.toml")


def _toml(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path, error=SettingsError, own=True) if path.is_file() else {}
    except SettingsError:
        return {}


def _report(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, UnicodeError, *UNREADABLE):
        return {}
    return found if isinstance(found, dict) else {}
