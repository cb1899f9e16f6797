"""What the documents show is what there is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

LIBRARY = ROOT / "tests" / "fixtures" / "worlds" / "library"


def test_the_readme_shows_the_example_as_it_is() -> None:
    """README's example is examples/own_agent.py without its docstring."""
    example = (ROOT / "examples" / "own_agent.py").read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)

    assert example.split('"""', 2)[2].strip() in [block.strip() for block in shown]


@pytest.mark.slow
def test_the_example_runs() -> None:
    """`python examples/own_agent.py` runs every task of its world and passes one or more."""
    done = subprocess.run(
        [sys.executable, "examples/own_agent.py"], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert "'completed': " in done.stdout


@pytest.mark.slow
def test_the_examples_on_judging_run(tmp_path: Path) -> None:
    """The test kit's example passes on a package, and the other one breaks a copy of a world."""
    document = (ROOT / "docs" / "judge-trust.md").read_text("utf-8")
    kit, breaking = re.findall(r"```python\n(.*?)```", document, re.DOTALL)
    (tmp_path / "test_kit.py").write_text(kit.replace('"shop_support"', repr(str(LIBRARY))))
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_kit.py"]

    tested = subprocess.run(pytest, cwd=tmp_path, capture_output=True, text=True)
    broken = subprocess.run(
        [sys.executable, "-c", breaking], cwd=tmp_path, capture_output=True, text=True
    )

    assert re.search(r"^\d+ passed", tested.stdout, re.MULTILINE), tested.stdout
    assert (broken.stdout, broken.stderr) == ("broken/shop_support\n", "")
    assert (tmp_path / "broken" / "shop_support" / "tools.py").is_file()


def test_documents_link_to_what_exists() -> None:
    """Every relative link and picture of the Markdown files leads to a file."""
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    missing = [
        (document.name, target)
        for document in documents
        for found in re.finditer(r"\]\(([^)#:]+)\)|src=\"([^\":]+)\"", document.read_text("utf-8"))
        for target in [found[1] or found[2]]
        if not (document.parent / target).exists()
    ]

    assert missing == []
