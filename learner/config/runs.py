"""What a training run plays: the tables [rollouts] and [evaluation] as settings of runs.

What they leave open follows from the training file: the model, and how many episodes there are.
[evaluation] stands on [rollouts] and says what differs; its groups are of one episode, and it has
one of each task, unless it says otherwise.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from harness.core.errors import SettingsError
from harness.history.windows import parse_history
from harness.settings.run import Settings, resolve_table
from learner.config.settings import TrainSettings
from learner.core.errors import ConfigError

TOLD_TOKENS = ("local", "vllm")  # policies that tell their tokens and take new weights
# With data.fill: how many times the groups that are wanted may be run until enough can be used
# (as DAPO's max_num_gen_batches, arXiv:2503.14476).
FILL_MOST = 10
_OWN = ("episodes", "group_size")  # fields that an evaluation does not take over


class Runs(msgspec.Struct, frozen=True):
    """What is played."""

    rollouts: Settings  # of learning from logs: under which windows and dialect is learned
    evaluation: Settings | None = None  # None: nothing is evaluated


def runs_of(settings: TrainSettings) -> Runs:
    """The runs of a training file. Raises ConfigError naming table and field.

    Example: 100 steps of 8 groups of 4 episodes -> rollouts of 3,200 episodes
    """
    rollouts = _resolved("rollouts", settings.rollouts, settings)
    if not settings.data.logs:
        _check_rhythm(settings)
        _check_learnable(rollouts)
        wanted = settings.steps * settings.data.groups * rollouts.group_size
        most = FILL_MOST if settings.data.fill else 1
        rollouts = msgspec.structs.replace(rollouts, episodes=wanted * most)
    if not settings.loop.evaluate_every:
        return Runs(rollouts)
    taken_over = {name: value for name, value in settings.rollouts.items() if name not in _OWN}
    evaluation = _resolved("evaluation", taken_over | settings.evaluation, settings)
    if evaluation.policy not in TOLD_TOKENS:
        raise ConfigError(
            f"[evaluation] policy: {evaluation.policy!r} does not play with the weights that are"
            f" trained; it is one of {', '.join(TOLD_TOKENS)}"
        )
    if not evaluation.scenarios:
        raise ConfigError("[evaluation] scenarios: name at least one scenario")
    return Runs(rollouts, evaluation)


def rhythm_of(settings: TrainSettings) -> TrainSettings:
    """The settings with a rhythm that goes with their data: where no rollouts wait for weights,
    these are published when they are evaluated, and at the end."""
    if not settings.data.logs:
        return settings
    every = settings.loop.evaluate_every or settings.steps
    loop = msgspec.structs.replace(settings.loop, publish_every=every)
    return msgspec.structs.replace(settings, loop=loop)


def _resolved(name: str, table: Mapping[str, Any], settings: TrainSettings) -> Settings:
    if table.get("policy", "local") in TOLD_TOKENS:
        table = {"policy": "local", "model": settings.model, **table}
    try:
        resolved = resolve_table(table, {}, place="")
        parse_history(resolved.history)
    except SettingsError as exc:
        raise ConfigError(f"[{name}] {exc}") from exc
    return resolved


def _check_learnable(rollouts: Settings) -> None:
    """Refuse rollouts that cannot be learned from, before any is run."""
    if rollouts.policy not in TOLD_TOKENS:
        raise ConfigError(
            f"[rollouts] policy: {rollouts.policy!r} tells no token ids, which training needs; it"
            f" is one of {', '.join(TOLD_TOKENS)}"
        )
    if not rollouts.scenarios:
        raise ConfigError("[rollouts] scenarios: name at least one scenario")
    if rollouts.judge == "none":
        raise ConfigError("[rollouts] judge: without a judge there are no rewards to learn from")
    if rollouts.episodes is not None:
        raise ConfigError("[rollouts] episodes: there are as many as steps and data.groups want")
    for name in ("temperature", "top_p"):
        value = getattr(rollouts, name)
        if value not in (None, 1.0):
            raise ConfigError(
                f"[rollouts] {name}: the distribution that is sampled must be the one that is"
                f" trained: 1, not {value:g}"
            )


def _check_rhythm(settings: TrainSettings) -> None:
    """Checkpoints and evaluations fall on batches after which weights are published: so that
    whoever goes on from the former samples with the very weights that the run sampled with, and the
    latter measure those that were just trained."""
    every = settings.loop.publish_every
    for name, value in (
        ("save.every", settings.save.every),
        ("loop.evaluate_every", settings.loop.evaluate_every),
    ):
        if value % every:
            raise ConfigError(
                f"{name}: must be a multiple of loop.publish_every, which is {every}, not {value}"
            )
