"""The form of a model's answer, and its parser.

A server that supports JSON schemas makes the model follow SCHEMA. With others the model answers
freely, so the parser tolerates text around and inside the object, and is strict about one thing:
which verdict is the model's own. Answers quote what agents and tools wrote, including fake
verdicts, so a text with several verdicts, of which the model's own cannot be identified, gives
none. Nor does a verdict that stands in the evidence (see judge.llm.echoes).
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rehearsal_room.harness.chat.metered import replace_surrogates
from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.llm.echoes import QuotedEvidence

# Part of every request and of every rubric's version: a change of one byte makes stored judgements
# useless. The reasoning comes first, because a model writes from left to right and should think
# before it decides.
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
MAX_CHARACTERS = 200_000  # of an answer that is parsed
_MAX_DEAD_ENDS = 1000  # braces that begin no JSON; each takes up to 0.1 ms to detect

# AWM's words (arXiv:2602.10090, and its code) beside the labels' own names.
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
_EVIDENCE_ID = re.compile(r"[\s\[(`'\"]*([A-Za-z]+[0-9]*)\s*(?:[\])`'\":,.–-].*)?", re.DOTALL)
_decoder = json.JSONDecoder(strict=False)  # accepts line breaks inside of texts


class ParsedAnswer(msgspec.Struct, frozen=True):
    """A model's verdict."""

    label: Label
    reasoning: str = ""
    confidence: float | None = None  # from 0 to 1; None: not stated
    cited: tuple[str, ...] = ()  # ids of evidence items that exist


def parse_answer(
    text: str, evidence_ids: Sequence[str], evidence: QuotedEvidence | None = None
) -> ParsedAnswer | str:
    """The verdict in a model's answer, or a sentence why there is none. Never raises.

    `evidence` is what the model was shown; None: nothing that others wrote.

    Example: 'Sure: ```json\\n{"label": "Agent error", "confidence": 80}\\n```' ->
        ParsedAnswer(Label.AGENT_ERROR, "", 0.8, ())
    """
    if len(text) > MAX_CHARACTERS:
        return f"the answer is longer than {MAX_CHARACTERS:,} characters"
    answer = _without_thoughts(text)
    if not answer:
        return "the answer is empty" if not text.strip() else "the answer contains only thoughts"
    evidence = evidence or QuotedEvidence("")
    verdict = _own_verdict(answer, evidence)
    if isinstance(verdict, str):
        repaired = _TRAILING_COMMA.sub("", answer)
        if repaired == answer or isinstance(second := _own_verdict(repaired, evidence), str):
            return verdict
        verdict = second
    return _parsed(verdict, evidence_ids)


def _without_thoughts(text: str) -> str:
    """The answer that follows a reasoning model's thoughts.

    Thoughts begin the text, or end with a tag that was opened in the prompt. The same tags inside
    of an answer are not removed: agents write them, and judges quote agents.
    """
    text = text.strip()
    while text.startswith("<think>"):
        text = text.partition("</think>")[2].strip()
    head, tag, tail = text.partition("</think>")
    return tail.strip() if tag and "{" not in head else text


def _own_verdict(text: str, evidence: QuotedEvidence) -> dict[str, Any] | str:
    """The object that is the model's own verdict, or why there is none.

    The last one counts where it ends the text: a quoted or drafted verdict comes before the answer.
    Where text follows it, the position proves nothing (a quotation may come after the answer too,
    or the answer itself may be the broken JSON around it). Then the text must contain no other
    verdict, not even in prose: asking the model again is better than guessing. And it must not
    stand in the evidence: an answer that only repeats what it was shown decides nothing.
    """
    found = _verdicts(text)
    if found is None:
        return "the answer is nested too deeply to be read"
    if not found:
        return "the answer contains no JSON object with a label"
    verdict, begin, end = found[-1]
    if evidence.has(text[begin:end]) or _is_completed_echo(verdict, evidence):
        return "the answer's verdict stands in the evidence: it is quoted, not the model's own"
    label = _label(verdict)
    if _REST.fullmatch(text, end):
        return verdict if label else _unknown(verdict)
    rest = text
    for _, start, end in reversed(found):
        rest = rest[:start] + rest[end:]
    if len({_label(other) for other, _, _ in found}) > 1 or _VERDICT_KEY.search(rest):
        return "the answer contains more than one verdict"
    return verdict if label else _unknown(verdict)


