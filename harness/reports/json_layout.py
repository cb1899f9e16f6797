"""JSON texts laid out for a reader: lines break between fields, nested parts are indented."""

from collections.abc import Iterator

import msgspec

_INDENT = "  "


def lay_out_json(text: str, width: int) -> list[str] | None:
    """The lines of a JSON object or array, laid out for `width` columns; None for other texts.

    Numbers and strings keep the characters that they have in the text. A string is never split, so
    a line may be wider than `width`.

    Example, at 32 columns:
        {"id":7,"status":"open","lines":[{"sku":"A1","qty":2},{"sku":"B2","qty":1}]} ->
        {
          "id": 7, "status": "open",
          "lines": [
            {"sku": "A1", "qty": 2},
            {"sku": "B2", "qty": 1}
          ]
        }
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return list(_lines(msgspec.Raw(msgspec.json.format(text, indent=0).encode()), width))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _lines(raw: msgspec.Raw, width: int, *, used: int = 0) -> Iterator[str]:
    """The lines of a value; `used` columns of a single line are taken by its name and its comma.
    `raw` has no line ends and one space after each `,` and `:`."""
    line = bytes(raw).decode()
    if used + len(line) <= width or line[:1] not in ("{", "[") or len(line) == 2:
        yield line
        return
    items: list[tuple[str, msgspec.Raw]]
    if line.startswith("{"):
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        items = [(f"{_json(name)}: ", value) for name, value in fields.items()]
    else:
        items = [("", value) for value in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    yield line[0]
    inner: list[str] = []
    joins = False  # whether the last line may take another field
    for index, (name, value) in enumerate(items):
        comma = "" if index + 1 == len(items) else ","
        added = list(_lines(value, width - len(_INDENT), used=len(name) + len(comma)))
        added[0] = name + added[0]
        added[-1] += comma
        is_scalar = bytes(value)[:1] not in (b"{", b"[")
        if joins and is_scalar and len(inner[-1]) + 1 + len(added[0]) <= width - len(_INDENT):
            inner[-1] += f" {added[0]}"
        else:
            inner += added
        joins = is_scalar
    yield from (_INDENT + part for part in inner)
    yield line[-1]


def _json(name: str) -> str:
    return msgspec.json.encode(name).decode()
