"""Tasks that are left out by name."""

from pathlib import Path

import pytest

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.plan import select_tasks
from rehearsal_room.harness.setup.exclusions import expanded, without
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY


def test_tasks_are_left_out_by_any_of_their_names() -> None:
    """A task's id, the world with it, and an id in a benchmark's own form (capitals, dashes) leave
    out that task and no other."""
    tasks = select_tasks([str(LIBRARY)])
    (scenario, first), *_ = tasks
    for name in (first.id, f"{scenario.name}:{first.id}", first.id.upper().replace("-", ".")):
        assert without(tasks, [name]) == tasks[1:]
    assert without(tasks, []) == tasks


def test_a_name_that_no_task_has() -> None:
    """It is refused, with the name that is nearest."""
    tasks = select_tasks([str(LIBRARY)])
    name = tasks[0][1].id
    with pytest.raises(SettingsError, match=f"called '{name}x' .did you mean '{name}'"):
        without(tasks, [f"{name}x"])


def test_a_file_of_names(tmp_path: Path, rehearse: Rehearse) -> None:
    """A file has one name in each line, and remarks. A run is saved with the names, so that it can
    be resumed without the file."""
    tasks = [task.id for _, task in select_tasks([str(LIBRARY)])]
    file = tmp_path / "wrong.txt"
    file.write_text(f"# known to be wrong\n\n{tasks[0]}\n")
    assert expanded([str(file), tasks[1]]) == (tasks[0], tasks[1])
    folder = tmp_path / "run"
    assert rehearse("run", LIBRARY, "--exclude", file, "-o", folder)[0] == 0
    file.unlink()
    status, out, err = rehearse("run", "-o", folder, "--resume")
    assert status == 0, err
    assert f"{len(tasks) - 1} episodes" in out
