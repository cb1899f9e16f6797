"""Folders of worlds: begun, killed, finished, extended, refused."""

import shutil
from pathlib import Path

import msgspec
import pytest

from judge.worlds.generate import generate_worlds
from scenarios.format import FILES, read
from scenarios.generate.core.errors import GenerateError
from scenarios.generate.output_folder import (
    MANIFEST,
    GenerationOrder,
    lock_folder,
    read_manifest,
    write_world,
)
from scenarios.generate.plan.knobs import Knobs

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


def test_a_folder_holds_packages_and_says_how_they_came_about(tmp_path: Path) -> None:
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


def test_two_processes_make_the_same(tmp_path: Path) -> None:
    """However many processes make them, the bytes are the same."""
    generate_worlds(ORDER, 6, tmp_path / "one")
    heard: list[tuple[int, int]] = []
    generate_worlds(
        ORDER, 6, tmp_path / "two", jobs=2, told=lambda done, total: heard.append((done, total))
    )
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert heard == [(done, 6) for done in range(7)]


def test_a_rerun_makes_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends in the midst leaves whole worlds only; a rerun makes the others, and mends
    what was altered or is half there."""
    generate_worlds(ORDER, 4, tmp_path / "whole")
    folder = tmp_path / "killed"
    left = [3]

    def dying(*arguments: object) -> object:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return write_world(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("judge.worlds.generate.write_world", dying)
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
    """More worlds of the same order keep those that are there."""
    generate_worlds(ORDER, 2, tmp_path / "worlds")
    assert generate_worlds(ORDER, 3, tmp_path / "worlds").num_kept == 2


def test_two_orders_do_not_share_a_folder(tmp_path: Path) -> None:
    """A folder of another order is refused, and says what is different."""
    folder = tmp_path / "worlds"
    generate_worlds(ORDER, 1, folder)
    before = content(folder)
    with pytest.raises(GenerateError) as caught:
        generate_worlds(msgspec.structs.replace(ORDER, seed=4), 1, folder)
    assert str(caught.value) == (
        f"{folder}: its worlds were made with seed 3, not 4; take another folder"
    )
    assert content(folder) == before


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    """A folder with something else in it, and a manifest that is none, are refused."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "letter.txt").write_text("Dear all")
    with pytest.raises(GenerateError) as caught:
        generate_worlds(ORDER, 1, folder)
    fault = f"{folder}: it is there and has no {MANIFEST}; take another folder"
    assert str(caught.value) == fault
    (folder / MANIFEST).write_text("{")
    with pytest.raises(GenerateError, match="not a manifest of generated worlds"):
        generate_worlds(ORDER, 1, folder)
    assert sorted(content(folder)) == [MANIFEST, "letter.txt"]


def test_every_file_of_a_package_is_written(tmp_path: Path) -> None:
    """The seven files of the format and the world's own record."""
    generate_worlds(ORDER, 1, tmp_path)
    there = {path.name for path in (tmp_path / "outdoor_shop_0001").iterdir()}
    assert there == {*FILES, MANIFEST}


def test_what_a_killed_run_was_writing_is_no_hindrance(tmp_path: Path) -> None:
    """A manifest that was half written, the first one or a later one, does not stop a rerun."""
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
    assert str(caught.value) == f"{tmp_path}: another process makes worlds there"


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    """A file in the folder's place, or above it, is refused in a sentence."""
    (tmp_path / "file").write_text("")
    for folder, fault in (
        (tmp_path / "file", "it is no folder; take another one"),
        (tmp_path / "file" / "worlds", "the folder cannot be used: "),
    ):
        with pytest.raises(GenerateError) as caught:
            generate_worlds(ORDER, 1, folder)
        assert str(caught.value).startswith(f"{folder}: {fault}")
