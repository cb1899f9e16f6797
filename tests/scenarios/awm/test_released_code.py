"""Prompts of the released code, read from a checkout of it."""

from pathlib import Path

import pytest

from rehearsal_room.scenarios.awm.released_code import ReleasedPrompts, released_prompts
from rehearsal_room.scenarios.errors import PackageError
from tests.support.released_code import AGENT_PROMPT, JUDGE_PROMPT, write_released_code


def test_the_texts_are_what_python_makes_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both prompts, byte for byte, with what `dedent` makes of a text inside of another one; none
    of the code is executed."""
    folder = write_released_code(tmp_path, monkeypatch)

    assert released_prompts(folder) == ReleasedPrompts(AGENT_PROMPT, JUDGE_PROMPT)


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was changed, and a folder that has none, are named in one sentence."""
    folder = write_released_code(tmp_path, monkeypatch)
    file = folder / "awm" / "core" / "verify.py"
    file.write_text(file.read_text() + "\n")

    with pytest.raises(PackageError, match=r"verify\.py: the file is not that of version 91a9578"):
        released_prompts(folder)
    with pytest.raises(PackageError, match=r"agent\.py: cannot be read \(No such file"):
        released_prompts(tmp_path / "elsewhere")
