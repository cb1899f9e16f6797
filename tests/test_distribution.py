"""The name under which the project is installed, and foreign packages with our names."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
from setuptools.dist import Distribution

import rehearsal_room
from scenarios import distribution
from tests.support.cli import Rehearse
from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_name_is_used_everywhere() -> None:
    """pyproject.toml, the messages about missing packages, and the script agree."""
    assert PROJECT["name"] == distribution.NAME == rehearsal_room.DISTRIBUTION
    assert distribution.install_command("train", "serve") == (
        "pip install 'rehearsal-room[train,serve]'"
    )
    missing = ModuleNotFoundError("no torch", name="torch")
    assert distribution.missing_package("train", missing, "train") == (
        "train needs the package torch: pip install 'rehearsal-room[train]'"
    )
    assert distribution.version() in (PROJECT["version"], "unknown")


def test_the_project_page_is_named() -> None:
    """The project has a page under its own name."""
    assert PROJECT["urls"]["Homepage"] == f"https://pypi.org/project/{PROJECT['name']}/"


def test_the_packages_say_that_they_are_typed() -> None:
    """Each package that is installed has py.typed."""
    for name in rehearsal_room.PACKAGES:
        assert (ROOT / name / "py.typed").exists()
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert all("py.typed" in data["package-data"][name] for name in rehearsal_room.PACKAGES)
    assert data["py-modules"] == ["rehearsal_room"]


def run_shadowed(path: Path, command: str = "--version") -> subprocess.CompletedProcess[str]:
    """The console script, with a folder before ours on the path."""
    words = [sys.executable, "-c", "import rehearsal_room; rehearsal_room.main()", command]
    environment = os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{ROOT}"}
    return subprocess.run(
        words, env=environment, cwd=path, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", rehearsal_room.PACKAGES)
def test_a_foreign_package_is_named(tmp_path: Path, name: str) -> None:
    """One sentence names which package, from where, and what to do; nothing of it is imported."""
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    done = run_shadowed(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: the package {name!r} at {package.resolve()} does not belong to rehearsal-room and "
        "hides the one that does: install rehearsal-room in a clean virtual environment\n"
    )


@pytest.mark.parametrize(("command", "status"), [("--version", 2), ("doctor", 1)])
def test_a_core_that_cannot_be_imported_is_one_sentence(
    tmp_path: Path, command: str, status: int
) -> None:
    """A dependency that is missing or too old stops every command; for doctor it is the answer."""
    (tmp_path / "msgspec.py").write_text("")  # a module without what we import from it
    done = run_shadowed(tmp_path, command)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("error: rehearsal-room cannot start: ")
    assert done.stderr.endswith(": install rehearsal-room in a clean virtual environment\n")
    assert done.stderr.count("\n") == 1


def test_doctor_names_a_foreign_package(tmp_path: Path) -> None:
    """With status 1: the core is broken."""
    (tmp_path / "envpool.py").write_text("raise SystemExit('imported')")
    done = run_shadowed(tmp_path, "doctor")
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not belong to rehearsal-room and hides the one that does" in done.stderr


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    """An installation from which a package is gone reports that."""
    (tmp_path / "rehearsal_room.py").write_text((ROOT / "rehearsal_room.py").read_text())
    start = "import rehearsal_room as room; room.main()"
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {start}"
    command = [sys.executable, "-I", "-S", "-c", code]  # no site-packages
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the package 'envpool' of rehearsal-room is missing: install" in done.stderr


def test_ours_are_found() -> None:
    """Here, all packages are in the folder of the script's module."""
    assert rehearsal_room.foreign_package() == ""


def test_the_wheel_has_every_file_of_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """py.typed, templates, rubrics, prompts and the bundled worlds are data of the packages; a file
    that no pattern of pyproject.toml names would be missing where the wheel is installed."""
    monkeypatch.chdir(ROOT)
    project = Distribution()
    project.parse_config_files()
    project.script_name = "setup.py"
    project.include_package_data = False  # else a manifest is written beside the sources
    builder = cast(Any, project.get_command_obj("build_py"))
    builder.ensure_finalized()
    packed = {
        Path(folder, name).as_posix()
        for package, folder, _, names in builder.data_files
        for name in names
    } | {Path(path).as_posix() for _, _, path in builder.find_all_modules()}
    there = {
        path.relative_to(ROOT).as_posix()
        for name in rehearsal_room.PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == there | {"rehearsal_room.py"}
    for name in (
        "judge/worlds/templates/catalogue.html",
        "scenarios/bundled/shop_support/data.sql",
    ):
        assert name in packed


def test_the_version_needs_no_installation(rehearse: Rehearse) -> None:
    """`--version` works from the sources, too, where it is unknown."""
    status, out, _ = rehearse("--version")
    assert (status, out) == (0, f"rehearse, version {distribution.version()}\n")
