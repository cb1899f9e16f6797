"""The version of pyproject.toml, the newest tag and the headings of CHANGELOG.md agree.

    python -m tests.release.version             what `just check` runs
    python -m tests.release.version v0.2.0      before this tag is published

The rule: a release is a tag `vX.Y.Z` on a commit whose pyproject.toml has version X.Y.Z and whose
CHANGELOG.md has a heading `## X.Y.Z (YYYY-MM-DD)` above those of older versions. Between releases
the version stays that of the newest tag, and what changes stands under `## Unreleased`. The commit
that is to be tagged has the next version and its heading.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence

from tests.support.paths import ROOT

_VERSION = re.compile(r"\d+\.\d+\.\d+")
_HEADING = re.compile(r"^## (\d+\.\d+\.\d+) \(\d{4}-\d{2}-\d{2}\)$", re.MULTILINE)

Numbers = tuple[int, ...]


def numbers(version: str) -> Numbers:
    """The numbers of a version, in the order in which versions follow each other.

    Example: "0.10.2" -> (0, 10, 2)
    """
    return tuple(map(int, version.split(".")))


def faults(version: str, tags: Sequence[str], changelog: str, releasing: str = "") -> list[str]:
    """What does not agree, as sentences. `releasing` is the tag that is to be published; empty:
    none is."""
    if not _VERSION.fullmatch(version):
        return [f"pyproject.toml: version {version!r} is not X.Y.Z"]
    headings: list[str] = _HEADING.findall(changelog)
    released = [tag[1:] for tag in tags if _VERSION.fullmatch(tag[1:]) and tag[0] == "v"]
    newest = max(released, key=numbers, default="")
    found = []
    if releasing and releasing != f"v{version}":
        found.append(f"tag {releasing}: pyproject.toml has version {version}; tag v{version}")
    if newest and numbers(version) < numbers(newest):
        found.append(f"pyproject.toml: version {version} is older than the newest tag v{newest}")
    is_release = bool(releasing) or (bool(newest) and numbers(version) > numbers(newest))
    if is_release and headings[:1] != [version]:
        found.append(
            f"CHANGELOG.md: the first version is {headings[0] if headings else 'missing'}; "
            f"expected a heading '## {version} (YYYY-MM-DD)'"
        )
    if headings != sorted(headings, key=numbers, reverse=True):
        found.append("CHANGELOG.md: the versions are not in order, the newest first")
    newer = [heading for heading in headings if numbers(heading) > numbers(version)]
    found += [f"CHANGELOG.md: {heading} is newer than version {version}" for heading in newer]
    return found


def tags_here() -> list[str]:
    """The tags of the repository; none where it is not a git checkout."""
    command = ["git", "tag", "--list", "v*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split()


def version_here() -> str:
    """The version of pyproject.toml."""
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return version


def main(releasing: str = "") -> None:
    """Print the version, or exit with what does not agree."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if found := faults(version_here(), tags_here(), changelog, releasing):
        sys.exit("\n".join(found))
    print(version_here())


if __name__ == "__main__":
    main(*sys.argv[1:])
