"""What a model must answer, and how its answer is read.

A server that knows JSON schemas holds the model to SCHEMA. Others let it answer as it likes, so
reading is tolerant of what stands around and inside the object, and strict about one thing: which
verdict is the model's own. Answers quote what agents and tools wrote, faked verdicts included, so a
text that holds verdicts of which nobody can tell the model's own gives none.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harness.core.events import Label

# In the order in which a model that writes from left to right thinks before it decides.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "What the evidence shows, step by step."},
        "label": {"type": "string", "enum": [str(label) for label in Label]},
        "confidence": {"type": "number", "description": "From 0 to 1."},
        "leaned_on": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The ids of the exhibits that decided, as in F2.",
        },
    },
    "required": ["reasoning", "label", "confidence", "leaned_on"],
    "additionalProperties": False,
}
MAX_CHARACTERS = 200_000  # of an answer that is looked into
_MAX_DEAD_ENDS = 1000  # braces that begin no JSON; each takes up to 0.1 ms to see

# AWM's words (arXiv:2602.10090, and its code) beside ours.
_SPELLINGS: Mapping[str, Label] = {str(label): label for label in Label} | {
    "complete": Label.COMPLETED,
    "incomplete": Label.PARTIALLY_COMPLETED,
    "partially_complete": Label.PARTIALLY_COMPLETED,
    "server_error": Label.ENVIRONMENT_ERROR,
}
_AWM_SCORES = (
    Label.COMPLETED,
    Label.PARTIALLY_COMPLETED,
    Label.ENVIRONMENT_ERROR,
    Label.AGENT_ERROR,
)  # whose confidences AWM's judges list, in this order
_LABEL_KEYS = ("label", "classification")
_VERDICT_KEY = re.compile(r"[\"']?\b(?:label|classification)\b[\"']?\s*[:=]", re.IGNORECASE)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_REST = re.compile(r"[\s`]*")  # what may follow an answer: the end of a code fence
_EXHIBIT = re.compile(r"[\s\[(`'\"]*([A-Za-z]+[0-9]*)\s*(?:[\])`'\":,.–-].*)?", re.DOTALL)
_decoder = json.JSONDecoder(strict=False)  # line breaks inside of texts are let pass


class Said(msgspec.Struct, frozen=True):
    """What a model said."""

    label: Label
    reasoning: str = ""
    confidence: float | None = None  # from 0 to 1; None: it did not say
    leaned_on: tuple[str, ...] = ()  # exhibits that exist


def read_opinion(text: str, exhibits: Sequence[str]) -> Said | str:
    """What a model's answer says, or in words why it says nothing. Never raises.

    Example: 'Sure: ```json\\n{"label": "Agent error", "confidence": 80}\\n```' ->
        Said(Label.AGENT_ERROR, "", 0.8, ())
    """
    if len(text) > MAX_CHARACTERS:
        return f"the answer is longer than {MAX_CHARACTERS:,} characters"
    answer = _without_thoughts(text)
    if not answer:
        return "the answer is empty" if not text.strip() else "the answer holds only thoughts"
    verdict = _own_verdict(answer)
    if isinstance(verdict, str):
        mended = _TRAILING_COMMA.sub("", answer)
        if mended == answer or isinstance(again := _own_verdict(mended), str):
            return verdict
        verdict = again
    return _said(verdict, exhibits)


def _without_thoughts(text: str) -> str:
    """The answer behind a reasoning model's thoughts.

    Thoughts begin the text, or end with a tag that was opened in the prompt. The same tags inside
    of an answer are left alone: agents write them, and judges quote agents.
    """
    text = text.strip()
    while text.startswith("<think>"):
        text = text.partition("</think>")[2].strip()
    head, tag, tail = text.partition("</think>")
    return tail.strip() if tag and "{" not in head else text


def _own_verdict(text: str) -> dict[str, Any] | str:
    """The object that is the model's own verdict, or why there is none.

    The last one counts where it ends the text: a verdict that was quoted or drafted comes before
    the answer. Where the text goes on, position tells nothing (a quotation may come after the
    answer, too, or the answer itself be the broken JSON around it), so that no other verdict may be
    in sight, be it prose; the model is then better asked again than guessed at.
    """
    found = _verdicts(text)
    if found is None:
        return "the answer is too tangled to be read"
    if not found:
        return "the answer holds no JSON object with a label"
    verdict, _, end = found[-1]
    label = _label(verdict)
    if _REST.fullmatch(text, end):
        return verdict if label else _unknown(verdict)
    rest = text
    for _, start, end in reversed(found):
        rest = rest[:start] + rest[end:]
    if len({_label(other) for other, _, _ in found}) > 1 or _VERDICT_KEY.search(rest):
        return "the answer holds more than one verdict"
    return verdict if label else _unknown(verdict)


def _verdicts(text: str) -> list[tuple[dict[str, Any], int, int]] | None:
    """The outermost JSON objects with a label, each with where it starts and ends.

    None: braces are nested so deep, or so many lead nowhere, that going on could take seconds.
    """
    found = []
    num_dead_ends = 0
    start = text.find("{")
    while start >= 0:
        end = start + 1
        try:
            value, end = _decoder.raw_decode(text, start)
        except ValueError:
            num_dead_ends += 1
            if num_dead_ends > _MAX_DEAD_ENDS:
                return None
        except RecursionError:
            return None
        else:
            if any(key in value for key in _LABEL_KEYS):
                found.append((value, start, end))
        start = text.find("{", end)
    return found


def _label(verdict: Mapping[str, Any]) -> Label | None:
    told = _told(verdict)
    if not isinstance(told, str):
        return None
    return _SPELLINGS.get(re.sub(r"[\s_-]+", "_", told.strip(" .\n").lower()))


def _told(verdict: Mapping[str, Any]) -> Any:
    return next(verdict[key] for key in _LABEL_KEYS if key in verdict)


def _unknown(verdict: Mapping[str, Any]) -> str:
    told = _told(verdict)
    words = ", ".join(Label)
    if not isinstance(told, str):
        return f"the answer's label is no text, but one of {words} was expected"
    return f"the answer's label {_whole(told)[:40]!r} is none of {words}"


def _said(verdict: Mapping[str, Any], exhibits: Sequence[str]) -> Said:
    label = _label(verdict)
    assert label is not None
    reasoning = verdict.get("reasoning")
    told = verdict.get("confidence", verdict.get("confidence_score"))
    return Said(
        label,
        _whole(reasoning) if isinstance(reasoning, str) else "",
        _confidence(told, label),
        _leaned_on(verdict.get("leaned_on"), exhibits),
    )


def _whole(text: str) -> str:
    """The text without halves of surrogate pairs, which no log can hold."""
    return text.encode("utf-8", "replace").decode()


def _confidence(told: Any, label: Label) -> float | None:
    """From 0 to 1; None where it is not clear what was meant.

    Example: 0.9 -> 0.9; 90 -> 0.9; "90 %" -> 0.9; 1.5 -> None;
        AWM's [5, 0, 15, 80] beside `agent_error` -> 0.8
    """
    if isinstance(told, list):
        return _percent(told[_AWM_SCORES.index(label)]) if len(told) == len(_AWM_SCORES) else None
    is_percent = isinstance(told, str) and told.rstrip().endswith("%")
    if isinstance(told, str):
        try:
            told = float(told.strip().rstrip("%"))
        except ValueError:
            return None
    if is_percent or (_is_number(told) and told >= 2):
        return _percent(told)
    return float(told) if _is_number(told) and 0 <= told <= 1 else None


def _percent(told: Any) -> float | None:
    return told / 100 if _is_number(told) and 0 <= told <= 100 else None


def _is_number(told: Any) -> bool:
    """A whole number may be too large for a float, but is finite."""
    return type(told) is int or (type(told) is float and math.isfinite(told))


def _leaned_on(told: Any, exhibits: Sequence[str]) -> tuple[str, ...]:
    """The exhibits that were named and exist, each once.

    Example: ["F2", "[s3]", "D9: the refund"] with F2 and S3 there -> ("F2", "S3")
    """
    items = re.split(r"[,;\s]+", told) if isinstance(told, str) else told
    if not isinstance(items, list):
        return ()
    known = {exhibit.upper(): exhibit for exhibit in exhibits}
    named = (_EXHIBIT.fullmatch(item) for item in items if isinstance(item, str))
    ids = (known.get(match[1].upper()) for match in named if match)
    return tuple(dict.fromkeys(id for id in ids if id is not None))
