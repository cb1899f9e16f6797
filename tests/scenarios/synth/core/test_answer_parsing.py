"""Reading JSON and code out of answers."""

import msgspec
import pytest

from rehearsal_room.scenarios.synth.core.answer_parsing import UnreadableAnswer, code_of, json_of


class Score(msgspec.Struct):
    score: int


@pytest.mark.parametrize(
    "answer",
    [
        '{"score": 8}',
        'Sure!\n```json\n{"score": 8}\n```\nAnything else?',
        '~~~\n{"score": "8",}\n~~~',
        'I think {"score": 8} fits.',
        '{"result": {"score": 8}}',
        "{'score': 8, 'note': None}",
        '<think>{"score": 1}</think>{"score": 8}',
        'thinking aloud</think>\n{"score": 8}',
        '```json\n{"score": 8, "note": "two\nlines"}\n```',
        '```json\n{"score": 8}',
        "<think>{}</think> so <think>{}</think>\n" + '{"score": 8}',
        '{"score": 8, "note": "\\ud83d"}',
    ],
)
def test_json_is_found_with_any_text_around_it(answer: str) -> None:
    """Bare, in a code block, wrapped, as a Python literal, after thoughts, in an open block."""
    assert json_of(answer, Score) == Score(8)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("I would rather not.", "there is no JSON in the answer"),
        ("", "there is no JSON in the answer"),
        ('{"score": "high"}', "score: expected `int`, got `str`"),
        ('{"points": 3}', "object missing required field `score`"),
        ("[" * 100_000, "there is no JSON in the answer"),
        ("<think>" * 100_000, "there is no JSON in the answer"),
        ("{'score': 1j}", "there is no JSON in the answer"),
    ],
)
def test_an_answer_without_valid_json_is_refused(answer: str, fault: str) -> None:
    """The error names the wrong field of the most likely candidate."""
    with pytest.raises(UnreadableAnswer) as caught:
        json_of(answer, Score)
    assert str(caught.value) == fault


@pytest.mark.parametrize(
    "answer",
    [
        "```python\nx = 1\n```",
        "First `y`:\n```\ny\n```\nthen\n```py\nx = 1\n```\n",
        '{"code": "x = 1"}',
        '```json\n{"full_code": "x = 1"}\n```',
    ],
)
def test_code_is_found_in_code_blocks_and_fields(answer: str) -> None:
    """The longest code block of Python is used."""
    assert code_of(answer) == "x = 1\n"


def test_halves_of_surrogate_pairs_are_replaced() -> None:
    """Neither a file nor a request can contain half of a surrogate pair."""
    assert json_of('{"a": ["\\ud83d!"]}', dict[str, list[str]]) == {"a": ["?!"]}
    assert json_of("{'a': ['\\ud83d!']}", dict[str, list[str]]) == {"a": ["?!"]}


def test_an_answer_without_code_is_refused() -> None:
    """Prose is not code."""
    with pytest.raises(UnreadableAnswer, match="there is no Python"):
        code_of("I cannot write that.")
    assert code_of("import re\n\nx = re") == "import re\n\nx = re\n"
