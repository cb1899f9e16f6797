"""Make today's FastAPI and pydantic behave as FastAPI 0.115 with pydantic 2.12.

AWM's code is written for FastAPI 0.115.12, which cannot be installed beside the packages that we
use elsewhere. What the code defines inside of a `compat()` block behaves as on that release, in
these points:

- a dependency with `yield` ends before the response is sent, so that an error after the `yield` (a
  commit that fails) makes the response a 500;
- NaN or infinity in a response is a 500, not null;
- schemas describe decimals by a pattern, and files as strings of the format `binary`;
- `app.add_event_handler` and `app.route` exist.

Known differences: an alias given to a `Body()` parameter is respected here, and was not there;
security schemes respond with 401 here and with 403 there; an endpoint that yields streams its items
here.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import msgspec
from fastapi import FastAPI
from fastapi._compat import v2
from fastapi.param_functions import Depends
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

_MISSING = object()


class _StrictField(v2.ModelField):
    """A response model that does not write NaN and infinity as null."""

    def serialize_json(self, value: Any, **how: Any) -> bytes:
        """The value as JSON. Raises ValueError for NaN and infinity."""
        body = super().serialize_json(value, **how)
        if b"null" in body:  # only then, because the check costs 25 µs
            json.dumps(self.serialize(value, **how), allow_nan=False)
        return body


@contextmanager
def ignore_warnings() -> Iterator[None]:
    """A block without warnings, because generated code is hosted unchanged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Annotated(msgspec.Struct):
    """What FastAPI's search for models reads of a field."""

    field_info: FieldInfo


@contextmanager
def plain_model_search() -> Iterator[None]:
    """A block in which FastAPI finds the models of an application without making a validator for
    each of their fields: it made 590 for 38 tools, a sixth of the time to host a record, and read
    only the annotations. What it finds is the same."""
    original = v2.get_flat_models_from_model
    setattr(v2, "get_flat_models_from_model", _models_in)  # noqa: B010 - for mypy
    try:
        yield
    finally:
        setattr(v2, "get_flat_models_from_model", original)  # noqa: B010


def _models_in(model: type[BaseModel], known_models: set[Any] | None = None) -> set[Any]:
    """Add the models and enumerations in a model's fields to the known ones, and return them."""
    known = known_models or set()
    for info in model.model_fields.values():
        v2.get_flat_models_from_field(cast(v2.ModelField, _Annotated(info)), known_models=known)
    return known


@contextmanager
def compat() -> Iterator[None]:
    """A block in which to execute generated code and list its tools. It changes the process."""
    attributes: tuple[tuple[Any, str, Any], ...] = (
        (v2, "ModelField", _StrictField),
        (GenerateJsonSchema, "get_decimal_pattern", _decimal_pattern),
        (FastAPI, "add_event_handler", _add_event_handler),
        (FastAPI, "route", _route),
    )
    before = [(owner, name, vars(owner).get(name, _MISSING)) for owner, name, _ in attributes]
    keywords = Depends.__kwdefaults__ or {}
    scope = keywords["scope"]
    keywords["scope"] = "function"
    try:
        for owner, name, value in attributes:
            setattr(owner, name, value)
        yield
    finally:
        keywords["scope"] = scope
        for owner, name, value in before:
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def _decimal_pattern(_: GenerateJsonSchema, schema: Any) -> str:
    """The pattern of a decimal's text in pydantic 2.12, from its limits of digits."""
    digits, decimals = schema.get("max_digits"), schema.get("decimal_places")
    start = r"^(?!^[-+.]*$)[+-]?0*"
    if digits is None:
        return start + (r"\d*\.?\d*$" if decimals is None else rf"\d*\.?\d{{0,{decimals}}}0*$")
    whole = digits if decimals is None else max(0, digits - decimals)
    fraction = r"\d*\.\d*" if decimals is None else rf"\d{{0,{whole}}}\.\d{{0,{decimals}}}"
    return rf"{start}(?:\d{{0,{whole}}}|(?=[\d.]{{1,{digits + 1}}}0*$){fraction}0*$)"


def _add_event_handler(app: FastAPI, event_type: str, func: Callable[[], Any]) -> None:
    app.router.add_event_handler(event_type, func)


def _route(app: FastAPI, path: str, **keywords: Any) -> Callable[[Any], Any]:
    def decorated(func: Any) -> Any:
        app.add_route(path, func, **keywords)
        return func

    return decorated
