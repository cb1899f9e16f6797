"""Which judge gives the verdicts: the settings of a judge.

A run has them as the table [judge] of run.toml; `rehearse judge` takes them as flags and saves them
in the run's judge.toml, so that an interrupted judging continues with the same settings.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import tomli_w
from msgspec import Meta

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.schema import write_atomically
from rehearsal_room.scenarios.files import load_toml
from rehearsal_room.scenarios.validation import MAX_FLOAT, explain

FILE_NAME = "judge.toml"
JudgeMode = Literal["code", "llm", "hybrid", "elsewhere", "none"]
Vote = Literal["majority", "unanimous"]
Rewards = Literal["awm", "sparse", "graded"]
Profile = Literal["none", "awm-release"]
_MODEL_HINT = "name a model with --judge-model"


class JudgeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One judge. Only the modes that ask models use the fields from `models` to `cache`, except
    that judging a log again waits for `concurrency` verdicts in every mode."""

    mode: Annotated[
        JudgeMode,
        Meta(
            description="Judge of the episodes: the scenarios' code (code), models (llm), code "
            "with models for what it leaves open (hybrid), a process of its own, which is started "
            "with `rehearse judge --follow` (elsewhere), or no judge (none).",
            extra={"hint": _MODEL_HINT},
        ),
    ] = "code"
    models: Annotated[
        tuple[str, ...],
        Meta(
            description="Model that judges, with its own server's URL if it has one; repeat it "
            "for several judges.",
            extra={"flag": "model", "metavar": "MODEL[@URL]"},
        ),
    ] = ()
    base_url: Annotated[
        str,
        Meta(
            description="URL of the server of the judge's models, for example "
            "http://localhost:8001/v1.",
            extra={
                "metavar": "URL",
                "default": "OPENAI_BASE_URL of the environment, else OpenAI",
                "may_change": True,
            },
        ),
    ] = ""
    vote: Annotated[
        Vote, Meta(description="How the labels of several models become one verdict.")
    ] = "majority"
    ask: Annotated[
        Literal["always", "unproven"],
        Meta(
            description="Ask models about every episode, or only about those that code did not "
            "decide."
        ),
    ] = "always"
    rubric: Annotated[
        str,
        Meta(
            description="TOML file with the instructions for the judge's models.",
            extra={"metavar": "FILE", "default": "the built-in rubric"},
        ),
    ] = ""
    prices: Annotated[
        str,
        Meta(
            description="TOML file with the prices of the judge's models, in USD per million "
            "tokens.",
            extra={"metavar": "FILE", "default": "costs are not counted", "may_change": True},
        ),
    ] = ""
    budget: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(
            description="Maximum cost of judging, in USD; needs a file of prices.",
            extra={"metavar": "USD", "default": "no limit", "may_change": True},
        ),
    ] = None
    concurrency: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of verdicts in progress at the same time.",
            extra={"short": "-c", "may_change": True},
        ),
    ] = 64
    backlog: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of finished episodes that wait for a verdict; above it, "
            "new episodes wait.",
            extra={"may_change": True},
        ),
    ] = 4096
    evidence_tokens: Annotated[
        int,
        Meta(
            ge=500,
            description="Maximum number of tokens in one question to a judge's model, estimated.",
        ),
    ] = 12_000
    max_tokens: Annotated[
        int, Meta(ge=16, description="Maximum number of tokens in one answer of a judge's model.")
    ] = 2_048
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_FLOAT)] | None,
        Meta(
            description="Sampling temperature of the judge's models.",
            extra={"default": "the server's own"},
        ),
    ] = None
    timeout: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds to wait for one request to a judge's model.",
            extra={"may_change": True},
        ),
    ] = 120.0
    attempts: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of requests for one judgement of a model, repeated when a "
            "request is refused or lost, or its answer cannot be read.",
            extra={"may_change": True},
        ),
    ] = 5
    seed: Annotated[
        int | None,
        Meta(
            description="Seed that is sent to the judge's models.",
            extra={"default": "the seed of the run"},
        ),
    ] = None
    cache: Annotated[
        str,
        Meta(
            description="File in which the models' verdicts are cached.",
            extra={
                "metavar": "FILE",
                "default": "verdicts.sqlite in the run's folder",
                "may_change": True,
            },
        ),
    ] = ""
    rewards: Annotated[
        Rewards, Meta(description="Reward profile: how much each label is worth.")
    ] = "awm"
    profile: Annotated[
        Profile,
        Meta(
            description="Whose score stands beside ours: awm-release plays and judges worlds of "
            "Agent World Model as its released code does, with one judge's model; none: nobody's."
        ),
    ] = "none"
    awm_code: Annotated[
        str,
        Meta(
            description="Checkout of Agent World Model's code, from which profile awm-release "
            "reads the prompts.",
            extra={"metavar": "DIR", "may_change": True},
        ),
    ] = ""
    errors: Annotated[
        str,
        Meta(
            description="For experiments on training: shares of false positives and of false "
            "negatives that are planted into the verdicts of judge code, as in 0.2/0.1.",
            extra={"metavar": "FP/FN", "default": "none"},
        ),
    ] = ""


