"""What a read proves about the writes before it, as expectations on its text."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rehearsal_room.authoring.recordings.groups import parsed
from rehearsal_room.scenarios.call_checks import Expectation, parse_path

_MIN_TEXT = 3  # characters of a written text that a read can show
_MAX_TEXT = 200  # characters of one that an expectation names
_MOST = 3  # expectations of one read
_TIME = re.compile(r"\d{4}-\d\d-\d\d")


def proven(
    before: str | None, after: str, written: Sequence[Any], known: str = ""
) -> list[Expectation]:
    """The smallest expectations that hold on `after` and not before the writes.

    `before` is the same read's text before the writes (None: it was not made; then a text counts as
    new that is not in `known`). `written` are the values that the writes were given. In order of
    preference: a written text that is there now, one that is gone, values that differ.

    Example: ('["T-1"]', '["T-1", "Door"]', ["Door"]) -> [Expectation(contains="Door")]
    """
    texts = [value.strip()[:_MAX_TEXT] for value in written if isinstance(value, str)]
    shown = [one for text in texts for one in _forms(text)]
    earlier = known if before is None else before
    found = [Expectation(contains=one) for one in shown if one in after and one not in earlier]
    if not found and before is not None:
        found = [Expectation(lacks=one) for one in shown if one in before and one not in after]
    if not found and before is not None:
        found = [
            Expectation(path=path, value=value)
            for path, value in _changed(parsed(before), parsed(after), "")
            if not (isinstance(value, str) and _TIME.search(value))
        ]
    return list({one.describe(): one for one in found}.values())[:_MOST]


def _forms(text: str) -> Iterator[str]:
    """A text as it is, and as JSON writes it."""
    if len(text) >= _MIN_TEXT:
        yield from dict.fromkeys(
            (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
        )


def _changed(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The places of JSON whose values differ, where its form is the same."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [key for key in before if key in after]:
            deeper = f"{path}.{key}" if path else key
            if parse_path(deeper) is not None:
                yield from _changed(before[key], after[key], deeper)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _changed(one, other, f"{path}[{index}]")
    elif path and before != after and isinstance(after, str | int | float):
        yield path, after
