"""A model's chat template: a Jinja program that comes with its weights and formats conversations.

It is rendered as transformers does, without transformers: the same sandbox, filters and tags, and
with tools the template that a folder has for them (`tool_use`). One function differs on purpose:
`strftime_now`. Today's date would make a prompt depend on the day, and the prompt that an agent was
shown could not be computed again from its log. It gives the date that the prompt itself names ("The
time is 2026-05-12T09:00:00Z.", as the system prompt of a world does), and else a fixed one.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import msgspec
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.scenarios.files import UNREADABLE

CONFIG_NAME = "tokenizer_config.json"
_DATE = re.compile(r"\bThe time is (\d{4}-\d\d-\d\d)")
NO_DATE = date(2025, 1, 1)  # for prompts that name none
_ADDITIONAL = "additional_chat_templates"  # transformers' folder of templates with names
_TOOL_USE = "tool_use"
_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


class ChatTemplate:
    """Renders conversations. `names` maps the variables of special tokens to their texts; `path` is
    the template's file, for messages. `tool_use` is the source of the template for conversations
    with tools; None: there is one template for all."""

    def __init__(
        self, source: str, names: dict[str, str], *, path: Path, tool_use: str | None = None
    ) -> None:
        """Raises SettingsError for a source that is not a Jinja template."""
        self._path = path
        self._names = names
        try:
            self._template = _Compiled(source)
            self._tool_template = self._template if tool_use is None else _Compiled(tool_use)
        except jinja2.TemplateError as exc:
            raise SettingsError(f"{path}: its chat template cannot be read: {exc}") from exc

    @property
    def writes_date(self) -> bool:
        """Whether it writes the date into prompts, in some conversations at least."""
        return self._template.writes_date or self._tool_template.writes_date

    @property
    def end_text(self) -> str:
        """The text of the tokenizer's end token; empty where it has none."""
        return self._names.get("eos_token", "")

    def render(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]] = (),
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """The conversation as text; with `add_generation_prompt` it ends where the
        assistant's next message begins.

        Raises PolicyError for a conversation that the template refuses.
        """
        template = self._tool_template if tools else self._template
        try:
            return template.render(
                messages=list(messages),
                tools=list(tools) or None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._names,
            )
        except (jinja2.TemplateError, TypeError, ValueError, LookupError) as exc:
            raise PolicyError(f"{self._path}: the chat template refuses the window: {exc}") from exc


class _Compiled:
    """One template, with a clock if it asks for one."""

    def __init__(self, source: str) -> None:
        self._template = _environment().from_string(source)
        self.writes_date = "strftime_now" in source

    def render(self, *, messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
        if self.writes_date:
            variables["strftime_now"] = _date_of(messages).strftime
        return self._template.render(messages=messages, **variables)


def _date_of(messages: Sequence[Mapping[str, Any]]) -> date:
    """The date that a conversation's first message names; a fixed one where it names none."""
    content = messages[0].get("content") if messages else None
    found = _DATE.search(content) if isinstance(content, str) else None
    try:
        return date.fromisoformat(found[1]) if found else NO_DATE
    except ValueError:
        return NO_DATE


def read_template(folder: Path) -> ChatTemplate:
    """The chat template of a Hugging Face directory: `chat_template.jinja`, with
    `additional_chat_templates/tool_use.jinja` for tools, or those in `tokenizer_config.json`.
    Raises SettingsError naming the file."""
    config = read_config(folder / CONFIG_NAME)
    path = folder / "chat_template.jinja"
    source, tool_use = _text_of(path), _text_of(folder / _ADDITIONAL / f"{_TOOL_USE}.jinja")
    if source is None:
        path = folder / CONFIG_NAME
        named = _named_templates(config.get("chat_template"))
        tool_use = tool_use or named.get(_TOOL_USE)
        source = named.get("default") or tool_use
    if source is None:
        raise SettingsError(f"{folder}: the folder has no chat template (chat_template.jinja)")
    names = {name: token_text(config[name]) for name in _NAMED_TOKENS if config.get(name)}
    return ChatTemplate(source, names, path=path, tool_use=tool_use)


def _text_of(path: Path) -> str | None:
    """A template's file; None: it does not exist. Raises SettingsError."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{path}: the chat template cannot be read: {exc}") from exc


def _named_templates(sent: Any) -> dict[str, str]:
    """The templates in tokenizer_config.json by their names: older directories have several, in a
    list.

    Example: "x" -> {"default": "x"}
    """
    if isinstance(sent, str):
        return {"default": sent}
    if isinstance(sent, list):
        sent = {one.get("name"): one.get("template") for one in sent if isinstance(one, dict)}
    found = sent if isinstance(sent, dict) else {}
    return {str(name): text for name, text in found.items() if isinstance(text, str)}


def read_config(path: Path) -> dict[str, Any]:
    """A JSON object of a Hugging Face directory; empty where the file does not exist.

    Raises SettingsError naming the file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, *UNREADABLE) as exc:
        raise SettingsError(f"{path}: cannot be read as a JSON object: {exc}") from exc


def token_text(entry: Any) -> str:
    """The text of a special token from its entry in tokenizer_config.json: a plain text, or
    an object with options."""
    return str(entry.get("content", "")) if isinstance(entry, dict) else str(entry)


class _Generation(jinja2.ext.Extension):
    """The tags `{% generation %} … {% endgeneration %}`, by which templates mark the text that is
    trained; here they are replaced by their content."""

    tags = {"generation"}  # noqa: RUF012 (as the base class declares it)

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the escapes for HTML that Jinja's own filter makes."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
