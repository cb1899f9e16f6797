"""Whether another trainer can do what the settings of a training run say.

With `[engine] kind = "prime-rl"` our side plays, judges, groups, computes advantages and weights of
tokens; prime-rl computes loss and update, by its own configuration. What has no counterpart there,
or would have no effect, is refused here; and so is a configuration of prime-rl that means another
loss than ours, or that does not read and write files.
"""

from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.learner.config.settings import EngineSettings, TrainSettings
from rehearsal_room.learner.core.errors import ConfigError
from rehearsal_room.scenarios.files import read_toml


class _Model(msgspec.Struct, frozen=True):
    seq_len: int = 2048
    cp: int = 1
    lora: dict[str, Any] | None = None


class _Loss(msgspec.Struct, frozen=True):
    type: str = "default"
    dppo_mask_low: float = 0.2
    dppo_mask_high: float = 0.2
    adv_tau: float = 1.0
    kl_tau: float = 1e-3


class _Rollouts(msgspec.Struct, frozen=True):
    type: str = "zmq"


class _Weights(msgspec.Struct, frozen=True):
    type: str = "filesystem"


class PrimeRlConfig(msgspec.Struct, frozen=True):
    """What we read of the configuration of prime-rl's trainer, with its own defaults."""

    model: _Model = _Model()
    loss: _Loss = _Loss()
    rollout_transport: _Rollouts = _Rollouts()
    weight_broadcast: _Weights = _Weights()
    max_steps: int | None = None


def read_prime_rl(engine: EngineSettings) -> PrimeRlConfig:
    """The configuration of prime-rl's trainer. Raises ConfigError."""
    path = Path(engine.config)
    try:
        return msgspec.convert(read_toml(path, error=ConfigError), PrimeRlConfig)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{path}: not a configuration of prime-rl's trainer: {exc}") from exc


def check_engine(settings: TrainSettings) -> None:
    """Raises ConfigError, naming the field, for settings that the engine cannot follow."""
    engine = settings.engine
    if engine.kind == "own":
        if engine != msgspec.structs.replace(EngineSettings(), timeout=engine.timeout):
            raise ConfigError("engine.kind: is 'own', so the other settings have no effect")
        return
    for name in ("folder", "config"):
        if not getattr(engine, name):
            raise ConfigError(f"engine.{name}: engine 'prime-rl' needs it")
    if refused := _without_counterpart(settings):
        name, why = refused
        raise ConfigError(f"{name}: engine 'prime-rl' {why}")


def check_engine_files(settings: TrainSettings) -> None:
    """Raises ConfigError where the folder of another engine is missing, or where its configuration
    means something else than the settings. For a training that begins; its file may be read where
    these are not."""
    engine = settings.engine
    if engine.kind == "own":
        return
    if not Path(engine.folder).is_dir():
        raise ConfigError(
            f"engine.folder: {engine.folder} does not exist: make it, and name it as output_dir in"
            f" {engine.config}"
        )
    if refused := _unlike(settings, read_prime_rl(engine)):
        name, why = refused
        raise ConfigError(f"{engine.config}: {name}: {why}")


def _without_counterpart(settings: TrainSettings) -> tuple[str, str] | None:
    """A setting that prime-rl cannot follow, and why."""
    loss = settings.loss
    if loss.policy not in ("tv", "likelihood"):
        return "loss.policy", f"has 'tv' and 'likelihood', not {loss.policy!r}"
    if loss.policy == "tv" and loss.mismatch != "off":
        return (
            "loss.mismatch",
            "starts its ratios from the sampler, which needs no correction of its own: set 'off',"
            f" found {loss.mismatch!r}",
        )
    for name in ("kl", "entropy", "reject", "reference"):
        if (value := getattr(loss, name)) not in (0, "off", ""):
            return f"loss.{name}", f"has no counterpart for it: leave it out, found {value!r}"
    for table, names in (
        ("optimizer", settings.optimizer.__struct_fields__),
        ("lora", settings.lora.__struct_fields__),
        ("compute", ("backend", "max_tokens", "gradient_checkpointing")),
    ):
        found = getattr(settings, table)
        for name in names:
            if getattr(found, name) != getattr(type(found)(), name):
                return (
                    f"{table}.{name}",
                    f"has its own: leave it out, and set it in {settings.engine.config}",
                )
    if settings.data.is_live and settings.loop.publish_every != 1:
        return "loop.publish_every", "publishes after every batch: leave it out"
    return None


def _unlike(settings: TrainSettings, found: PrimeRlConfig) -> tuple[str, str] | None:
    """A setting of prime-rl that is not what ours says, and what it must be."""
    for name in ("rollout_transport", "weight_broadcast"):
        if (kind := getattr(found, name).type) != "filesystem":
            return f"{name}.type", f"must be 'filesystem', found {kind!r}"
    if found.model.cp != 1 or found.model.lora is not None:
        return "model.cp, model.lora", "context parallelism and adapters are not supported"
    if found.max_steps is not None and found.max_steps < settings.steps:
        return "max_steps", f"is {found.max_steps}, but the run has {settings.steps} steps"
    loss, bound = settings.loss, settings.loss.tv_bound
    if loss.policy == "tv":
        wanted = _Loss("default", bound, bound, 1.0, 0.0)
        for name in wanted.__struct_fields__:
            if (value := getattr(found.loss, name)) != (expected := getattr(wanted, name)):
                return (
                    f"loss.{name}",
                    f"must be {expected!r} for loss 'tv' with tv_bound {bound:g}, found {value!r}",
                )
    return None
