"""Griffe extension: the fields of a struct become a table under its docstring.

A comment beside a field describes it. Without this, a page would leave out fields, because they
have no docstrings.
"""

from typing import Any

import griffe
from field_tables import struct_fields

_BASES = ("Struct", "msgspec.Struct")


class StructAttributes(griffe.Extension):
    """Adds a section `Attributes:` to the docstrings of structs."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add the fields of a class, if it is a struct."""
        if cls.docstring is None or not any(str(base) in _BASES for base in cls.bases):
            return
        rows = [row for row in struct_fields(cls.path) if "." not in row.path]
        own = [row for row in rows if row.path in cls.members]
        lines = [f"    {row.path}: {row.meaning}" for row in own]
        if lines:
            cls.docstring.value += "\n\nAttributes:\n" + "\n".join(lines)
