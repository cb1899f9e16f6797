"""Output folders of the generator: new, killed, finished, extended, refused."""

import shutil
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.authoring.generate import generate_worlds
from rehearsal_room.scenarios.format import FILES, read
from rehearsal_room.scenarios.generate.core.errors import GenerateError
from rehearsal_room.scenarios.generate.output_folder import (
    MANIFEST,
    GenerationOrder,
    lock_folder,
    read_manifest,
    write_world,
)
from rehearsal_room.scenarios.generate.plan.knobs import Knobs

ORDER = GenerationOrder(
    seed=3, knobs=Knobs(tables=12, tasks=2), trades=("outdoor_shop",), modules=("orders",)
)


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_folder_has_packages_and_a_manifest(tmp_path: Path) -> None:
    """Each world is a package; the manifest has its plan, digest and measures."""
    made = generate_worlds(ORDER, 3, tmp_path / "worlds")
    names = [f"outdoor_shop_{number:04d}" for number in (1, 2, 3)]
    assert (made.num_kept, made.faults) == (0, ())
    manifest = read_manifest(tmp_path / "worlds")
    assert manifest == made.manifest
    assert manifest.order == ORDER
    assert list(manifest.worlds) == names
    for name in names:
        scenario = read(tmp_path / "worlds" / name)
        record = manifest.worlds[name]
        assert scenario.name == name
        assert [task.id for task in scenario.tasks] == [task.task for task in record.tasks]


@pytest.mark.slow
def test_two_processes_make_the_same_worlds(tmp_path: Path) -> None:
    """The bytes do not depend on the number of processes; progress is reported for each world."""
    generate_worlds(ORDER, 6, tmp_path / "one")
    reported: list[tuple[int, int]] = []
    generate_worlds(
        ORDER,
        6,
        tmp_path / "two",
        jobs=2,
        report_progress=lambda done, total: reported.append((done, total)),
    )
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert reported == [(done, 6) for done in range(7)]


@pytest.mark.slow
def test_a_rerun_makes_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed run leaves complete worlds only; a rerun makes the others, and those that were
    edited or are incomplete."""
    generate_worlds(ORDER, 4, tmp_path / "whole")
    folder = tmp_path / "killed"
    left = [3]

    def dying(*arguments: object) -> object:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return write_world(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("rehearsal_room.authoring.generate.write_world", dying)
    with pytest.raises(KeyboardInterrupt):
        generate_worlds(ORDER, 4, folder)
    monkeypatch.undo()
    assert len(list(folder.glob("outdoor_shop_*"))) == 2
    shutil.copytree(tmp_path / "whole" / "outdoor_shop_0003", folder / ".outdoor_shop_0003.part")
    (folder / "outdoor_shop_0002" / "verify.py").write_text("x = 1\n")
    (folder / "outdoor_shop_0001" / "tasks.toml").unlink()
    assert generate_worlds(ORDER, 4, folder).num_kept == 0
    assert content(folder) == content(tmp_path / "whole")
    assert generate_worlds(ORDER, 4, folder).num_kept == 4


def test_an_order_can_be_extended(tmp_path: Path) -> None:
    """More worlds of the same order leave the existing ones unchanged."""
    generate_worlds(ORDER, 2, tmp_path / "worlds")
    assert generate_worlds(ORDER, 3, tmp_path / "worlds").num_kept == 2


def test_two_orders_do_not_share_a_folder(tmp_path: Path) -> None:
    """A folder of another order is refused with the setting that differs."""
    folder = tmp_path / "worlds"
    generate_worlds(ORDER, 1, folder)
    before = content(folder)
    with pytest.raises(GenerateError) as caught:
        generate_worlds(msgspec.structs.replace(ORDER, seed=4), 1, folder)
    assert str(caught.value) == (
        f"{folder}: its worlds were made with seed 3, not 4; choose another folder"
    )
    assert content(folder) == before


def test_other_folders_are_left_unchanged(tmp_path: Path) -> None:
    """A folder with other files, and an invalid manifest, are refused."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "letter.txt").write_text("Dear all")
    with pytest.raises(GenerateError) as caught:
        generate_worlds(ORDER, 1, folder)
    fault = f"{folder}: it is not empty and has no {MANIFEST}; choose another folder"
    assert str(caught.value) == fault
    (folder / MANIFEST).write_text("{")
    with pytest.raises(GenerateError, match="not a manifest of generated worlds"):
        generate_worlds(ORDER, 1, folder)
    assert sorted(content(folder)) == [MANIFEST, "letter.txt"]


def test_every_file_of_a_package_is_written(tmp_path: Path) -> None:
    """A world's folder has the seven files of the format and the world's own record."""
    generate_worlds(ORDER, 1, tmp_path)
    files = {path.name for path in (tmp_path / "outdoor_shop_0001").iterdir()}
    assert files == {*FILES, MANIFEST}


def test_partial_files_of_a_killed_run_do_not_stop_a_rerun(tmp_path: Path) -> None:
    """A half-written manifest, the first one or a later one, is removed."""
    for name in ("first", "later"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "later":
            generate_worlds(ORDER, 1, folder)
        (folder / f".{MANIFEST}.part").write_text("{")
        assert generate_worlds(ORDER, 1, folder).num_kept == (1 if name == "later" else 0)
        assert {path.name for path in folder.iterdir()} == {MANIFEST, "outdoor_shop_0001"}


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    """While one process makes worlds in a folder, a second one is refused."""
    with lock_folder(tmp_path, ORDER), pytest.raises(GenerateError) as caught:
        generate_worlds(ORDER, 1, tmp_path)
    assert str(caught.value) == f"{tmp_path}: another process is making worlds there"


def test_a_path_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    """A file of the folder's name, or of its parent's name, is refused with a sentence."""
    (tmp_path / "file").write_text("")
    for folder, fault in (
        (tmp_path / "file", "it is not a folder; choose another one"),
        (tmp_path / "file" / "worlds", "the folder cannot be used: "),
    ):
        with pytest.raises(GenerateError) as caught:
            generate_worlds(ORDER, 1, folder)
        assert str(caught.value).startswith(f"{folder}: {fault}")
