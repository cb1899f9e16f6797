"""What is committed is what the sources make."""

import gzip
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

WEB = ROOT / "src" / "rehearsal_room" / "viewer" / "web"


@pytest.mark.parametrize("name", ["app.js", "app.css"])
def test_the_committed_files_are_built_from_the_sources(tmp_path: Path, name: str) -> None:
    """Building again gives the committed bytes."""
    subprocess.run([str(WEB / "build.sh"), str(tmp_path)], check=True, capture_output=True)

    assert (tmp_path / name).read_bytes() == (WEB / "dist" / name).read_bytes()


def test_the_script_is_small() -> None:
    """All JavaScript has at most 120 kB, compressed."""
    assert len(gzip.compress((WEB / "dist" / "app.js").read_bytes(), 9)) <= 120_000
