"""The name under which the project is installed, and foreign packages with our names."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rehearsal_room
from harness.core import distribution
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


def test_the_packages_say_that_they_are_typed() -> None:
    """Each package that is installed has py.typed."""
    for name in rehearsal_room.PACKAGES:
        assert (ROOT / name / "py.typed").exists()
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert all("py.typed" in data["package-data"][name] for name in rehearsal_room.PACKAGES)
    assert data["py-modules"] == ["rehearsal_room"]


def rehearse(path: Path) -> subprocess.CompletedProcess[str]:
    """The console script, with a folder before ours on the path."""
    command = [sys.executable, "-c", "import rehearsal_room; rehearsal_room.main()", "--version"]
    environment = os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{ROOT}"}
    return subprocess.run(
        command, env=environment, cwd=path, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", rehearsal_room.PACKAGES)
def test_a_foreign_package_is_named(tmp_path: Path, name: str) -> None:
    """One sentence names which package, from where, and what to do; nothing of it is imported."""
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    done = rehearse(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: the package {name!r} at {package.resolve()} does not belong to rehearsal-room and "
        "hides the one that does: install rehearsal-room in a clean virtual environment\n"
    )


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
