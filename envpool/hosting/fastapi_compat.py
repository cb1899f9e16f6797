"""Today's FastAPI and pydantic, as generated code knows them: as FastAPI 0.115 with pydantic 2.12.

AWM's code runs on FastAPI 0.115.12; that release cannot be installed beside what we use elsewhere.
While `older()` is entered, what the code defines behaves as on the older one, in these points:

- a dependency with `yield` ends before the answer is sent, so that an error in its last part (a
  commit that fails) makes the answer a 500;
- a number that is no number (NaN, infinity) in an answer is a 500, not null;
- schemas describe decimals by a pattern, and files as strings of the format `binary`;
- `app.add_event_handler` and `app.route` exist.

Known to differ still: an alias given to a `Body()` parameter is respected here, and was not there;
security schemes answer 401 here where it was 403; an endpoint that yields streams its items.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI
from fastapi._compat import v2
from fastapi.param_functions import Depends
from pydantic.json_schema import GenerateJsonSchema

_MISSING = object()


class _StrictField(v2.ModelField):
    """An answer's model whose JSON has no null for what is no number."""

    def serialize_json(self, value: Any, **how: Any) -> bytes:
        """JSON. Raises ValueError for NaN and infinity."""
        body = super().serialize_json(value, **how)
        if b"null" in body:  # then only, since the look costs 25 µs
            json.dumps(self.serialize(value, **how), allow_nan=False)
        return body


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings: generated code is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def older() -> Iterator[None]:
    """Execute generated code, and list its tools, inside of this. It changes the process."""
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
    """The pattern of a decimal's text in pydantic 2.12, after its digits' limits."""
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    start = r"^(?!^[-+.]*$)[+-]?0*"
    if digits is None:
        return start + (r"\d*\.?\d*$" if places is None else rf"\d*\.?\d{{0,{places}}}0*$")
    whole = digits if places is None else max(0, digits - places)
    fraction = r"\d*\.\d*" if places is None else rf"\d{{0,{whole}}}\.\d{{0,{places}}}"
    return rf"{start}(?:\d{{0,{whole}}}|(?=[\d.]{{1,{digits + 1}}}0*$){fraction}0*$)"


def _add_event_handler(app: FastAPI, event_type: str, func: Callable[[], Any]) -> None:
    app.router.add_event_handler(event_type, func)


def _route(app: FastAPI, path: str, **keywords: Any) -> Callable[[Any], Any]:
    def decorated(func: Any) -> Any:
        app.add_route(path, func, **keywords)
        return func

    return decorated
