"""The files of the wheel and of the sdist against those in git: no data file is forgotten.

    python tests/install/check_files.py WHEEL SDIST

Every file below a package's folder, whatever it is, belongs into both, and the wheel has nothing
else: one folder, `rehearsal_room`, and its metadata. The sdist also has what a build and a reader
need. It needs Python and git only.
"""

import subprocess
import sys
import tarfile
import zipfile

PACKAGES = ("envpool", "harness", "judge", "learner", "scenarios")
ROOF = "src/rehearsal_room"
TO_BUILD = {
    *("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt"),
}


def in_git() -> set[str]:
    """The files of the packages as they are installed, those that are not committed yet included:
    the five folders stand inside the roof's, where git has links."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run([*command, *PACKAGES, ROOF], capture_output=True, check=True, text=True)
    names = set(out.stdout.split("\0")) - {"", *(f"{ROOF}/{name}" for name in PACKAGES)}
    return {
        name.removeprefix("src/") if name.startswith(ROOF) else f"rehearsal_room/{name}"
        for name in names
    }


def of_wheel(path: str) -> set[str]:
    """The files that a wheel installs, without those of its one folder of metadata."""
    metadata = "-".join(path.rpartition("/")[2].split("-")[:2]) + ".dist-info/"
    with zipfile.ZipFile(path) as wheel:
        return {name for name in wheel.namelist() if not name.startswith(metadata)}


def of_sdist(path: str) -> set[str]:
    """The files of an sdist below its folder, without those that setuptools adds."""
    with tarfile.open(path) as sdist:
        names = {each.name.partition("/")[2] for each in sdist.getmembers() if each.isfile()}
    return {name for name in names if ".egg-info/" not in name} - {"PKG-INFO", "setup.cfg"}


def main(wheel: str, sdist: str) -> None:
    """Exit with a sentence for each difference."""
    packages = in_git()
    expected = {wheel: packages, sdist: {f"src/{name}" for name in packages} | TO_BUILD}
    found = {wheel: of_wheel(wheel), sdist: of_sdist(sdist)}
    faults = [
        f"{path}: {text}: {', '.join(sorted(names)[:10])}"
        for path in (wheel, sdist)
        for text, names in (
            ("missing; name them in pyproject.toml's package-data", expected[path] - found[path]),
            ("unexpected", found[path] - expected[path]),
        )
        if names
    ]
    if faults:
        sys.exit("\n".join(faults))
    print(f"files: {len(found[wheel])} in the wheel, {len(found[sdist])} in the sdist")


if __name__ == "__main__":
    main(*sys.argv[1:])
