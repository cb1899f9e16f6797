"""Prompt files, bundled and of users."""

import re
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.scenarios.checks import Check
from rehearsal_room.scenarios.errors import SynthesisError
from rehearsal_room.scenarios.synth.core.answer_parsing import code_of, json_of
from rehearsal_room.scenarios.synth.core.code_rules import (
    TOOL_IMPORTS,
    code_faults,
    verifier_faults,
)
from rehearsal_room.scenarios.synth.core.prompt_files import NAMES, Prompts
from rehearsal_room.scenarios.synth.core.protocols import PromptMessage


def test_prompts_are_overridden_file_by_file(tmp_path: Path) -> None:
    """A prompt that the folder does not have is the bundled one; each has a version and digest."""
    (tmp_path / "feedback.md").write_text("version: mine-2\n--- user\nNo: {{problems}}")
    prompts = Prompts(tmp_path)
    values = {"problems": "{{name}} is bad"}
    assert prompts.messages("feedback", **values) == (PromptMessage("user", "No: {{name}} is bad"),)
    assert prompts.version("feedback").startswith("mine-2 (")
    assert prompts.version("schema") == Prompts().version("schema")


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("feedback.md", "--- user\nx", "expected a first line such as `version: 1`"),
        ("feedback.md", "version: 1\nx\n--- user\ny", "expected `--- system` and `--- user`"),
        ("feedback.md", "version: 1\n--- user\n{{tables}}", "{{tables}} is not known here"),
        (
            *("feedbak.md", "version: 1\n--- user\nx"),
            "no stage has a prompt of this name; did you mean 'feedback'?",
        ),
        ("x.md", "version: 1\n--- user\nx", "no stage has a prompt of this name; known: "),
    ],
)
def test_an_unusable_prompt_is_refused(tmp_path: Path, name: str, text: str, fault: str) -> None:
    """The error names the file."""
    (tmp_path / name).write_text(text)
    with pytest.raises(SynthesisError) as caught:
        Prompts(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / name}: {fault}")


def test_each_bundled_prompt_names_its_stage() -> None:
    """The first prompt of a stage begins with the stage's name."""
    prompts = Prompts()
    for name in set(NAMES) - {"feedback", "prove", "repair"}:
        values = dict.fromkeys(prompts._prompts[name].fields, "x")
        messages = prompts.messages(name, **values)
        assert [message.role for message in messages] == ["system", "user"]
        assert messages[0].text.startswith(f"Stage: {name}.")


def _shown(name: str) -> str:
    """The first message of a prompt, every field with the same word."""
    prompts = Prompts()
    return prompts.messages(name, **dict.fromkeys(prompts._prompts[name].fields, "x"))[0].text


def test_examples_in_prompts_would_be_accepted() -> None:
    """A model that copies their form makes no fault: code, verifier, and the checks by name."""
    assert code_faults(code_of(_shown("code")), TOOL_IMPORTS) == []
    verify = _shown("verify")
    assert verifier_faults(code_of(verify), "cancel_duplicate") == []
    methods = set(re.findall(r"check\.(\w+)\(", verify)) - {"findings"}
    assert methods <= set(dir(Check))
    assert {"allow", "updated", "declined", "goal", "nothing_else"} <= methods


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("tasks", ["user", "functions", "policy", "tasks"]),
        ("schema", ["tables"]),
        ("tools", ["tools"]),
    ],
)
def test_forms_of_answers_in_prompts_are_json(name: str, keys: list[str]) -> None:
    """With the keys that the stage reads."""
    assert list(json_of(_shown(name), dict[str, Any])) == keys
