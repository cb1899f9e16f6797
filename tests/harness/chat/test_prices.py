"""Prices: the table's file, its errors, and what tokens cost."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.chat.prices import Price, Prices, read_prices
from rehearsal_room.harness.core.errors import SettingsError

TABLE = """
[models."gpt-5"]
input = 1.25
output = 10.0
cached_input = 0.125

[models."local/qwen-3"]
input = 0
output = 0.5
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_is_read(tmp_path: Path) -> None:
    """Every model has its prices; integers and free input are accepted."""
    path = written(tmp_path, TABLE)
    models = {"gpt-5": Price(1.25, 10.0, 0.125), "local/qwen-3": Price(0.0, 0.5)}
    assert read_prices(path) == Prices(models, str(path))


def test_tokens_are_priced_by_the_table(tmp_path: Path) -> None:
    """Fresh and cached tokens of the prompt and those of the answer have prices of their own."""
    prices = read_prices(written(tmp_path, TABLE))
    assert prices.cost("gpt-5", 1_000_000, 400_000, 100_000) == 0.75 + 0.05 + 1.0
    assert prices.cost("local/qwen-3", 1_000_000, 400_000, 1_000_000) == 0.5
    assert prices.cost("other", 1, 0, 1) is None


def test_cached_tokens_cost_as_much_as_others_by_default() -> None:
    """Where the table has no `cached_input`, they cost as much as `input`."""
    price = Price(2.0, 0.0)
    assert price.of(1_000_000, 1_000_000, 0) == price.of(1_000_000, 0, 0) == 2.0


@given(st.integers(0, 10**6), st.integers(0, 10**7), st.integers(0, 10**6))
def test_a_cost_is_never_negative(prompt: int, cached: int, completion: int) -> None:
    """A server that reports more cached tokens than the prompt has does not lower the cost."""
    assert Price(1.0, 2.0, 0.1).of(prompt, cached, completion) >= 0.1 * prompt / 1e6


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("models = [", "not valid TOML: "),
        ("", "models: required, but missing"),
        ("models = 1", "models: expected a table, found 1"),
        ("[models]", "models: must not be empty"),
        ("currency = 'EUR'", "currency: unknown key; the keys here are models"),
        ("[models.m]\ninput = 1", "models.m.output: required, but missing"),
        (
            "[models.m]\ninput = 1\noutput = -2",
            "models.m.output: must be at least 0, found -2",
        ),
        (
            "[models.m]\ninput = nan\noutput = 2",
            "models.m.input: must be at least 0, found nan",
        ),
        (
            "[models.m]\ninput = 1\noutput = 2\ncached_input = inf",
            "models.m.cached_input: must be at least 0, found inf",
        ),
        (
            "[models.m]\ninput = '1'\noutput = 2",
            "models.m.input: expected a number, found '1'",
        ),
        (
            "[models.m]\ninput = true\noutput = 2",
            "models.m.input: expected a number, found true",
        ),
        (
            "[models.m]\ninput = 1\noutput = 2\ninptu = 3",
            "models.m.inptu: unknown key; did you mean 'input'?",
        ),
        ("models.m = 3", "models.m: expected a table, found 3"),
        (
            "[models.gpt-4.1]\ninput = 1\noutput = 2",
            'models."gpt-4": expected prices, found a table; '
            'a name with a dot is written [models."gpt-4.…"]',
        ),
    ],
)
def test_a_broken_table_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    """The error names the file, the model, the field and the reason."""
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        read_prices(path)
    assert str(caught.value).startswith(f"{path}: {sentence}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing file is reported in a sentence."""
    with pytest.raises(SettingsError, match=r"none\.toml: the file is missing"):
        read_prices(tmp_path / "none.toml")


def test_models_that_are_asked_need_prices(tmp_path: Path) -> None:
    """The first model without a price is named, together with the file."""
    path = written(tmp_path, TABLE)
    prices = read_prices(path)
    prices.require(["gpt-5"])
    with pytest.raises(SettingsError) as caught:
        prices.require(["gpt-5", "other"])
    assert str(caught.value) == f'{path}: models."other": the model has no price'
