"""Reading of a training file."""

import tomllib
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

from learner.config.profiles import with_profile
from learner.config.settings import TrainSettings
from learner.core.errors import ConfigError
from scenarios.decode_errors import field_of


class _Range(NamedTuple):
    """What a number may be: from `least` to `most`; `above`: more than `least`."""

    least: float
    most: float = inf
    above: bool = False

    def __contains__(self, value: object) -> bool:
        assert isinstance(value, int | float)
        enough = self.least < value if self.above else self.least <= value
        return enough and value <= self.most and value < inf

    def __str__(self) -> str:
        least = f"more than {self.least:g}" if self.above else f"at least {self.least:g}"
        return least if self.most == inf else f"{least} and at most {self.most:.10g}"


_ONE, _ZERO, _ABOVE_ZERO = _Range(1), _Range(0), _Range(0, above=True)
_SHARE = _Range(0, 1)
_RANGES = {
    "steps": _ONE,
    "data.groups": _ONE,
    "data.epochs": _ONE,
    "data.check_prompts": _SHARE,
    "loss.clip_low": _SHARE,
    "loss.clip_high": _ZERO,
    "loss.cispo_high": _ABOVE_ZERO,
    "loss.gspo_low": _SHARE,
    "loss.gspo_high": _ZERO,
    "loss.tv_bound": _Range(0, 1, above=True),
    "loss.mismatch_cap": _ABOVE_ZERO,
    "loss.kl": _ZERO,
    "loss.entropy": _ZERO,
    "optimizer.lr": _ABOVE_ZERO,
    "optimizer.eps": _ABOVE_ZERO,
    "optimizer.weight_decay": _ZERO,
    "optimizer.warmup_steps": _ZERO,
    "optimizer.max_grad_norm": _ABOVE_ZERO,
    "optimizer.minibatches": _ONE,
    "compute.max_tokens": _ONE,
    "compute.threads": _ONE,
    "compute.seed": _Range(0, 2**31 - 1),
    "loop.staleness": _ZERO,
    "loop.publish_every": _ONE,
    "loop.evaluate_every": _ZERO,
    "save.every": _ONE,
    "save.keep": _ONE,
    "save.keep_published": _ONE,
}


def read_settings(path: Path) -> TrainSettings:
    """The settings in a training file, filled up from the profile that it names.

    Of what stands in [rollouts] and [evaluation] only the size of groups is looked at; the rest is
    learner.config.runs' to resolve.
    Raises ConfigError naming file and field.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: the settings cannot be read: {exc}") from exc
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path}: not valid TOML: {exc}") from exc
    return settings_of(table, place=f"{path}: ")


def settings_of(table: Mapping[str, Any], *, place: str = "") -> TrainSettings:
    """The settings in the table of a training file; `place` stands before a field's name.

    Raises ConfigError naming the field.
    """
    try:
        settings = msgspec.convert(with_profile(table), TrainSettings)
        check(settings)
    except msgspec.ValidationError as exc:
        field, fault = field_of(str(exc))
        if fault.startswith("invalid enum value"):
            fault += f"; it is one of {', '.join(map(repr, _choices(field)))}"
        raise ConfigError(f"{place}{field}: {fault}" if field else f"{place}{fault}") from exc
    except ConfigError as exc:
        raise ConfigError(f"{place}{exc}") from exc
    return settings


def check(settings: TrainSettings) -> None:
    """Raises ConfigError, naming the field, for settings that cannot be used."""
    for field, allowed in _RANGES.items():
        value = _value(settings, field)
        if value is not None and value not in allowed:
            raise ConfigError(f"{field}: must be {allowed}, not {value}")
    if not all(0 <= beta < 1 for beta in settings.optimizer.betas):
        found = list(settings.optimizer.betas)
        raise ConfigError(f"optimizer.betas: each must be from 0 to less than 1, not {found}")
    if settings.optimizer.minibatches > settings.data.groups:
        raise ConfigError(
            f"optimizer.minibatches: a batch of {settings.data.groups} groups (data.groups) "
            f"cannot be split into {settings.optimizer.minibatches}"
        )
    _check_groups(settings)


def _check_groups(settings: TrainSettings) -> None:
    """Whether there are groups, and whether anything can be learned from them."""
    loss, data = settings.loss, settings.data
    if not settings.rollouts and not data.logs:
        raise ConfigError("rollouts: there is nothing to learn from; give this table or data.logs")
    if loss.policy == "likelihood" and loss.advantage != "reward":
        raise ConfigError(
            "loss.advantage: 'likelihood' copies good episodes and compares none: "
            f"it goes with 'reward', not {loss.advantage!r}"
        )
    if loss.policy == "likelihood" and not data.keep_equal:
        raise ConfigError(
            "data.keep_equal: 'likelihood' learns from groups that are all good, too: must be true"
        )
    size = settings.rollouts.get("group_size", 1)
    if not data.logs and loss.advantage != "reward" and isinstance(size, int) and size < 2:
        raise ConfigError(
            f"rollouts.group_size: advantage {loss.advantage!r} compares episodes of one task, "
            f"so it must be at least 2, not {size}"
        )
    if not data.logs and not data.keep_equal and isinstance(size, int) and size < 2:
        raise ConfigError(
            "data.keep_equal: groups of one episode (rollouts.group_size) differ in nothing, and"
            " are kept only where this is true"
        )


def _value(settings: TrainSettings, field: str) -> Any:
    found: Any = settings
    for name in field.split("."):
        found = getattr(found, name)
    return found


def _choices(field: str) -> tuple[str, ...]:
    """The words that a setting may be."""
    kind: Any = TrainSettings
    for name in field.split("."):
        kind = get_type_hints(kind)[name]
    return get_args(kind)