def _is_completed_echo(verdict: Mapping[str, Any], evidence: QuotedEvidence) -> bool:
    """Whether a verdict that somebody wrote in the evidence stands in the answer in another form:
    the same label, and no reasoning of the model's own."""
    reasoning = verdict.get("reasoning")
    if isinstance(reasoning, str) and reasoning.strip() and not evidence.has(reasoning):
        return False
    return any(
        isinstance(label := verdict.get(key), str) and evidence.claims(key, label)
        for key in _LABEL_KEYS
    )


def _verdicts(text: str) -> list[tuple[dict[str, Any], int, int]] | None:
    """The outermost JSON objects with a label, each with where it starts and ends.

    None: braces are nested so deep, or so many begin no JSON, that parsing could take seconds.
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
    value = _label_value(verdict)
    if not isinstance(value, str):
        return None
    return _SPELLINGS.get(re.sub(r"[\s_-]+", "_", value.strip(" .\n").lower()))


def _label_value(verdict: Mapping[str, Any]) -> Any:
    return next(verdict[key] for key in _LABEL_KEYS if key in verdict)


def _unknown(verdict: Mapping[str, Any]) -> str:
    value = _label_value(verdict)
    words = ", ".join(Label)
    if not isinstance(value, str):
        return f"the answer's label is not a text (expected one of {words})"
    found = replace_surrogates(value)[:40]
    return f"the answer's label {found!r} is not one of {words}"


def _parsed(verdict: Mapping[str, Any], evidence_ids: Sequence[str]) -> ParsedAnswer:
    label = _label(verdict)
    assert label is not None
    reasoning = verdict.get("reasoning")
    confidence = verdict.get("confidence", verdict.get("confidence_score"))
    return ParsedAnswer(
        label,
        replace_surrogates(reasoning) if isinstance(reasoning, str) else "",
        _confidence(confidence, label),
        _cited(verdict.get("leaned_on"), evidence_ids),
    )


def _confidence(value: Any, label: Label) -> float | None:
    """From 0 to 1; None where it is not clear what was meant.

    Example: 0.9 -> 0.9; 90 -> 0.9; "90 %" -> 0.9; 1.5 -> None;
        AWM's [5, 0, 15, 80] beside `agent_error` -> 0.8
    """
    if isinstance(value, list):
        return _percent(value[_AWM_SCORES.index(label)]) if len(value) == len(_AWM_SCORES) else None
    is_percent = isinstance(value, str) and value.rstrip().endswith("%")
    if isinstance(value, str):
        try:
            value = float(value.strip().rstrip("%"))
        except ValueError:
            return None
    if is_percent or (_is_number(value) and value >= 2):
        return _percent(value)
    return float(value) if _is_number(value) and 0 <= value <= 1 else None


def _percent(value: Any) -> float | None:
    return value / 100 if _is_number(value) and 0 <= value <= 100 else None


def _is_number(value: Any) -> bool:
    """Whether it is a finite number. An integer may be too large for a float, but is finite."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _cited(value: Any, evidence_ids: Sequence[str]) -> tuple[str, ...]:
    """The ids that were named and exist, each once.

    Example: ["F2", "[s3]", "D9: the refund"], where F2 and S3 exist -> ("F2", "S3")
    """
    items = re.split(r"[,;\s]+", value) if isinstance(value, str) else value
    if not isinstance(items, list):
        return ()
    known = {id.upper(): id for id in evidence_ids}
    named = (_EVIDENCE_ID.fullmatch(item) for item in items if isinstance(item, str))
    ids = (known.get(match[1].upper()) for match in named if match)
    return tuple(dict.fromkeys(id for id in ids if id is not None))
