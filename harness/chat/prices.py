"""What models cost, from a table of prices.

[models."gpt-5"]      # USD for a million tokens
input = 1.25
output = 10.0
cached_input = 0.125  # for prompt tokens in the server's cache; left out: as `input`
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.files import convert_toml, read_toml
from rehearsal_room.scenarios.validation import MAX_FLOAT

_MILLION = 1_000_000
_Usd = Annotated[float, Meta(ge=0, le=MAX_FLOAT)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """USD for a million tokens of one model."""

    input: Annotated[_Usd, Meta(description="USD for a million tokens of prompts.")]
    output: Annotated[_Usd, Meta(description="USD for a million tokens of answers.")]
    cached_input: Annotated[  # None: as `input`
        _Usd | None,
        Meta(description="USD for a million tokens of prompts that the server had cached."),
    ] = None

    def of(self, prompt: int, cached: int, completion: int) -> float:
        """USD for these numbers of tokens; `cached` prompt tokens were in the server's cache."""
        cached = min(cached, prompt)
        cached_input = self.input if self.cached_input is None else self.cached_input
        return (
            (prompt - cached) * self.input + cached * cached_input + completion * self.output
        ) / _MILLION


class Prices(msgspec.Struct, frozen=True):
    """A table of prices; an empty one has no prices."""

    models: Mapping[str, Price] = {}
    path: str = ""  # the file, for messages about a missing price

    def cost(self, model: str, prompt: int, cached: int, completion: int) -> float | None:
        """USD for these numbers of tokens; None: the model has no price."""
        price = self.models.get(model)
        return None if price is None else price.of(prompt, cached, completion)

    def at_most(self, model: str, prompt: int, completion: int) -> float:
        """The most that these numbers of tokens cost, in USD; 0 for a model without a price."""
        price = self.models.get(model)
        if price is None:
            return 0.0
        return max(price.of(prompt, cached, completion) for cached in (0, prompt))

    def require(self, models: Iterable[str]) -> None:
        """Raises SettingsError for the first model without a price."""
        for model in models:
            if model not in self.models:
                prefix = f"{self.path}: " if self.path else ""
                raise SettingsError(f"{prefix}{_field(model)}: the model has no price")


class PriceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A TOML file of prices."""

    models: Annotated[
        dict[str, Price], Meta(min_length=1, description="Prices of each model, by its name.")
    ]


def read_prices(path: Path) -> Prices:
    """The prices in a file. Raises SettingsError naming file and field."""
    table = read_toml(path, error=SettingsError)
    _check_names(path, table.get("models"))
    return Prices(convert_toml(path, table, PriceFile, error=SettingsError).models, str(path))


def _check_names(path: Path, models: Any) -> None:
    """Refuse a name that TOML has split at its dots."""
    for model, prices in models.items() if isinstance(models, dict) else ():
        if isinstance(prices, dict) and any(isinstance(part, dict) for part in prices.values()):
            raise SettingsError(
                f"{path}: {_field(model)}: expected prices, found a table; a name with a dot is "
                f'written [models."{model}.…"]'
            )


def _field(model: str) -> str:
    return f"models.{msgspec.json.encode(model).decode()}"
