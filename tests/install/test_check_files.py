"""The comparison of a wheel's files with those in git, on wheels made up for it."""

import zipfile
from pathlib import Path

import pytest

from tests.install.check_files import in_git, of_wheel
from tests.support.paths import ROOT

METADATA = "rehearsal_room-1.0.dist-info/METADATA"


def wheel_of(folder: Path, *names: str) -> str:
    """A wheel with files of these names."""
    path = folder / "rehearsal_room-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name in names:
            wheel.writestr(name, "")
    return str(path)


def test_the_files_in_git_are_those_below_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """All packages stand in `rehearsal_room`, each file once, and no link among them."""
    monkeypatch.chdir(ROOT)
    names = in_git()
    assert {name.partition("/")[0] for name in names} == {"rehearsal_room"}
    assert {"rehearsal_room/py.typed", "rehearsal_room/envpool/__init__.py"} <= names
    assert "rehearsal_room/envpool" not in names


@pytest.mark.parametrize(
    "name",
    ["harness/__init__.py", "build/lib/x.py", "envpool.py", "other-1.0.dist-info/RECORD"],
)
def test_what_stands_beside_the_package_is_seen(tmp_path: Path, name: str) -> None:
    """A second folder at the top, such as one that an older build left, counts as a file; only the
    wheel's own metadata does not."""
    ours = "rehearsal_room/__init__.py"
    assert of_wheel(wheel_of(tmp_path, ours, METADATA, name)) == {ours, name}
