"""Versions by tags: pyproject.toml, the newest tag and CHANGELOG.md agree."""

import pytest

from tests.release.version import faults, tags_here, version_here
from tests.support.paths import ROOT

OLD = "## Unreleased\n\n- x\n\n## 0.1.0 (2026-01-02)\n"
NEW = f"## 0.2.0 (2026-03-04)\n\n{OLD.removeprefix('## Unreleased')}"


def test_this_checkout_is_in_order() -> None:
    """Whatever tags it has."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert faults(version_here(), tags_here(), changelog) == []


@pytest.mark.parametrize(
    ("version", "tags", "changelog", "releasing"),
    [
        ("0.1.0", [], "## Unreleased\n", ""),  # nothing was released yet
        ("0.1.0", ["v0.1.0"], OLD, ""),  # between two releases
        ("0.2.0", ["v0.1.0"], NEW, ""),  # the commit that will be tagged
        ("0.2.0", ["v0.1.0", "v0.2.0"], NEW, "v0.2.0"),  # its tag is pushed
        ("0.10.0", ["v0.9.0"], "## 0.10.0 (2026-01-01)\n## 0.9.0 (2025-01-01)\n", "v0.10.0"),
        ("0.1.0", ["nightly", "v-x", "v0.1"], OLD, ""),  # other tags
    ],
)
def test_what_is_right(version: str, tags: list[str], changelog: str, releasing: str) -> None:
    """The states through which a release goes."""
    assert faults(version, tags, changelog, releasing) == []


@pytest.mark.parametrize(
    ("version", "tags", "changelog", "releasing", "fault"),
    [
        ("0.1", [], OLD, "", "version '0.1' is not X.Y.Z"),
        ("0.1.0", [], OLD, "v0.2.0", "tag v0.2.0: pyproject.toml has version 0.1.0; tag v0.1.0"),
        ("0.1.0", ["v0.2.0"], OLD, "", "0.1.0 is older than the newest tag v0.2.0"),
        ("0.2.0", ["v0.1.0"], OLD, "", "the first version is 0.1.0; expected a heading '## 0.2.0"),
        ("0.1.0", [], "## Unreleased\n", "v0.1.0", "the first version is missing"),
        ("0.1.0", ["v0.1.0"], NEW, "", "0.2.0 is newer than version 0.1.0"),
        ("0.2.0", [], "## 0.1.0 (2026-01-02)\n## 0.2.0 (2026-01-02)\n", "", "not in order"),
    ],
)
def test_what_is_wrong(
    version: str, tags: list[str], changelog: str, releasing: str, fault: str
) -> None:
    """Each is a sentence that names the file and what is expected."""
    assert any(fault in sentence for sentence in faults(version, tags, changelog, releasing))
