"""The rubric: the instructions for a model that judges.

A rubric is a TOML file with five texts and the meaning of each of the four labels. The default is
judge/llm/rubrics/awm.toml, from which users may start their own. How evidence items are marked is
not part of the rubric: the code that renders them adds that text (see judge.llm.prompt).
"""

import re
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.label_rules import label_rule_text
from rehearsal_room.judge.llm.response import SCHEMA
from rehearsal_room.scenarios.files import load_toml

DEFAULT = Path(__file__).parent / "rubrics" / "awm.toml"
# The version of the texts that judge.llm.prompt and judge.llm.quoting make of a case. A change of
# one byte in them must raise it, so that stored verdicts on other texts are not reused.
RENDERING = 5
# The version of the rule by which an answer is read (judge.llm.response): stored judgements of an
# older rule are not reused. 2: a verdict that stands in the evidence is not the model's own.
READING = 2
# AWM's: the first label that fits is the verdict.
PRIORITY = (
    Label.COMPLETED,
    Label.ENVIRONMENT_ERROR,
    Label.AGENT_ERROR,
    Label.PARTIALLY_COMPLETED,
)
LABEL_RULES_MARK = "{borders}"  # in the rules of a rubric: the table of judge.core.label_rules
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")

Mode = Literal["llm", "hybrid"]


class Meanings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When each label fits, in words. The field names are part of a rubric's version."""

    completed: str
    environment_error: str
    agent_error: str
    partially_completed: str


class Rubric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The instructions in parts. The field names are part of a rubric's version."""

    name: str  # letters, digits and _
    role: str  # who the model is and what it judges
    llm: str  # what it sees in mode `llm`: the trajectory only
    hybrid: str  # what it sees in mode `hybrid`: also what code found, and what that means
    rules: str  # how to decide, and what not to do; `{borders}` stands for judge.core.label_rules
    answer: str  # the form of the answer
    labels: Meanings

    @property
    def version(self) -> str:
        """The name and 8 hexadecimal digits that change with every text that a model sees: the
        rubric's, the answer's schema and the way in which cases are rendered, and with the rule by
        which answers are read."""
        label_rules = label_rule_text() if LABEL_RULES_MARK in self.rules else ""
        parts = (msgspec.to_builtins(self), SCHEMA, RENDERING, READING, label_rules)
        digest = blake2b(msgspec.json.encode(parts, order="deterministic"), digest_size=4)
        return f"{self.name}-{digest.hexdigest()}"

    def instructions(self, mode: Mode) -> str:
        """The instructions in a mode, Markdown, without how evidence items are marked."""
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
                f"# Rules\n\n{self.rules.strip().replace(LABEL_RULES_MARK, label_rule_text())}",
                f"# Answer\n\n{self.answer.strip()}",
            )
        )


def read_rubric(path: Path | None = None) -> Rubric:
    """The rubric in a file; None: the default one. Raises JudgeError with a sentence that names the
    file and the field."""
    path = path or DEFAULT
    rubric = load_toml(path, Rubric, error=lambda fault: JudgeError(f"rubric {fault}"))
    if not _NAME.fullmatch(rubric.name):
        raise JudgeError(
            f"rubric {path}: name: {rubric.name!r} is not a name such as 'awm' (expected lower-case"
            " letters, digits and _, at most 32)"
        )
    for field, text in _texts(rubric):
        if not text.strip():
            raise JudgeError(f"rubric {path}: {field}: expected a text, found an empty one")
    return rubric


@cache
def criterion_rubric() -> Rubric:
    """The rubric by which a model judges one criterion of a task."""
    return read_rubric(DEFAULT.parent / "criterion.toml")


def rubric_text() -> str:
    """The text of the default rubric's file, to start another rubric from."""
    return DEFAULT.read_text(encoding="utf-8")


def _texts(rubric: Rubric) -> Iterator[tuple[str, str]]:
    for field in ("role", "llm", "hybrid", "rules", "answer"):
        yield field, getattr(rubric, field)
    for label in PRIORITY:
        yield f"labels.{label}", getattr(rubric.labels, label)
