"""The entries of AgentDojo. The package itself is played by `just parity agentdojo`."""

from pathlib import Path

import pytest

from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Task
from rehearsal_room.scenarios.suites.agentdojo import (
    ATTACKS,
    CATEGORIES,
    GOALS,
    SUITES,
    USUAL,
    digest_of,
    is_attack,
    require_release,
)
from rehearsal_room.scenarios.suites.catalogue import suite
from rehearsal_room.scenarios.suites.entries import entry_scenario
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags


def test_every_suite_has_every_attack() -> None:
    """16 attacks that need nobody, on four suites; what is played by default is a part."""
    assert (len(ATTACKS), len(CATEGORIES)) == (16, 4 + 4 + 64)
    assert set(USUAL) <= set(CATEGORIES)
    assert [one for one in CATEGORIES if not is_attack(one)] == [*SUITES, *GOALS]


@pytest.mark.parametrize(
    ("version", "sentence"),
    [("0.1.34", "is 0.1.34"), ("0.1.35", "has other code or data"), ("1.0", "is 1.0")],
)
def test_another_release_and_changed_code_are_refused(
    tmp_path: Path, version: str, sentence: str
) -> None:
    """Scores belong to the tasks, attacks and checks of one release."""
    (tmp_path / "task_suite.py").write_text("# other checks")
    with pytest.raises(PackageError, match=f"this agentdojo {sentence}, and its scores would not"):
        require_release(tmp_path, version)


def test_code_and_data_are_in_the_digest(tmp_path: Path) -> None:
    """A change of a check, of an environment or of a name is another digest."""
    (tmp_path / "data").mkdir()
    file, data = tmp_path / "tasks.py", tmp_path / "data" / "environment.yaml"
    file.write_text("a")
    data.write_text("b")
    found = {digest_of(tmp_path)}
    data.write_text("c")
    found.add(digest_of(tmp_path))
    file.rename(tmp_path / "others.py")
    found.add(digest_of(tmp_path))
    (tmp_path / "compiled.pyc").write_text("no part of it")
    assert found == {*found, digest_of(tmp_path)}
    assert len(found) == 3


def test_a_folder_is_no_interpreter() -> None:
    """The package runs where it is installed, so its folder alone is refused."""
    with pytest.raises(PackageError, match="--suite-python"):
        suite("agentdojo").open(SuiteFlags(folder="somewhere"))


def test_the_number_of_attempts_is_a_part_of_an_entry() -> None:
    """Entries that are asked once have the digest that they had before there were attempts."""
    task = Task(id="a", instruction="Go.", difficulty="unrated", kind="open", answer="")
    once, thrice = (
        entry_scenario(
            SuiteRecord("s", "1", "c", {}, attempts=number), task, title="a", path=Path("f")
        )
        for number in (1, 3)
    )
    assert once.digest == "bffb247cb63a8c9f7ce96fc5a81ffaa4"
    assert thrice.digest != once.digest
