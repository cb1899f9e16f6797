"""What answers a server that asks something during a call (see envpool.mcp.asks).

`user`: the automaton of the task fills in the form of an elicitation. A field is answered by the
line that its words ask for, whether it was said before or not; what the user says to a server does
not change the talk with the agent. Where a field that the form needs has no line, the user
declines.

`model`: the model behind the run gets the messages of a sampling request, or the form of an
elicitation with its schema. It knows nothing of the episode.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rehearsal_room.envpool.mcp.asks import ELICITATION, NotAnswered
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import Message, Reply, Window
from rehearsal_room.harness.policies.base import Agent
from rehearsal_room.scenarios.core.automaton import is_asked
from rehearsal_room.scenarios.core.dialogue import UserAutomaton, UserLine
from rehearsal_room.scenarios.files import UNREADABLE

_DECLINED: dict[str, Any] = {"action": "decline"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_YES_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_FORM = """{message}

Answer this form: write one JSON object that meets the schema below, and nothing else.
Write DECLINE if you do not want to answer.

{schema}"""
_encode = msgspec.json.encode


class AnsweringUser:
    """Answers forms as a task's automaton does. An envpool.mcp.asks.Answerer."""

    def __init__(self, user: UserAutomaton) -> None:
        self._user = user

    async def __call__(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The filled-in form. Raises NotAnswered for other requests."""
        if method != ELICITATION:
            raise NotAnswered(f"the user of this task answers no {method}; it has no model")
        return filled_in(self._user, params)


class AnsweringModel:
    """Asks the model behind a run. An envpool.mcp.asks.Answerer."""

    def __init__(
        self, model: Callable[[], Agent], name: str, count: Callable[[Reply], None]
    ) -> None:
        """`model` makes an agent for a request. `count` gets each reply, whose tokens count as the
        episode's."""
        self._model = model
        self._name = name
        self._count = count

    async def __call__(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The model's message, or the form as the model fills it in. Raises NotAnswered."""
        if method == ELICITATION:
            if (schema := params.get("requestedSchema")) is None:
                return _DECLINED  # it wants a person with a browser
            form = _FORM.format(message=params["message"], schema=_encode(schema).decode())
            return _read_form((await self._asked((Message("user", form),), {})).text)
        if params.get("tools"):
            raise NotAnswered("this client samples no calls of tools")
        fields = {"max_tokens": params["maxTokens"]}
        if "temperature" in params:
            fields["temperature"] = params["temperature"]
        reply = await self._asked(tuple(_messages(params)), fields)
        return {
            "role": "assistant",
            "content": {"type": "text", "text": reply.text},
            "model": self._name,
            "stopReason": "maxTokens" if reply.was_cut else "endTurn",
        }

    async def _asked(self, messages: tuple[Message, ...], fields: dict[str, Any]) -> Reply:
        try:
            reply = await self._model().reply(Window(messages, fields=fields or None))
        except PolicyError as exc:
            raise NotAnswered(f"the model of this client did not answer: {exc}") from exc
        self._count(reply)
        return reply


def filled_in(user: UserAutomaton, params: Mapping[str, Any]) -> dict[str, Any]:
    """The result of an elicitation: the form's values, or that the user declines.

    Example: {"requestedSchema": {"properties": {"order_id": {"type": "string"}}}} to a user whose
    line "It is order A-17." has asked=("order*",) and values=("A-17",)
    -> {"action": "accept", "content": {"order_id": "A-17"}}
    """
    schema = params.get("requestedSchema")
    if schema is None:
        return _DECLINED  # it wants a person with a browser
    properties, required = schema.get("properties", {}), schema.get("required", ())
    content = {}
    for name, field in properties.items():
        line = _line_for(user, name, field)
        if line is None and len(properties) == 1:
            line = _asked_line(user, str(params.get("message", "")))
        value = None if line is None else _value(line, field)
        if value is not None:
            content[name] = value
        elif name in required:
            return _DECLINED
    return {"action": "accept", "content": content} if content or not properties else _DECLINED


def _line_for(user: UserAutomaton, name: str, field: Mapping[str, Any]) -> UserLine | None:
    words = (name.replace("_", " ").replace("-", " "), field.get("title"), field.get("description"))
    return _asked_line(user, ". ".join(map(str, filter(None, words))))


def _asked_line(user: UserAutomaton, text: str) -> UserLine | None:
    return next((line for line in user.lines if is_asked(line, text)), None)


def _value(line: UserLine, field: Mapping[str, Any]) -> Any:
    """What a line says, as a field takes it; None: it does not say such a value."""
    items = field.get("items") if field.get("type") == "array" else None
    if (choices := _choices(field if items is None else items)) is not None:
        said = [value for value, word in choices if _says(line.text, word)]
        if items is not None:
            return said or None
        return said[0] if len(said) == 1 else None
    match field.get("type"):
        case "boolean":
            found = _YES_NO.match(line.text)
            return found and found[1].lower() == "yes"
        case "integer" | "number":
            numbers = _NUMBER.findall(" ".join(line.values) or line.text)
            value = float(numbers[0]) if len(numbers) == 1 else None
            return int(value) if value is not None and value.is_integer() else value
    return line.values[0] if len(line.values) == 1 else line.text


def _choices(field: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """The values of an enumeration, each with the word for it; None: the field is none."""
    if (options := field.get("oneOf") or field.get("anyOf")) is not None:
        return [(one["const"], str(one.get("title", one["const"]))) for one in options]
    if (values := field.get("enum")) is None:
        return None
    return list(zip(values, field.get("enumNames") or map(str, values), strict=False))


def _says(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _read_form(text: str) -> dict[str, Any]:
    start, end = text.find("{"), text.rfind("}")
    try:
        content = msgspec.json.decode(text[start : end + 1], type=dict[str, Any])
    except UNREADABLE:
        return _DECLINED
    return {"action": "accept", "content": content}


def _messages(params: Mapping[str, Any]) -> list[Message]:
    """The messages of a sampling request. Other blocks than texts are named by their kind."""
    found = []
    if system := params.get("systemPrompt"):
        found.append(Message("system", system))
    for message in params["messages"]:
        blocks = message["content"]
        texts = [
            block.get("text", f"[{block.get('type')}]")
            for block in (blocks if isinstance(blocks, list) else [blocks])
        ]
        found.append(Message(message["role"], "\n".join(texts)))
    return found
