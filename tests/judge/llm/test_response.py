"""Parsing a model's answer: labels, confidence, cited ids, and which verdict is its own."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.llm.response import MAX_CHARACTERS, SCHEMA, ParsedAnswer, parse_answer

EVIDENCE_IDS = ("T", "A", "F1", "F2", "S3")
COMPLETED = '{"label": "completed"}'
AGENT_ERROR = '{"label": "agent_error"}'
BROKEN_WORLD = '{"label": "environment_error"}'
NO_OBJECT = "the answer contains no JSON object with a label"
TWO = "the answer contains more than one verdict"
WHOLE = {
    "reasoning": "The refund is there.",
    "label": "completed",
    "confidence": 0.9,
    "leaned_on": ["F1", "S3"],
}


def read(text: str) -> ParsedAnswer | str:
    return parse_answer(text, EVIDENCE_IDS)


def label_in(text: str) -> str:
    """The label, or the fault."""
    answer = read(text)
    return answer if isinstance(answer, str) else answer.label


def test_an_answer_that_follows_the_schema_is_parsed_completely() -> None:
    """Reasoning, label, confidence and cited ids are unchanged."""
    jsonschema.validate(WHOLE, SCHEMA)
    assert read(json.dumps(WHOLE)) == ParsedAnswer(
        Label.COMPLETED, "The refund is there.", 0.9, ("F1", "S3")
    )


def test_the_schema_is_in_the_strict_dialect() -> None:
    """Every property is required and nothing else is allowed, as OpenAI's strict mode demands."""
    assert SCHEMA["required"] == list(SCHEMA["properties"])
    assert SCHEMA["additionalProperties"] is False
    assert SCHEMA["properties"]["label"]["enum"] == [label.value for label in Label]


@pytest.mark.parametrize(
    "text",
    [
        AGENT_ERROR,
        f"```json\n{AGENT_ERROR}\n```",
        f"Here it is:\n{AGENT_ERROR}\nI hope that this helps.",
        f"<think>Is it {COMPLETED}? No.</think>\n{AGENT_ERROR}",
        f"<think>One.</think><think>Two.</think>{AGENT_ERROR}",
        f"thoughts whose opening tag the prompt held</think>{AGENT_ERROR}",
        '{"label": "agent_error", "leaned_on": ["F1",],}',
        '{"reasoning": "two\nlines", "label": "agent_error"}',
        f"[{AGENT_ERROR}]",
        f"{{braces}} before, {AGENT_ERROR}",
    ],
)
def test_text_around_the_object_does_not_matter(text: str) -> None:
    """Code fences, prose, thoughts and trailing commas are accepted."""
    assert label_in(text) == "agent_error"


@pytest.mark.parametrize(
    ("spelling", "label"),
    [
        ("COMPLETED", Label.COMPLETED),
        ("complete", Label.COMPLETED),
        ("Partially Completed", Label.PARTIALLY_COMPLETED),
        ("partially-completed", Label.PARTIALLY_COMPLETED),
        ("incomplete", Label.PARTIALLY_COMPLETED),
        ("Agent  Error.", Label.AGENT_ERROR),
        ("server_error", Label.ENVIRONMENT_ERROR),
        ("environment error", Label.ENVIRONMENT_ERROR),
    ],
)
@pytest.mark.parametrize("key", ["label", "classification"])
def test_labels_are_known_by_many_spellings(spelling: str, label: Label, key: str) -> None:
    """Case, spaces, hyphens and AWM's names are understood, under AWM's key too."""
    assert read(json.dumps({key: spelling})) == ParsedAnswer(label)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the answer is empty"),
        (" \n", "the answer is empty"),
        ("<think>so much to think", "the answer contains only thoughts"),
        ("<think>done</think>", "the answer contains only thoughts"),
        ("The agent completed the task.", NO_OBJECT),
        ('{"verdict": "completed"}', NO_OBJECT),
        ('{"label": "compl', NO_OBJECT),
        ('{"a":' * 20_000 + AGENT_ERROR, "the answer is nested too deeply to be read"),
        ("{" * 20_000 + AGENT_ERROR, "the answer is nested too deeply to be read"),
        ("x" * (MAX_CHARACTERS + 1), "the answer is longer than 200,000 characters"),
        (
            '{"label": "superb"}',
            "the answer's label 'superb' is not one of completed, partially_completed, "
            "agent_error, environment_error",
        ),
        (
            '{"label": 1}',
            "the answer's label is not a text (expected one of completed, partially_completed, "
            "agent_error, environment_error)",
        ),
    ],
)
def test_an_answer_without_a_verdict_is_reported(text: str, fault: str) -> None:
    """The sentence names what was found instead."""
    assert read(text) == fault


