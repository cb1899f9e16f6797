"""The workflows of GitHub Actions run recipes and scripts that exist."""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RECIPES = set(
    re.findall(r"^([a-z][a-z-]*)(?: [^:]*)?:(?!=)", (ROOT / "justfile").read_text(), re.MULTILINE)
)


def jobs_of(text: str) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load(text)["jobs"].values()


def recipes_of(job: dict[str, Any]) -> set[str]:
    """The recipes in a job's matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    rows = [row["recipes"].split() for row in matrix.get("include", [])]
    return {*matrix.get("recipe", []), *(name for row in rows for name in row)}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_exists(path: Any) -> None:
    """Recipes of the matrix are in the justfile; scripts are executable files of the repository;
    no job has more rights than it names, or runs without a time limit."""
    text = path.read_text()
    assert yaml.safe_load(text)["permissions"] == {}
    for job in jobs_of(text):
        assert recipes_of(job) <= RECIPES
        assert job["timeout-minutes"]
        assert "permissions" in job
        for step in job["steps"]:
            for script in re.findall(r"(?:^|\s)((?:\.ci|tests)/\S+)", step.get("run", "")):
                assert os.access(ROOT / script, os.X_OK), script


def test_both_pythons_and_both_systems_are_tried() -> None:
    """Each Python and each system of pyproject.toml's classifiers."""
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    for version in re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project):
        assert f'python: "{version}"' in text or f'python-version: "{version}"' in text
    assert ("macos-" in text) == ("Operating System :: MacOS" in project)
    assert ("ubuntu-" in text) == ("Operating System :: POSIX :: Linux" in project)
