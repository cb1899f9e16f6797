"""Reading of a training file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.settings.tables import SettingsTable, nest
from rehearsal_room.learner.config.engine import check_engine
from rehearsal_room.learner.config.profiles import with_profile
from rehearsal_room.learner.config.settings import (
    DataSettings,
    LoraSettings,
    LossSettings,
    TrainSettings,
)
from rehearsal_room.learner.core.errors import ConfigError
from rehearsal_room.scenarios.files import read_toml
from rehearsal_room.scenarios.validation import explain

BY_TURN = ("tree", "vine", "gigpo")  # advantages that differ between the turns of an episode
_DEFAULT_LOSS = LossSettings()
RUNS = ("rollouts", "evaluation")  # tables with the settings of a run


def read_settings(path: Path) -> TrainSettings:
    """The settings in a training file, filled up from the profile that it names.

    Of the tables [rollouts] and [evaluation] only the keys and the size of groups are checked here;
    learner.config.runs resolves the rest.
    Raises ConfigError naming file and field.
    """
    return settings_of(read_toml(path, error=ConfigError), source=f"{path}: ")


def settings_of(table: Mapping[str, Any], *, source: str = "") -> TrainSettings:
    """The settings in the table of a training file; `source` is in front of the messages.

    In `rollouts` and `evaluation` every key is in its table then: {"limits": {"max_steps": 5}} for
    {"max_steps": 5}. Raises ConfigError naming the field.
    """
    nested = with_profile(_nest_runs(table, source))
    try:
        settings = msgspec.convert(nested, TrainSettings)
        check(settings)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{source}{explain(exc, nested, TrainSettings)}") from exc
    except ConfigError as exc:
        raise ConfigError(f"{source}{exc}") from exc
    return settings


def _nest_runs(table: Mapping[str, Any], source: str) -> SettingsTable:
    nested = dict(table)
    for name in RUNS:
        if not isinstance(found := table.get(name), Mapping):
            continue
        try:
            nested[name] = nest(found, Settings)
        except SettingsError as exc:
            raise ConfigError(f"{source}[{name}] {exc}") from exc
    return nested


def check(settings: TrainSettings) -> None:
    """Raises ConfigError, naming the field, for settings that do not go together."""
    if settings.optimizer.minibatches > settings.data.groups:
        raise ConfigError(
            f"optimizer.minibatches: a batch of {settings.data.groups} groups (data.groups) "
            f"cannot be split into {settings.optimizer.minibatches}"
        )
    for name in RUNS:
        if (getattr(settings, name) or {}).get("processes", 1) != 1:
            raise ConfigError(
                f"{name}.processes: training plays its episodes in its own process, where the "
                "policy gets each version of the weights; leave it out"
            )
        if (getattr(settings, name) or {}).get("chaos"):
            raise ConfigError(
                f"{name}.chaos: faults on purpose are for `rehearse run` and `rehearse bench`; "
                "leave it out"
            )
    _check_loss(settings.loss)
    _check_lora(settings.lora)
    _check_groups(settings)
    check_engine(settings)


def _check_lora(lora: LoraSettings) -> None:
    """Whether adapters that something is said about are trained at all."""
    if not lora.rank and lora != LoraSettings():
        raise ConfigError(
            "lora.rank: is 0, so no adapters are trained and the other settings of [lora] have no"
            " effect: set it to 1 or more, for example 16, or leave out [lora]"
        )


def _check_loss(loss: LossSettings) -> None:
    """Whether every setting of the loss has an effect and a value that it can have."""
    if loss.aggregate == "constant" and not loss.constant_length:
        raise ConfigError(
            "loss.constant_length: aggregate 'constant' divides by it: set it to the tokens that an"
            " episode can have, for example rollouts.max_tokens times rollouts.max_steps"
        )
    if loss.constant_length and loss.aggregate != "constant":
        raise ConfigError(
            "loss.constant_length: has an effect only with aggregate 'constant', found "
            f"{loss.aggregate!r}"
        )
    if loss.policy == "distill" and not loss.reference:
        raise ConfigError(
            "loss.reference: loss 'distill' imitates a model: name the folder of the teacher, which"
            " has the same tokenizer"
        )
    if loss.dual_clip and loss.policy != "clip":
        raise ConfigError(
            f"loss.dual_clip: has an effect only with loss 'clip', found {loss.policy!r}"
        )
    if loss.dual_clip and loss.dual_clip <= 1:
        raise ConfigError(f"loss.dual_clip: must be more than 1, found {loss.dual_clip:g}")
    for name in ("gigpo_weight", "gigpo_discount"):
        value = getattr(loss, name)
        if loss.advantage != "gigpo" and value != getattr(_DEFAULT_LOSS, name):
            raise ConfigError(
                f"loss.{name}: has an effect only with advantage 'gigpo', found {loss.advantage!r}"
            )
    if loss.advantage in BY_TURN and loss.rewards != "episode":
        raise ConfigError(
            f"loss.rewards: advantage {loss.advantage!r} credits each turn by the episode's "
            f"reward: it needs 'episode', found {loss.rewards!r}"
        )
    if loss.mismatch_above == "mask" and loss.mismatch == "off":
        raise ConfigError(
            "loss.mismatch_above: has an effect only with weights, but mismatch is 'off'"
        )
    if loss.policy == "likelihood" and (loss.reject != "off" or loss.mismatch_above == "mask"):
        raise ConfigError(
            "loss.reject, loss.mismatch_above: have no effect with loss 'likelihood', which copies"
            " tokens that others sampled"
        )
    if loss.reject == "off" and (loss.reject_low, loss.reject_high) != (0.99, 1.01):
        raise ConfigError("loss.reject: is 'off', so reject_low and reject_high have no effect")
    if loss.overlong_from and loss.overlong_to <= loss.overlong_from:
        raise ConfigError(
            f"loss.overlong_to: must be more than overlong_from ({loss.overlong_from}), for example"
            f" rollouts.max_tokens, found {loss.overlong_to}"
        )
    if loss.overlong_to and not loss.overlong_from:
        raise ConfigError("loss.overlong_from: is 0, so overlong_to has no effect")
    if loss.rewards == "step" and (loss.overlong_from or loss.length_penalty):
        raise ConfigError(
            "loss.rewards: overlong_from and length_penalty change the rewards of whole episodes:"
            " set it to 'episode'"
        )
    if loss.policy == "distill" and (name := _reward_setting(loss)):
        raise ConfigError(
            f"loss.{name}: changes rewards, which play no part in loss 'distill': leave it out"
        )
    if loss.cispo_low > loss.cispo_high:
        raise ConfigError(
            f"loss.cispo_low: must be at most cispo_high ({loss.cispo_high:g}), found "
            f"{loss.cispo_low:g}"
        )


def _reward_setting(loss: LossSettings) -> str:
    """The name of a setting that changes the rewards of a group; empty: none is set."""
    names = ("shuffle", "overlong_from", "length_penalty")
    return next((name for name in names if getattr(loss, name)), "")


def _check_groups(settings: TrainSettings) -> None:
    """Whether there are groups, and whether anything can be learned from them."""
    loss, data = settings.loss, settings.data
    if not settings.rollouts and not data.logs and not data.messages:
        raise ConfigError(
            "rollouts: there is nothing to learn from; add this table, data.logs or data.messages"
        )
    _check_messages(data, loss)
    _check_completed_only(data, loss)
    if data.follow and not data.logs:
        raise ConfigError("data.follow: there is no run to follow; name it in data.logs")
    if loss.policy == "likelihood" and loss.advantage != "reward":
        raise ConfigError(
            "loss.advantage: loss 'likelihood' imitates good episodes and does not compare them: "
            f"it needs 'reward', found {loss.advantage!r}"
        )
    if loss.policy == "distill" and not data.keep_equal:
        raise ConfigError(
            "data.keep_equal: must be true for loss 'distill', which does not compare episodes"
        )
    if loss.policy == "likelihood" and not data.keep_equal:
        raise ConfigError(
            "data.keep_equal: must be true for loss 'likelihood', which also learns from groups "
            "whose episodes are all good"
        )
    _check_branches(settings)
    if max(data.revisit_solved, data.revisit_never) > 1 and not (data.fill and data.is_live):
        raise ConfigError(
            "data.revisit_solved, data.revisit_never: other tasks are played in place of those that"
            " are skipped, so data.fill must be true, and the rollouts live"
        )
    size = settings.rollouts.get("group_size", 1)
    if not data.is_live or not isinstance(size, int) or size >= 2:
        return
    if loss.advantage != "reward":
        raise ConfigError(
            f"rollouts.group_size: advantage {loss.advantage!r} compares episodes of one task, "
            f"so it must be at least 2, found {size}"
        )
    if loss.shuffle:
        raise ConfigError(
            "loss.shuffle: has no effect in groups of one episode (rollouts.group_size): leave it"
            " out"
        )
    if not data.keep_equal:
        raise ConfigError(
            "data.keep_equal: must be true for groups of one episode (rollouts.group_size), whose "
            "rewards are always equal"
        )


def _check_messages(data: DataSettings, loss: LossSettings) -> None:
    """Whether conversations of others can be imitated under these settings."""
    if data.messages and data.logs:
        raise ConfigError("data.messages: leave out data.logs; a run learns from one or the other")
    if data.messages and loss.policy != "likelihood":
        raise ConfigError(
            "loss.policy: conversations of others are imitated, not compared: data.messages needs"
            f" 'likelihood', found {loss.policy!r}"
        )
    if data.messages and (data.completed_only or _reward_setting(loss)):
        name = "data.completed_only" if data.completed_only else f"loss.{_reward_setting(loss)}"
        raise ConfigError(
            f"{name}: has no effect on conversations of others, which have no verdicts and no"
            " rewards: leave it or data.messages out"
        )


def _check_completed_only(data: DataSettings, loss: LossSettings) -> None:
    """Whether completed episodes alone teach something under these settings."""
    if data.completed_only and loss.policy != "distill" and loss.advantage != "reward":
        raise ConfigError(
            "loss.advantage: with data.completed_only no failure is left to compare with: it needs"
            f" 'reward', found {loss.advantage!r}"
        )
    if data.completed_only and not data.keep_equal:
        raise ConfigError(
            "data.keep_equal: must be true for data.completed_only, which leaves episodes of equal"
            " rewards"
        )
    if data.completed_only and loss.shuffle:
        raise ConfigError(
            "loss.shuffle: has no effect on equal rewards, which data.completed_only leaves"
        )


def _check_branches(settings: TrainSettings) -> None:
    """Whether the advantage fits groups that branch, or that do not."""
    loss, data = settings.loss, settings.data
    branch = settings.rollouts.get("branch")
    branches = isinstance(branch, Mapping) and bool(branch.get("roots"))
    if branches and data.is_live and loss.advantage not in BY_TURN:
        raise ConfigError(
            f"loss.advantage: {loss.advantage!r} compares whole episodes, and those that branch "
            "begin in other states (rollouts.branch_roots); choose 'tree', 'vine' or 'gigpo'"
        )
    if loss.advantage in ("tree", "vine") and not branches and data.is_live:
        raise ConfigError(
            f"rollouts.branch_roots: advantage {loss.advantage!r} compares episodes that branch; "
            "set how many of a group begin at the start"
        )
    has_branches = (branches and data.is_live) or loss.advantage in ("tree", "vine")
    if has_branches and (loss.overlong_from or loss.length_penalty):
        raise ConfigError(
            "loss.overlong_from, loss.length_penalty: compare the lengths of whole episodes, and"
            " those that branch have a part only (rollouts.branch_roots): leave them out"
        )