def test_a_quoted_verdict_before_the_answer_is_not_the_answer() -> None:
    """The verdict at the end of the text is the model's own, whatever was quoted before it."""
    assert label_in(f"The agent wrote {COMPLETED}, which is not a proof.\n{AGENT_ERROR}") == (
        "agent_error"
    )
    assert label_in(f'```\n{COMPLETED}\n```\nBut: {{"label": "great"}}').startswith(
        "the answer's label 'great'"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"{AGENT_ERROR} although the agent wrote {COMPLETED} in its answer",
        f'{AGENT_ERROR}\nOn reflection, label: "completed"',
        f'Quoted: {COMPLETED}. My answer: {{"reasoning": "it said "no"", "label": "agent_error"}}',
        f'{{"label": "agent_error", "reasoning": "it said {COMPLETED}"}}',
        f"Quoted: {COMPLETED}. My answer: {{'label': 'agent_error'}}",
    ],
)
def test_of_two_verdicts_that_cannot_be_distinguished_none_counts(text: str) -> None:
    """Where text follows the last verdict and contains another one, there is no verdict."""
    assert read(text) == TWO


def test_a_repeated_verdict_is_one_verdict() -> None:
    """Verdicts that agree need not be distinguished; the last one's reasoning counts."""
    text = f'{AGENT_ERROR} and again {{"label": "agent_error", "reasoning": "r"}} as I said'
    assert read(text) == ParsedAnswer(Label.AGENT_ERROR, "r")


def test_thought_tags_inside_an_answer_are_kept() -> None:
    """A judge may quote the tags in which agents think."""
    reasoning = "It thought <think>nothing</think> and stopped."
    assert read(json.dumps({"reasoning": reasoning, "label": "agent_error"})) == ParsedAnswer(
        Label.AGENT_ERROR, reasoning
    )


@pytest.mark.parametrize(
    ("value", "confidence"),
    [
        (0.9, 0.9),
        (0, 0.0),
        (1, 1.0),
        (90, 0.9),
        ("90%", 0.9),
        ("1 %", 0.01),
        ("0.9", 0.9),
        ([5, 0, 15, 80], 0.8),
        ([5, 0, 15], None),
        ([5, 0, 15, "high"], None),
        ("high", None),
        (1.5, None),
        (-1, None),
        (101, None),
        (10**400, None),
        (True, None),
        (None, None),
        ({}, None),
        (float("nan"), None),
    ],
)
def test_confidence_is_read_where_it_is_clear(value: Any, confidence: float | None) -> None:
    """A share, a percentage or AWM's scores become a number from 0 to 1, anything else None."""
    text = json.dumps({"label": "agent_error", "confidence": value})
    assert read(text) == ParsedAnswer(Label.AGENT_ERROR, "", confidence)


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (["F2", "f1", "F2", "F9"], ("F2", "F1")),
        (["[S3]", "T: the task", "`A`", "A refund was missing"], ("S3", "T", "A")),
        ("F1, S3", ("F1", "S3")),
        (["F1", 2, None, []], ("F1",)),
        (7, ()),
        (None, ()),
    ],
)
def test_only_ids_that_exist_are_cited(value: Any, ids: tuple[str, ...]) -> None:
    """A name that is not the id of an evidence item is dropped."""
    text = json.dumps({"label": "completed", "leaned_on": value})
    assert read(text) == ParsedAnswer(Label.COMPLETED, cited=ids)


def test_a_parsed_answer_can_be_stored() -> None:
    """Half a surrogate pair, which no log can hold, becomes a question mark."""
    assert read('{"label": "completed", "reasoning": "\\ud83d!"}') == ParsedAnswer(
        Label.COMPLETED, "?!"
    )


FRAGMENTS = st.sampled_from(
    [
        *("{", "}", "[", "]", '"', "'", ":", ",", "\\", "```json\n", "<think>", "</think>"),
        *(
            '"label"',
            '"classification"',
            '"confidence":',
            '"leaned_on":',
            "NaN",
            "-1e999",
            "9" * 50,
        ),
        *(COMPLETED, AGENT_ERROR, BROKEN_WORLD, "\\ud83d", "\ud83d", "label: completed"),
    ]
)


@given(st.lists(FRAGMENTS | st.text(max_size=5), max_size=30).map("".join))
def test_reading_never_raises(text: str) -> None:
    """Whatever a model writes, the result is an answer that can be stored, or a sentence."""
    answer = read(text)
    if isinstance(answer, ParsedAnswer):
        answer.reasoning.encode()
        assert set(answer.cited) <= set(EVIDENCE_IDS)
        assert answer.confidence is None or 0 <= answer.confidence <= 1
    else:
        answer.encode()
        assert answer.startswith("the answer")


@given(st.text(max_size=20), st.sampled_from(list(Label)))
def test_the_verdict_that_ends_the_text_is_read(before: str, label: Label) -> None:
    """Prose and quoted verdicts before it never change the result, unless they leave JSON open."""
    answer = read(f"{before}\n{COMPLETED}\n{AGENT_ERROR}\n" + json.dumps({"label": label}))
    assert answer == ParsedAnswer(label)
