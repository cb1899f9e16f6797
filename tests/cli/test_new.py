"""`rehearse new world`: a package that passes the gate as it is."""

from pathlib import Path

import pytest

from rehearsal_room.scenarios.format import read
from rehearsal_room.scenarios.scaffold import new_world
from rehearsal_room.scenarios.scaffold.new_world import TEMPLATE
from tests.support.cli import Rehearse, json_of


@pytest.mark.slow
def test_a_new_world_passes_the_gate(rehearse: Rehearse, tmp_path: Path) -> None:
    """Without a change: no failure, no survivor, no tool that no task uses."""
    status, out, err = rehearse("new", "world", "vet_clinic", "-o", tmp_path / "mine")
    folder = tmp_path / "mine" / "vet_clinic"
    assert (status, err) == (0, "")
    assert f"rehearse worlds check {folder}" in out
    gate = json_of(rehearse, "worlds", "check", folder)
    assert (gate["names"], gate["tasks"], gate["tools"]) == (["vet_clinic"], 3, 4)
    assert gate["near_misses"] == 4
    for faults in ("failures", "survivors", "unused", "unreached"):
        assert gate[faults] == []
    assert gate["mutants"] == gate["mutants_caught"] > 20


def test_its_files_are_those_of_the_template_under_its_name(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """Nothing is left of the template's own name, and the README's commands name the package."""
    assert rehearse("new", "world", "hotel", "-o", tmp_path)[0] == 0
    folder = tmp_path / "hotel"
    names = {path.name for path in TEMPLATE.iterdir() if path.is_file()}
    assert {path.name for path in folder.iterdir()} == names
    assert not [path for path in folder.iterdir() if "my_world" in path.read_text()]
    assert "rehearse scenarios check ./hotel" in (folder / "README.md").read_text()
    assert read(folder).name == "hotel"
    assert list(tmp_path.iterdir()) == [folder]


def test_a_world_in_the_worlds_folder_is_found_by_its_name(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without -o it is made where `scenarios list` and `run` look."""
    monkeypatch.setenv("REHEARSE_WORLDS", str(tmp_path / "worlds"))
    assert rehearse("new", "world", "hotel")[0] == 0
    found = json_of(rehearse, "run", "hotel", "-p", "oracle", "-o", tmp_path / "run")
    assert found["pass_rate"] == 1.0


@pytest.mark.parametrize("name", ["", "Hotel", "my-hotel", "9lives", "../x", "a/b", "x" * 65, "ü"])
def test_a_bad_name_is_one_sentence(rehearse: Rehearse, tmp_path: Path, name: str) -> None:
    """With what a name looks like; nothing is written."""
    status, out, err = rehearse("new", "world", "-o", tmp_path, "--", name)
    assert (status, out) == (2, "")
    assert err == (
        f"error: new world: {name!r} is not a name of a world; expected lower-case letters, digits "
        "and _, a letter first, at most 64 characters, for example animal_clinic\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_kept(rehearse: Rehearse, tmp_path: Path) -> None:
    """An existing folder, file or link is not touched, and a bundled name is refused."""
    (tmp_path / "hotel").write_text("mine")
    (tmp_path / "inn").symlink_to("nowhere")
    for name in ("hotel", "inn"):
        status, _, err = rehearse("new", "world", name, "-o", tmp_path)
        assert status == 2
        assert err == (
            f"error: new world: {tmp_path / name} exists already; choose another name or folder\n"
        )
    status, _, err = rehearse("new", "world", "shop_support", "-o", tmp_path)
    assert (status, err.count("\n")) == (2, 1)
    assert "'shop_support' is the name of a bundled world" in err
    assert (tmp_path / "hotel").read_text() == "mine"


def test_a_folder_that_cannot_be_written(rehearse: Rehearse, tmp_path: Path) -> None:
    """The path and the system's reason, in one sentence."""
    (tmp_path / "file").write_text("")
    status, _, err = rehearse("new", "world", "hotel", "-o", tmp_path / "file")
    assert status == 2
    assert err.startswith(f"error: new world: {tmp_path / 'file' / 'hotel'} cannot be written: ")


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package is there whole or not at all."""

    def fail(source: object, target: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(new_world.shutil, "move", fail)
    with pytest.raises(new_world.PackageError, match="the disk is full"):
        new_world.write_world("hotel", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_new_agent_plays(rehearse: Rehearse, tmp_path: Path) -> None:
    """Without a change it carries each call and result between the openai package and a world; so
    with the task's solution in the model's place every episode is completed, dialogues too."""
    status, out, _ = rehearse("new", "agent", "refund_bot", "-o", tmp_path)
    folder = tmp_path / "refund_bot"
    assert (status, f"{folder / 'agent.py'}:agent" in out) == (0, True)
    assert not [path for path in folder.iterdir() if "my_agent" in path.read_text()]
    words = ("-p", "oracle", "--agent", f"{folder / 'agent.py'}:agent", "-o", tmp_path / "run")
    status, out, err = rehearse("run", "shop_support", "-n", 4, "--dialogue", *words)
    assert "pass rate 1.000" in out, out + err


@pytest.mark.parametrize("name", ["Bad-Name", "refund_bot"])
def test_an_agent_that_cannot_be_made(name: str, rehearse: Rehearse, tmp_path: Path) -> None:
    """A name of another form, and a folder that is there: one sentence, and nothing is written."""
    (tmp_path / "refund_bot").mkdir()
    status, _, err = rehearse("new", "agent", name, "-o", tmp_path)
    assert (status, err.count("error: new agent: ")) == (2, 1)
    assert list((tmp_path / "refund_bot").iterdir()) == []


def test_a_package_that_windows_wrote_is_the_same(rehearse: Rehearse, tmp_path: Path) -> None:
    """A byte order mark and Windows line ends in all its files, code included, change nothing."""
    assert rehearse("new", "world", "notary", "-o", tmp_path)[0] == 0
    for path in (tmp_path / "notary").rglob("*.*"):
        if path.suffix in (".toml", ".py", ".sql", ".md"):
            path.write_bytes(path.read_text().replace("\n", "\r\n").encode("utf-8-sig"))
    run = tmp_path / "run"
    report = json_of(rehearse, "run", tmp_path / "notary", "-p", "oracle", "-o", run)
    assert report["pass_rate"] == 1
