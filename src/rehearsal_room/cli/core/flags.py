"""Flags made from the fields of settings structs (see harness.settings.fields).

A flag has the field's name, type, allowed words and description; its value is None, or () where it
may be repeated, when it was not given. Bounds are shown here and checked when the flags become
settings.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec
from msgspec import inspect

from rehearsal_room.cli.core.help import SettingOption
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.fields import Field, field_at, fields_of
from rehearsal_room.scenarios.validation import describe_bounds, explain

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
S = TypeVar("S", bound=msgspec.Struct)
_TYPES: tuple[tuple[type, Any], ...] = (
    (inspect.BoolType, click.BOOL),
    (inspect.IntType, click.INT),
    (inspect.FloatType, click.FLOAT),
)


class WordChoice(click.Choice[str]):
    """The words that a setting may be; `hint` suggests what to do about another one."""

    def __init__(self, words: Sequence[str], hint: str = "") -> None:
        super().__init__(words)
        self._hint = hint

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Name the words, and what to do."""
        hint = f"; {self._hint}" if self._hint else ""
        return f"{value!r} is not one of {', '.join(self.choices)}{hint}"


class NumberOrWord(click.ParamType[int | str]):
    """A whole number, or one of a few words."""

    name = "integer"

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """The number or the word."""
        if value in self._words:
            return str(value)
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number or one of {', '.join(self._words)}")


def flags_of(
    kind: type[msgspec.Struct],
    *,
    only: Collection[str] | None = None,
    omit: Collection[str] = (),
    names: Mapping[str, Sequence[str]] | None = None,
    words: Mapping[str, Sequence[str]] | None = None,
    help: Mapping[str, str] | None = None,
    required: Collection[str] = (),
    section: str = "",
) -> Callable[[Decorated], Decorated]:
    """A decorator that gives a command the flags of a struct's fields.

    `only` are the keys of the fields (None: all, but for `omit`). By key, `names` are other flags
    than a field's own, `words` other allowed words and `help` another text. The flags of `required`
    must be given. `section` is the heading of the fields that are in no table.
    """

    def decorate(command: Decorated) -> Decorated:
        for field in reversed(fields_of(kind)):
            key = field.key
            if not field.flag or key in omit or key not in (only or (key,)):
                continue
            command = click.option(
                key,
                *((names or {}).get(key) or _flags(field)),
                cls=SettingOption,
                section=field.table.capitalize() or section,
                once=field.extra.get("once", ""),
                type=_type_of(field, (words or {}).get(key) or field.words),
                required=key in required,
                multiple=field.is_list,
                default=None,
                metavar=field.extra.get("metavar"),
                envvar=field.extra.get("envvar"),
                help=(help or {}).get(key) or help_of(field),
            )(command)
        return command

    return decorate


def settings_from(kind: type[S], flags: Mapping[str, Any]) -> S:
    """The struct whose fields have the values of flags, other flags left out. Raises SettingsError
    naming the flag."""
    given = {
        key: value
        for key, value in select_flags(kind, flags).items()
        if value is not None and value != ()
    }
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as exc:
        key, colon, fault = explain(exc, given, kind).partition(":")
        field = field_at(kind, key)
        name = f"--{field.flag}" if field is not None and field.flag else key
        raise SettingsError(f"{name}{colon}{fault}") from exc


def select_flags(kind: type[msgspec.Struct], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of a struct's fields among those of a command."""
    keys = {field.key for field in fields_of(kind)}
    return {key: value for key, value in flags.items() if key in keys}


def _flags(field: Field) -> list[str]:
    short = [field.extra["short"]] if "short" in field.extra else []
    name = f"--{field.flag}"
    if isinstance(field.types[0], inspect.BoolType):
        name += f"/--no-{field.flag}"
    return [*short, name]


def _type_of(field: Field, words: Sequence[str]) -> Any:
    """The type of a flag as click has it; None: text."""
    if words:
        return WordChoice(words, field.extra.get("hint", ""))
    literal = next((one for one in field.types if isinstance(one, inspect.LiteralType)), None)
    if literal is not None:
        return NumberOrWord(tuple(map(str, literal.values)))
    return next((there for one, there in _TYPES if isinstance(field.types[0], one)), None)


def help_of(field: Field) -> str:
    """The description, with the default and the bounds.

    Example: "Maximum number of steps in an episode (default: 20; at least 1)."
    """
    default = field.extra.get("default") or _words_of(field.default)
    notes = [f"default: {default}"] if default else []
    notes += filter(None, (describe_bounds(kind) for kind in field.types))
    if not notes:
        return field.description
    return f"{field.description.removesuffix('.')} ({'; '.join(notes)})."


def _words_of(default: Any) -> str:
    if default is None or default == "" or default == ():
        return ""
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)
