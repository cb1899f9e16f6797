"""Who judges, and how: the settings of a judge.

A run has them as `judge` and `judge_*` in run.toml; `rehearse judge` takes them as flags and leaves
them in the run's judge.toml, so that work that was cut off goes on as it began.
"""

import tomllib
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, Literal

import msgspec
import tomli_w

from harness.core.errors import SettingsError
from harness.log.schema import write_atomically
from scenarios.decode_errors import field_sentence

FILE_NAME = "judge.toml"
JudgeMode = Literal["code", "llm", "hybrid"]
Vote = Literal["majority", "unanimous"]
Rewards = Literal["awm", "sparse", "graded"]


class JudgeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One judge. All but the mode and the rewards is for the modes that ask models."""

    mode: JudgeMode = "code"
    models: tuple[str, ...] = ()  # who is asked, each as MODEL or MODEL@URL
    base_url: str = ""  # of models without a URL of their own; empty: OPENAI_BASE_URL, else OpenAI
    vote: Vote = "majority"  # how several models come to one label
    ask: Literal["always", "unproven"] = "always"  # unproven: no model where code has proved it
    rubric: str = ""  # a file; empty: ours
    prices: str = ""  # a file of prices; empty: cost is not known
    budget: float | None = None  # USD that may be spent; None: no limit
    concurrency: int = 64  # verdicts that are waited for at once
    backlog: int = 4096  # episodes that may wait for a verdict before new ones do
    evidence_tokens: int = 12_000  # of one question at most, estimated
    max_tokens: int = 2_048  # of one answer
    temperature: float | None = None  # None: the server's default
    timeout: float = 120.0  # seconds for one request
    attempts: int = 5  # requests for one opinion: refused ones, lost ones, ones nobody can read
    seed: int = 0
    cache: str = ""  # the file of verdicts; empty: verdicts.sqlite in the run's folder
    rewards: Rewards = "awm"  # what a label is worth


_AT_LEAST = {
    "concurrency": 1,
    "backlog": 1,
    "evidence_tokens": 500,
    "max_tokens": 16,
    "attempts": 1,
}


def checked(settings: JudgeSettings, prefix: str = "") -> JudgeSettings:
    """The settings, if they can be used; `prefix` stands before the fields' names in sentences.

    Raises SettingsError naming the field.
    """
    for name, least in _AT_LEAST.items():
        if getattr(settings, name) < least:
            found = getattr(settings, name)
            raise SettingsError(f"{prefix}{name}: must be at least {least}, not {found}")
    if not settings.timeout > 0:
        raise SettingsError(f"{prefix}timeout: must be more than 0, not {settings.timeout}")
    if settings.temperature is not None and not 0 <= settings.temperature < inf:
        found = settings.temperature
        raise SettingsError(f"{prefix}temperature: must be a number from 0, not {found}")
    if settings.budget is not None and not settings.budget >= 0:
        raise SettingsError(f"{prefix}budget: must be at least 0, not {settings.budget}")
    if settings.mode != "code" and not settings.models:
        raise SettingsError(f"{prefix}models: mode {settings.mode!r} needs the name of a model")
    return settings


def merged(began: JudgeSettings, flags: Mapping[str, Any]) -> JudgeSettings:
    """The settings with which a judging began, changed by flags (None, (): not given).

    Raises SettingsError.
    """
    given = {name: value for name, value in flags.items() if value is not None and value != ()}
    return checked(_converted(msgspec.to_builtins(began) | given, ""))


def read_judge(folder: Path) -> JudgeSettings | None:
    """The settings in a run's judge.toml; None where there is none. Raises SettingsError."""
    path = folder / FILE_NAME
    if not path.is_file():
        return None
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise SettingsError(f"{path}: the settings cannot be read: {exc}") from exc
    return _converted(table, f"{path}: ")


def save_judge(folder: Path, settings: JudgeSettings) -> None:
    """Write judge.toml. Raises SettingsError."""
    table = msgspec.to_builtins(settings)
    given = {name: value for name, value in table.items() if value is not None}
    try:
        write_atomically(folder / FILE_NAME, tomli_w.dumps(given).encode())
    except OSError as exc:
        raise SettingsError(f"{folder / FILE_NAME}: cannot be written: {exc}") from exc


def _converted(table: Mapping[str, Any], place: str) -> JudgeSettings:
    try:
        return msgspec.convert(dict(table), JudgeSettings)
    except msgspec.ValidationError as exc:
        raise SettingsError(f"{place}{field_sentence(str(exc))}") from exc
