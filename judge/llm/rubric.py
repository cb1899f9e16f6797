"""The rubric: what a judge that is a model is told to do.

A rubric is a TOML file with five texts and the meaning of each of the four labels; ours is
judge/rubrics/awm.toml, which a rubric of one's own may start from. How exhibits are marked is no
matter of the rubric but of what renders them (see judge.llm.prompt).
"""

import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from harness.core.events import Label
from judge.core.errors import JudgeError
from judge.llm.response import SCHEMA
from scenarios.files import load_toml

OURS = Path(__file__).parent / "rubrics" / "awm.toml"
# Of what judge.llm.prompt and judge.llm.quoting make of a case: whoever changes a byte of it
# raises this number, so that verdicts on other texts are not taken for verdicts on these.
RENDERING = 1
# AWM's: the first label that fits is the one.
PRIORITY = (
    Label.COMPLETED,
    Label.ENVIRONMENT_ERROR,
    Label.AGENT_ERROR,
    Label.PARTIALLY_COMPLETED,
)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")

Mode = Literal["llm", "hybrid"]


class Meanings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When each label fits, in words."""

    completed: str
    environment_error: str
    agent_error: str
    partially_completed: str


class Rubric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model is told, in parts."""

    name: str  # letters, digits and _
    role: str  # who it is and what it is for
    llm: str  # what it sees where it sees the trajectory only
    hybrid: str  # what it sees where code has found something, and what that means
    rules: str  # how to decide, and what not to do
    answer: str  # the form of the answer
    labels: Meanings

    @property
    def version(self) -> str:
        """The name and 8 hexadecimal digits that change with any text that a model is told: the
        rubric's, the answer's schema and the way in which cases are rendered."""
        parts = (msgspec.to_builtins(self), SCHEMA, RENDERING)
        digest = blake2b(msgspec.json.encode(parts, order="deterministic"), digest_size=4)
        return f"{self.name}-{digest.hexdigest()}"

    def told(self, mode: Mode) -> str:
        """What a model is told in a mode, Markdown, without how exhibits are marked."""
        meanings = [
            f"{number}. `{label}`: {getattr(self.labels, label).strip()}"
            for number, label in enumerate(PRIORITY, 1)
        ]
        return "\n\n".join(
            (
                self.role.strip(),
                (self.llm if mode == "llm" else self.hybrid).strip(),
                "# Labels\n\nIn order of priority; the first that fits is the label.\n\n"
                + "\n".join(meanings),
                f"# Rules\n\n{self.rules.strip()}",
                f"# Answer\n\n{self.answer.strip()}",
            )
        )


def read_rubric(path: Path | None = None) -> Rubric:
    """The rubric of a file; None: ours. Raises JudgeError with a sentence that names the file and
    the field."""
    path = path or OURS
    rubric = load_toml(path, Rubric, error=lambda fault: JudgeError(f"rubric {fault}"))
    if not _NAME.fullmatch(rubric.name):
        raise JudgeError(
            f"rubric {path}: name: {rubric.name!r} is not a name such as 'awm': small letters,"
            " digits and _, at most 32"
        )
    for field, text in _texts(rubric):
        if not text.strip():
            raise JudgeError(f"rubric {path}: {field}: expected a text, found none")
    return rubric


def rubric_text() -> str:
    """Our rubric's file, to start one's own from."""
    return OURS.read_text(encoding="utf-8")


def _texts(rubric: Rubric) -> Iterator[tuple[str, str]]:
    for field in ("role", "llm", "hybrid", "rules", "answer"):
        yield field, getattr(rubric, field)
    for label in PRIORITY:
        yield f"labels.{label}", getattr(rubric.labels, label)
