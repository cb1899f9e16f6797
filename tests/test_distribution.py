"""The name under which the project is installed, and foreign packages with our names."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
from setuptools.dist import Distribution

from rehearsal_room.scenarios import distribution
from tests.support.cli import Rehearse
from tests.support.paths import ROOT

PACKAGES = ("envpool", "harness", "judge", "learner", "scenarios")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_name_is_used_everywhere() -> None:
    """pyproject.toml, the messages about missing packages, and the script agree."""
    assert PROJECT["name"] == distribution.NAME
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


def test_the_package_is_marked_as_typed() -> None:
    """The one package that is installed has py.typed."""
    assert (ROOT / "src" / "rehearsal_room" / "py.typed").exists()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_folder_is_not_a_package_of_its_own(name: str) -> None:
    """From the repository's root, `import harness` would make a second copy of each class: it is
    refused with the name to use."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"ImportError: import rehearsal_room.{name} instead of {name}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGES)
def test_a_users_package_of_the_same_name_is_left_alone(tmp_path: Path, name: str) -> None:
    """A folder `judge/` beside a user's script hides none of our modules and is not imported."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')")
    done = run_beside(tmp_path, "worlds", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "shop_support" in done.stdout


def run_beside(path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """The console script, with a folder before ours on the path."""
    start = "from rehearsal_room.cli.entry import main; main()"
    environment = os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{ROOT / 'src'}"}
    return subprocess.run(
        [sys.executable, "-c", start, *command],
        env=environment,
        cwd=path,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("library", ["msgspec", "rich"])
@pytest.mark.parametrize(("command", "status"), [("run", 2), ("doctor", 1)])
def test_a_core_that_cannot_be_imported_is_one_sentence(
    tmp_path: Path, command: str, status: int, library: str
) -> None:
    """A dependency that is missing or too old stops every command; for doctor it is the answer."""
    (tmp_path / f"{library}.py").write_text("")  # a module without what we import from it
    done = run_beside(tmp_path, command)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("error: rehearsal-room cannot start: ")
    assert done.stderr.endswith(": install rehearsal-room in a clean virtual environment\n")
    assert done.stderr.count("\n") == 1


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
    roof = ROOT / "src" / "rehearsal_room"
    folders = [roof, *(ROOT / name for name in PACKAGES)]
    there = {
        f"src/rehearsal_room/{path.relative_to(roof if folder == roof else ROOT).as_posix()}"
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
        if folder != roof or path.relative_to(roof).parts[0] not in PACKAGES
    }
    assert packed == there
    for name in (
        "src/rehearsal_room/authoring/templates/catalogue.html",
        "src/rehearsal_room/scenarios/bundled/shop_support/data.sql",
    ):
        assert name in packed


def test_the_version_needs_no_installation(rehearse: Rehearse) -> None:
    """`--version` works from the sources, too, where it is unknown."""
    status, out, _ = rehearse("--version")
    assert (status, out) == (0, f"rehearse, version {distribution.version()}\n")


@pytest.mark.slow
def test_the_main_command_needs_the_core_only(tmp_path: Path) -> None:
    """An episode is played and judged where no package of an extra can be imported."""
    extras = (
        *("_time_machine", "fastapi", "fastmcp", "inspect_ai", "jsonschema", "openai", "openenv"),
        *("opentelemetry", "pyarrow", "ray", "sqlalchemy", "time_machine", "torch", "transformers"),
    )
    arguments = ["rehearse", "run", "shop_support", "-n", "1", "-o", str(tmp_path / "run")]
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({extras!r}))\n"  # None: importing it fails
        "from rehearsal_room.cli.main import main\n"
        f"sys.argv = {arguments!r}\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pass rate 1.000" in done.stdout + done.stderr
