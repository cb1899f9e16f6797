"""What is wrong with data is one sentence: field, fault, what was found."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import load_toml, read_toml
from rehearsal_room.scenarios.validation import MAX_FLOAT, explain


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model costs."""

    input: Annotated[float, Meta(ge=0, le=MAX_FLOAT)]


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table."""

    prices: dict[str, Price] = {}
    names: tuple[str, ...] = ()
    texts: Annotated[tuple[str, ...], Meta(min_length=1)] = ("a",)
    word: Literal["red", "green"] | None = None
    secret: Annotated[str, Meta(extra={"secret": True})] = ""

    def __post_init__(self) -> None:
        if self.names == ("bad",):
            raise ValueError("names: 'bad' is taken")


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file."""

    inner: Inner
    count: Annotated[int, Meta(ge=1, le=3)] = 1
    either: int | str | None = None


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({}, "inner: required, but missing"),
        ({"inner": 3}, "inner: expected a table, found 3"),
        ({"inner": {}, "count": 9}, "count: must be at least 1 and at most 3, found 9"),
        ({"inner": {}, "count": True}, "count: expected a whole number, found true"),
        ({"inner": {}, "coutn": 1}, "coutn: unknown key; did you mean 'count'?"),
        (
            {"inner": {"xyz": 1}},
            "inner.xyz: unknown key; the keys here are prices, names, texts, word, secret",
        ),
        ({"inner": {"word": "blue"}}, "inner.word: 'blue' is not one of 'green', 'red'"),
        ({"inner": {"word": 3}}, "inner.word: expected one of 'green', 'red', found 3"),
        ({"inner": {"names": ["a", 1]}}, "inner.names[1]: expected a text, found 1"),
        ({"inner": {"names": ["bad"]}}, "inner: names: 'bad' is taken"),
        ({"inner": {"texts": []}}, "inner.texts: must not be empty"),
        (
            {"inner": {"secret": 1234}},
            "inner.secret: expected a text, found a value that is not shown",
        ),
        (
            {"inner": {"prices": {"a": {"input": 1}, "gpt-4.1": {"input": -1}}}},
            'inner.prices."gpt-4.1".input: must be at least 0, found -1',
        ),
        (
            {"inner": {"prices": {"a": {"input": float("inf")}}}},
            "inner.prices.a.input: must be at least 0, found inf",
        ),
        ({"inner": {}, "either": []}, "either: expected a whole number or a text, found a list"),
    ],
)
def test_a_fault_is_named(value: Any, sentence: str) -> None:
    """Field, what it may be, what was found."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Outer)
    assert explain(caught.value, value, Outer) == sentence


def test_a_toml_file_is_read_as_a_type(tmp_path: Path) -> None:
    """What is wrong names the file, and raises the error of the caller."""
    path = tmp_path / "x.toml"
    path.write_text("count = 2\n[inner]\n")
    assert load_toml(path, Outer) == Outer(Inner(), 2)
    assert read_toml(path) == {"count": 2, "inner": {}}
    path.write_text("count = 0\n[inner]\n")
    with pytest.raises(LookupError) as caught:
        load_toml(path, Outer, error=LookupError)
    assert str(caught.value) == f"{path}: count: must be at least 1 and at most 3, found 0"
    path.write_text("count = ")
    with pytest.raises(PackageError, match=f"^{path}: not valid TOML: "):
        load_toml(path, Outer)
    path.write_bytes(b"\xff")
    with pytest.raises(PackageError, match=f"^{path}: the file cannot be read as UTF-8 text: "):
        load_toml(path, Outer)
    with pytest.raises(PackageError, match=f"^{path.parent / 'no'}: the file is missing$"):
        load_toml(path.parent / "no", Outer)
