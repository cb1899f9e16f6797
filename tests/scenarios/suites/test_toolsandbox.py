"""ToolSandbox: checkouts that are refused, and the mean over what was played."""

import shutil
from pathlib import Path

import pytest

from rehearsal_room.judge.suites.scores import sandbox_groups
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.suites import toolsandbox
from rehearsal_room.scenarios.suites.toolsandbox import VARIANTS, ToolSandboxData


def test_a_folder_that_is_no_checkout_of_this_version_is_refused(tmp_path: Path) -> None:
    """No folder, an empty one, and other code get one sentence each."""
    with pytest.raises(PackageError, match="clone https://github"):
        ToolSandboxData("", "")
    with pytest.raises(PackageError, match="no checkout of ToolSandbox"):
        ToolSandboxData(str(tmp_path), "")
    (tmp_path / "tool_sandbox").mkdir()
    (tmp_path / "tool_sandbox" / "cli.py").write_text("print()")
    with pytest.raises(PackageError, match=r"other code or data.* those of 0\.0\.1"):
        ToolSandboxData(str(tmp_path), "")


def test_an_interpreter_that_lists_nothing_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program than Python may succeed and list nothing."""
    (tmp_path / "tool_sandbox").mkdir()
    monkeypatch.setattr(toolsandbox, "_DIGEST", toolsandbox.digest_of(tmp_path / "tool_sandbox"))
    with pytest.raises(
        PackageError, match=r"/true does not list ToolSandbox's scenarios: it needs"
    ):
        ToolSandboxData(str(tmp_path), shutil.which("true") or "").scenarios(VARIANTS[0])


def test_scenarios_with_a_paid_service_are_counted_apart() -> None:
    """Each scenario counts once in upstream's mean, and those that need a service in one of their
    own."""
    scores = {"no_distraction_tools": 0.5, "service_no_distraction_tools": 0.25}
    sizes = {"no_distraction_tools": 3, "service_no_distraction_tools": 1}
    assert sandbox_groups(scores, sizes) == {
        "all_categories": 0.4375,
        "without a paid service": 0.5,
        "with a paid service": 0.25,
    }
