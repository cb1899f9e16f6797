"""The runs of a training run: the tables [rollouts] and [evaluation] as settings of runs.

What they leave open follows from the training file: the model, and how many episodes there are.
[evaluation] has the settings of [rollouts] except for those that it states itself; unless it states
them, its groups have one episode, there is one of each task, it begins at the task's start, and no
errors are planted in its verdicts.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.settings.run import Settings, resolve_table
from rehearsal_room.harness.settings.tables import merge, nest
from rehearsal_room.learner.config.engine import check_engine_files
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import ConfigError

TRAINABLE = ("local", "vllm")  # policies that report token ids and take new weights
# With data.fill: how many times the groups of a batch may be run until enough can be used
# (DAPO's max_num_gen_batches, arXiv:2503.14476).
FILL_MOST = 10
_OWN = (
    "episodes",
    "group_size",
    "forked_from",
    "edit",
    "branch",
)  # fields that an evaluation does not take over


class TrainingRunSettings(msgspec.Struct, frozen=True):
    """The settings of a training run's runs."""

    rollouts: Settings  # learning from logs takes only the history window and the dialect from it
    evaluation: Settings | None = None  # None: there are no evaluations


def runs_of(settings: TrainSettings) -> TrainingRunSettings:
    """The runs of a training file. Raises ConfigError naming table and field.

    Example: 100 steps of 8 groups of 4 episodes -> rollouts of 3,200 episodes
    """
    check_engine_files(settings)
    rollouts = _resolve("rollouts", settings.rollouts, settings)
    if settings.data.is_live:
        _check_rhythm(settings)
        _check_learnable(rollouts)
        episodes = settings.steps * settings.data.groups * rollouts.group_size
        revisit = max(settings.data.revisit_solved, settings.data.revisit_never)
        most = max(FILL_MOST, 2 * revisit) if settings.data.fill else 1
        rollouts = msgspec.structs.replace(rollouts, episodes=episodes * most)
    if not settings.loop.evaluate_every:
        return _with_own_server(TrainingRunSettings(rollouts), settings)
    shared = {name: value for name, value in settings.rollouts.items() if name not in _OWN}
    if isinstance(judge := shared.get("judge"), Mapping):  # what is measured must be true
        shared["judge"] = {name: value for name, value in judge.items() if name != "errors"}
    evaluation = _resolve("evaluation", merge(shared, settings.evaluation), settings)
    if evaluation.policy.name not in TRAINABLE:
        raise ConfigError(
            f"[evaluation] policy: must be one of {', '.join(TRAINABLE)}, which act with the"
            f" weights that are trained, found {evaluation.policy.name!r}"
        )
    if not evaluation.scenarios:
        raise ConfigError("[evaluation] scenarios: name at least one scenario")
    return _with_own_server(TrainingRunSettings(rollouts, evaluation), settings)


def _with_own_server(runs: TrainingRunSettings, settings: TrainSettings) -> TrainingRunSettings:
    """The runs, if a vLLM server that is started for them has work and is not named elsewhere."""
    if not settings.vllm.python:
        if settings.vllm.args:
            raise ConfigError("[vllm] args: has no effect without python, which starts a server")
        return runs
    played = [runs.rollouts] if settings.data.is_live else []
    played += [] if runs.evaluation is None else [runs.evaluation]
    if not any(one.policy.name == "vllm" for one in played):
        raise ConfigError("[vllm] python: no run of this training has policy 'vllm'")
    if any(one.model.base_url for one in played):
        raise ConfigError("[vllm] python: starts a server, so leave out base_url")
    return runs


def rhythm_of(settings: TrainSettings) -> TrainSettings:
    """The settings with a publishing rhythm that suits their data: where no rollouts wait for
    weights, these are published when they are evaluated, and at the end. With another trainer every
    batch has a checkpoint: it is small, and that trainer goes on after a batch whatever we do."""
    if settings.engine.kind != "own":
        save = msgspec.structs.replace(settings.save, every=1)
        settings = msgspec.structs.replace(settings, save=save)
    if settings.data.is_live:
        return settings
    every = settings.loop.evaluate_every or settings.steps
    loop = msgspec.structs.replace(settings.loop, publish_every=every)
    return msgspec.structs.replace(settings, loop=loop)


def _resolve(name: str, table: Mapping[str, Any], settings: TrainSettings) -> Settings:
    """The settings of a nested table, with what follows from the training file."""
    policy = {"policy": {"name": "local"}}
    model = {"model": {"name": settings.model}}
    try:
        nested = merge(policy, nest(table, Settings))
        if nested["policy"].get("name") in TRAINABLE:
            nested = merge(model, nested)
        resolved = resolve_table(nested, {})
        parse_history(resolved.history)
    except SettingsError as exc:
        raise ConfigError(f"[{name}] {exc}") from exc
    return resolved


def _check_learnable(rollouts: Settings) -> None:
    """Refuse rollouts that cannot be learned from, before any is run."""
    if rollouts.policy.name not in TRAINABLE:
        raise ConfigError(
            f"[rollouts] policy: must be one of {', '.join(TRAINABLE)}, which report the token ids"
            f" that training needs, found {rollouts.policy.name!r}"
        )
    if not rollouts.scenarios:
        raise ConfigError("[rollouts] scenarios: name at least one scenario")
    if rollouts.judge.mode == "none":
        raise ConfigError("[rollouts] judge: without a judge there are no rewards to learn from")
    if rollouts.judge.mode == "elsewhere":
        raise ConfigError(
            "[rollouts] judge: 'elsewhere' is for `rehearse run`; train on a run that is judged by"
            " a process of its own with --follow"
        )
    if rollouts.episodes is not None:
        raise ConfigError(
            "[rollouts] episodes: leave it out; steps, data.groups and group_size determine it"
        )
    for name in ("temperature", "top_p"):
        value = getattr(rollouts.model, name)
        if value not in (None, 1.0):
            raise ConfigError(
                f"[rollouts] {name}: must be 1, found {value:g}: the distribution that is sampled"
                " must be the one that is trained"
            )


def _check_rhythm(settings: TrainSettings) -> None:
    """Checkpoints and evaluations must fall on batches after which weights are published: a run
    that is resumed from a checkpoint then samples with the very weights that the run sampled with,
    and an evaluation measures the weights that were just trained."""
    every = settings.loop.publish_every
    for name, value in (
        ("save.every", settings.save.every),
        ("loop.evaluate_every", settings.loop.evaluate_every),
    ):
        if value % every:
            raise ConfigError(
                f"{name}: must be a multiple of loop.publish_every, which is {every}, found {value}"
            )
