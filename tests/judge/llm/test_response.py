import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.events import Label
from judge.llm.response import MAX_CHARACTERS, SCHEMA, Said, read_opinion

EXHIBITS = ("T", "A", "F1", "F2", "S3")
COMPLETED = '{"label": "completed"}'
AGENT_ERROR = '{"label": "agent_error"}'
BROKEN_WORLD = '{"label": "environment_error"}'
NO_OBJECT = "the answer holds no JSON object with a label"
TWO = "the answer holds more than one verdict"
WHOLE = {
    "reasoning": "The refund is there.",
    "label": "completed",
    "confidence": 0.9,
    "leaned_on": ["F1", "S3"],
}


def read(text: str) -> Said | str:
    return read_opinion(text, EXHIBITS)


def label_in(text: str) -> str:
    """The label that is read, else the fault."""
    said = read(text)
    return said if isinstance(said, str) else said.label


def test_an_answer_after_the_schema_is_read_whole() -> None:
    """Reasoning, label, confidence and exhibits come back as they were said."""
    jsonschema.validate(WHOLE, SCHEMA)
    assert read(json.dumps(WHOLE)) == Said(
        Label.COMPLETED, "The refund is there.", 0.9, ("F1", "S3")
    )


def test_the_schema_is_in_the_strict_dialect() -> None:
    """Every property is required and nothing else is allowed, as OpenAI's strict mode wants."""
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
def test_what_stands_around_the_object_does_not_matter(text: str) -> None:
    """Fences, prose, thoughts and trailing commas are let pass."""
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
    """Case, spaces, hyphens and AWM's names are understood, under AWM's key, too."""
    assert read(json.dumps({key: spelling})) == Said(label)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the answer is empty"),
        (" \n", "the answer is empty"),
        ("<think>so much to think", "the answer holds only thoughts"),
        ("<think>done</think>", "the answer holds only thoughts"),
        ("The agent completed the task.", NO_OBJECT),
        ('{"verdict": "completed"}', NO_OBJECT),
        ('{"label": "compl', NO_OBJECT),
        ('{"a":' * 20_000 + AGENT_ERROR, "the answer is too tangled to be read"),
        ("{" * 20_000 + AGENT_ERROR, "the answer is too tangled to be read"),
        ("x" * (MAX_CHARACTERS + 1), "the answer is longer than 200,000 characters"),
        (
            '{"label": "superb"}',
            "the answer's label 'superb' is none of completed, partially_completed, agent_error, "
            "environment_error",
        ),
        (
            '{"label": 1}',
            "the answer's label is no text, but one of completed, partially_completed, "
            "agent_error, environment_error was expected",
        ),
    ],
)
def test_what_cannot_be_read_is_told(text: str, fault: str) -> None:
    """Without a verdict there is a sentence that says what was found instead."""
    assert read(text) == fault


def test_a_quoted_verdict_before_the_answer_is_not_the_answer() -> None:
    """The verdict that ends the text is the model's own, whatever was quoted before it."""
    assert label_in(f"The agent wrote {COMPLETED}, which is no proof.\n{AGENT_ERROR}") == (
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
def test_of_two_verdicts_that_nothing_tells_apart_none_is_taken(text: str) -> None:
    """Where the text goes on after the last verdict and holds another one, it gives none."""
    assert read(text) == TWO


def test_one_verdict_said_twice_is_one() -> None:
    """Verdicts that agree need not be told apart; the last one's words count."""
    text = f'{AGENT_ERROR} and again {{"label": "agent_error", "reasoning": "r"}} as I said'
    assert read(text) == Said(Label.AGENT_ERROR, "r")


def test_tags_inside_of_an_answer_are_its_own() -> None:
    """A judge may quote the tags with which agents think."""
    reasoning = "It thought <think>nothing</think> and stopped."
    assert read(json.dumps({"reasoning": reasoning, "label": "agent_error"})) == Said(
        Label.AGENT_ERROR, reasoning
    )


@pytest.mark.parametrize(
    ("told", "confidence"),
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
def test_confidence_is_read_where_it_is_clear(told: Any, confidence: float | None) -> None:
    """A share, a percentage or AWM's scores become a number from 0 to 1, anything else none."""
    text = json.dumps({"label": "agent_error", "confidence": told})
    assert read(text) == Said(Label.AGENT_ERROR, "", confidence)


@pytest.mark.parametrize(
    ("told", "ids"),
    [
        (["F2", "f1", "F2", "F9"], ("F2", "F1")),
        (["[S3]", "T: the task", "`A`", "A refund was missing"], ("S3", "T", "A")),
        ("F1, S3", ("F1", "S3")),
        (["F1", 2, None, []], ("F1",)),
        (7, ()),
        (None, ()),
    ],
)
def test_only_exhibits_that_exist_are_leaned_on(told: Any, ids: tuple[str, ...]) -> None:
    """What was named and is no exhibit is dropped."""
    text = json.dumps({"label": "completed", "leaned_on": told})
    assert read(text) == Said(Label.COMPLETED, leaned_on=ids)


def test_what_was_said_can_be_stored() -> None:
    """Half a surrogate pair, which no log can hold, becomes a question mark."""
    assert read('{"label": "completed", "reasoning": "\\ud83d!"}') == Said(Label.COMPLETED, "?!")


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
    """Whatever a model writes, there is an opinion that can be stored or a sentence."""
    said = read(text)
    if isinstance(said, Said):
        said.reasoning.encode()
        assert set(said.leaned_on) <= set(EXHIBITS)
        assert said.confidence is None or 0 <= said.confidence <= 1
    else:
        said.encode()
        assert said.startswith("the answer")


@given(st.text(max_size=20), st.sampled_from(list(Label)))
def test_the_verdict_that_ends_the_text_is_read(before: str, label: Label) -> None:
    """Prose and quoted verdicts in front never change what is read, as long as no JSON is open."""
    said = read(f"{before}\n{COMPLETED}\n{AGENT_ERROR}\n" + json.dumps({"label": label}))
    assert said == Said(label)