# Fields that every judge uses; the others are for the modes that ask models.
FOR_EVERY_MODE = frozenset({"mode", "rewards", "seed", "profile", "awm_code", "errors"})


# What the profile's judge uses, where ours asks no model.
_OF_PROFILE = frozenset(
    {"models", "base_url", "prices", "budget", "concurrency", "backlog", "timeout", "attempts"}
    | {"cache"}
)


def is_used(name: str, settings: "JudgeSettings") -> bool:
    """Whether a field of this name has an effect."""
    if name in FOR_EVERY_MODE or asks_models(settings.mode):
        return True
    return settings.profile != "none" and name in _OF_PROFILE


def asks_models(mode: JudgeMode) -> bool:
    """Whether a judge of this mode asks models."""
    return mode in ("llm", "hybrid")


def needs_models(settings: JudgeSettings) -> bool:
    """Whether models are asked: by the judge, or by the profile beside it."""
    return asks_models(settings.mode) or settings.profile != "none"


def judges_in_workers(settings: JudgeSettings) -> bool:
    """Whether each process that plays episodes judges them, too: no model is asked, and no verdict
    comes from elsewhere."""
    return settings.mode == "code" and not needs_models(settings)


def require_models(settings: JudgeSettings, prefix: str = "") -> JudgeSettings:
    """The settings, if the mode has the models that it asks; `prefix` is in front of the field's
    name in the message. Raises SettingsError."""
    if asks_models(settings.mode) and not settings.models:
        raise SettingsError(
            f"{prefix}models: mode {settings.mode!r} needs the name of a model: {_MODEL_HINT}"
        )
    if settings.profile != "none":
        _check_profile(settings, prefix)
    if planted(settings, prefix) and (settings.mode != "code" or settings.profile != "none"):
        raise SettingsError(
            f"{prefix}errors: errors are planted into the verdicts of judge 'code' alone, without "
            f"a profile; the judge is {settings.mode!r}"
        )
    return settings


def planted(settings: JudgeSettings, prefix: str = "") -> tuple[float, float] | None:
    """The shares of false positives and false negatives that are planted, 0 to 1 each; None: none
    are, as with 0/0. Raises SettingsError."""
    if not settings.errors:
        return None
    try:
        positives, negatives = map(float, settings.errors.split("/"))
    except ValueError:
        positives = negatives = -1.0
    if not (0 <= positives <= 1 and 0 <= negatives <= 1):
        raise SettingsError(
            f"{prefix}errors: {settings.errors!r} is not two shares from 0 to 1, those of false "
            "positives and of false negatives, as in 0.2/0.1"
        )
    return (positives, negatives) if positives or negatives else None


def _check_profile(settings: JudgeSettings, prefix: str) -> None:
    profile = f"profile {settings.profile!r}"
    if settings.mode not in ("code", "hybrid"):
        raise SettingsError(
            f"profile: {profile} stands beside judge 'code' or 'hybrid', not {settings.mode!r}"
        )
    if len(settings.models) != 1:
        raise SettingsError(
            f"{prefix}models: {profile} asks one judge's model, and {len(settings.models)} are "
            f"named: {_MODEL_HINT}"
        )
    if not settings.awm_code:
        raise SettingsError(
            f"awm_code: {profile} reads its prompts from a checkout of "
            "github.com/Snowflake-Labs/agent-world-model: --awm-code DIR"
        )


def merge_flags(began: JudgeSettings, flags: Mapping[str, Any]) -> JudgeSettings:
    """The settings with which a judging began, changed by flags (None, (): not given).

    Raises SettingsError.
    """
    changes = {name: value for name, value in flags.items() if value is not None and value != ()}
    table = msgspec.to_builtins(began) | changes
    try:
        settings = msgspec.convert(table, JudgeSettings)
    except msgspec.ValidationError as exc:
        raise SettingsError(explain(exc, table, JudgeSettings)) from exc
    return require_models(settings)


def read_judge(folder: Path) -> JudgeSettings | None:
    """The settings in a run's judge.toml; None where there is none. Raises SettingsError."""
    path = folder / FILE_NAME
    return load_toml(path, JudgeSettings, error=SettingsError, own=True) if path.is_file() else None


def save_judge(folder: Path, settings: JudgeSettings, marked: Callable[[bytes], bytes]) -> None:
    """Write judge.toml, with the user's mark (see harness.setup.run_trust). Raises
    SettingsError."""
    table = {
        name: value for name, value in msgspec.to_builtins(settings).items() if value is not None
    }
    try:
        write_atomically(folder / FILE_NAME, marked(tomli_w.dumps(table).encode()))
    except OSError as exc:
        raise SettingsError(f"{folder / FILE_NAME}: cannot be written: {exc}") from exc
