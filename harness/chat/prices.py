"""What models cost, from a table of prices.

[models."gpt-5"]      # USD for a million tokens
input = 1.25
output = 10.0
cached_input = 0.125  # of prompts that the server had kept; left out: as `input`
"""

import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.core.errors import SettingsError
from scenarios.decode_errors import field_sentence

_MILLION = 1_000_000


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """USD for a million tokens of one model."""

    input: float
    output: float
    cached_input: float | None = None  # None: as `input`

    def of(self, prompt: int, cached: int, completion: int) -> float:
        """USD for so many tokens; `cached` are those of the prompt that the server had kept."""
        kept = min(cached, prompt)
        kept_price = self.input if self.cached_input is None else self.cached_input
        return (
            (prompt - kept) * self.input + kept * kept_price + completion * self.output
        ) / _MILLION


class Prices(msgspec.Struct, frozen=True):
    """A table of prices; an empty one knows none."""

    models: Mapping[str, Price] = {}
    place: str = ""  # the file, for what is said of a hole

    def cost(self, model: str, prompt: int, cached: int, completion: int) -> float | None:
        """USD for so many tokens; None: the model has no price."""
        price = self.models.get(model)
        return None if price is None else price.of(prompt, cached, completion)

    def worst(self, model: str, prompt: int, completion: int) -> float:
        """USD that so many tokens cost at most; 0 for a model without a price."""
        price = self.models.get(model)
        if price is None:
            return 0.0
        return max(price.of(prompt, cached, completion) for cached in (0, prompt))

    def require(self, models: Iterable[str]) -> None:
        """Raises SettingsError for the first model without a price."""
        for model in models:
            if model not in self.models:
                place = f"{self.place}: " if self.place else ""
                raise SettingsError(f"{place}{_field(model)}: the model has no price")


def read_prices(path: Path) -> Prices:
    """The prices in a file. Raises SettingsError naming file and field."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{path}: the prices cannot be read: {exc}") from exc
    except tomllib.TOMLDecodeError as exc:
        raise SettingsError(f"{path}: not valid TOML: {exc}") from exc
    models = table.pop("models", {})
    if table:
        raise SettingsError(f"{path}: {next(iter(table))}: unknown, expected [models.NAME] only")
    if not isinstance(models, dict) or not models:
        raise SettingsError(f"{path}: models: expected a table of prices for each model")
    return Prices({model: _price(told, model, path) for model, told in models.items()}, str(path))


def _price(told: Any, model: str, path: Path) -> Price:
    place = f"{path}: {_field(model)}"
    if isinstance(told, dict) and any(isinstance(part, dict) for part in told.values()):
        hint = f'a name with a dot is written [models."{model}.…"]'
        raise SettingsError(f"{place}: expected prices, found a table; {hint}")
    try:
        price = msgspec.convert(told, Price)
    except msgspec.ValidationError as exc:
        raise SettingsError(f"{place}: {field_sentence(str(exc))}") from exc
    for name, number in msgspec.structs.asdict(price).items():
        if number is not None and not (math.isfinite(number) and number >= 0):
            raise SettingsError(f"{place}: {name}: expected a number from 0, found {number}")
    return price


def _field(model: str) -> str:
    return f"models.{msgspec.json.encode(model).decode()}"
