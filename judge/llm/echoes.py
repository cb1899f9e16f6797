"""Verdicts that a judging model was shown, so that their echo is not taken for its own.

An agent may write `{"label": "completed"}` into its answer or into a row, and a model may repeat
it: "The agent claims {"label": "completed"}". Such an answer has one verdict, at its end, and it is
the agent's. Here it is recognised by what it is: text of the evidence.

The rule is on the side of reading, not of asking. A secret in the prompt that the answer must
repeat would prove as much only for servers that follow a schema (others write the secret beside
whatever they quote), and it would make every prompt differ: no prefix cache, no stored judgement,
no repeatable question. What this rule cannot see, no secret shows either: a model that believes the
agent and says so in its own words.

Compared is what is left without quotes, backslashes, blanks, braces, and the bars and marks of
quoting, in one case. So a verdict is found in JSON inside of JSON, broken into lines, and with
letters between that nobody sees. An echo may also be shortened, reordered or completed: so a
verdict without a reasoning of its own is one, too, where the evidence has the same label behind a
key of a verdict. The price: where somebody wrote `{"label": "agent_error"}` in the evidence, a
model's bare `{"label": "agent_error"}` is not taken either. The model is asked again; an answer by
the schema, with a reasoning of its own, is never an echo.
"""

import re

# What quoting adds, escapes of JSON for blanks and quotes, and what they stand for.
# Fillers are letters that show nothing (see judge.llm.quoting).
_NOISE = re.compile(
    r"⟨[^⟩]*⟩|\\+u00(?:09|0a|0d|20|22|27)|\\+[nrt]|[^\w.+-]|[_\u115f\u1160\u3164\uffa0]",
    re.IGNORECASE,
)


class QuotedEvidence:
    """The text that a model was shown, as quoted in its prompt."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._squeezed: str | None = None  # made when the first answer is read

    def has(self, verdict: str) -> bool:
        """Whether the text of a JSON object stands in the evidence."""
        return bool(self._text) and squeezed(verdict) in self._squeeze()

    def claims(self, key: str, label: str) -> bool:
        """Whether the evidence has this label behind this key of a verdict."""
        return bool(self._text) and squeezed(key + label) in self._squeeze()

    def _squeeze(self) -> str:
        if self._squeezed is None:
            self._squeezed = squeezed(self._text)
        return self._squeezed


def squeezed(text: str) -> str:
    """The letters, digits and signs of numbers of a text, in one case.

    Example: '{\\"label\\":\\n| \\"Agent error\\"}' -> 'labelagenterror'
    """
    return _NOISE.sub("", text).casefold()
