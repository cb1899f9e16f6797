"""A model's chat template: a Jinja program that comes with its weights and formats conversations.

It is rendered as transformers does, without transformers: the same sandbox, filters and tags. One
function is left out on purpose: `strftime_now`. With it a prompt would depend on the day, and the
prompt that an agent was shown could not be computed again from its log; templates that use it have
a fixed date to fall back to.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import msgspec
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rehearsal_room.harness.core.errors import PolicyError, SettingsError

CONFIG_NAME = "tokenizer_config.json"
_CLOCK = "it asks for today's date (strftime_now), on which a prompt must not depend"
_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


class ChatTemplate:
    """Renders conversations. `names` maps the variables of special tokens to their texts; `path` is
    the template's file, for messages."""

    def __init__(self, source: str, names: dict[str, str], *, path: Path) -> None:
        """Raises SettingsError for a source that is not a Jinja template."""
        self._path = path
        self._names = names
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateError as exc:
            raise SettingsError(f"{path}: its chat template cannot be read: {exc}") from exc

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
        try:
            return self._template.render(
                messages=list(messages),
                tools=list(tools) or None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._names,
            )
        except (jinja2.TemplateError, TypeError, ValueError, LookupError) as exc:
            reason = _CLOCK if "'strftime_now' is undefined" in str(exc) else exc
            raise PolicyError(
                f"{self._path}: the chat template refuses the window: {reason}"
            ) from exc


def read_template(folder: Path) -> ChatTemplate:
    """The chat template of a Hugging Face directory: `chat_template.jinja`, or the one in
    `tokenizer_config.json`. Raises SettingsError naming the file."""
    config = read_config(folder / CONFIG_NAME)
    path = folder / "chat_template.jinja"
    try:
        source: Any = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        path, source = folder / CONFIG_NAME, config.get("chat_template")
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{path}: the chat template cannot be read: {exc}") from exc
    if isinstance(source, list):  # older directories have several templates with names
        source = {entry.get("name"): entry.get("template") for entry in source}.get("default")
    if not isinstance(source, str):
        raise SettingsError(f"{folder}: the folder has no chat template (chat_template.jinja)")
    names = {name: token_text(config[name]) for name in _NAMED_TOKENS if config.get(name)}
    return ChatTemplate(source, names, path=path)


def read_config(path: Path) -> dict[str, Any]:
    """A JSON object of a Hugging Face directory; empty where the file does not exist.

    Raises SettingsError naming the file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as exc:
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
