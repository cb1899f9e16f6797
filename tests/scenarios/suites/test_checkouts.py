"""Broken checkouts of suites: one sentence for each kind of fault."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.suites import enterpriseops
from rehearsal_room.scenarios.suites.bfcl_entries import digest_of as bfcl_digest
from rehearsal_room.scenarios.suites.catalogue import suite
from rehearsal_room.scenarios.suites.checkouts import file_code, file_json
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags
from rehearsal_room.scenarios.suites.toolsandbox import digest_of as toolsandbox_digest
from rehearsal_room.scenarios.suites.vitabench import digest_of as vitabench_digest

# What makes a folder a checkout, for each suite that reads the checkout's version.
CHECKOUTS = {
    "tau2_retail": ("src/tau2/__init__.py",),
    "tau2_banking_bm25": ("src/tau2/__init__.py",),
    "vitabench": ("src/vita/__init__.py",),
    "vitabench_en": ("src/vita/__init__.py",),
    "enterpriseops": enterpriseops._CODE,
    "mcpmark": ("tasks/readme.txt",),
}
FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "it cannot be read"),
    "a folder": (lambda path: path.mkdir(), "it cannot be read"),
    "a link to itself": (lambda path: path.symlink_to(path), "it cannot be read"),
    "not UTF-8": (lambda path: path.write_bytes(b"[project]\xff"), "it is not UTF-8 text"),
    "not TOML": (lambda path: path.write_text("[project"), "it is not TOML"),
    "too deep": (lambda path: path.write_text("a = " + "[" * 100_000), "it is not TOML"),
    "a huge number": (lambda path: path.write_text(f"a = {'1' * 9_000}"), "it is not TOML"),
    "no project": (lambda path: path.write_text(""), "it names no version"),
    "no table": (lambda path: path.write_text("project = 3"), "it names no version"),
    "no version": (lambda path: path.write_text("[project]\n"), "it names no version"),
    "no text": (lambda path: path.write_text("[project]\nversion = 1"), "it names no version"),
}


@pytest.mark.parametrize("name", CHECKOUTS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_pyproject_is_one_sentence(tmp_path: Path, name: str, fault: str) -> None:
    """The file, what is wrong with it, and what to do; never a traceback, never a version."""
    for file in CHECKOUTS[name]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    spoil, sentence = FAULTS[fault]
    spoil(tmp_path / "pyproject.toml")

    with pytest.raises(PackageError) as raised:
        _ = suite(name).open(SuiteFlags(folder=str(tmp_path), tasks=str(tmp_path))).version

    said = str(raised.value)
    assert said.startswith(f"{tmp_path}/pyproject.toml: {sentence}")
    assert "is the checkout complete and unchanged?" in said
    assert "\n" not in said


@pytest.mark.parametrize("digest", [toolsandbox_digest, vitabench_digest, bfcl_digest])
@pytest.mark.parametrize("fault", ["a folder", "a link to itself"])
def test_code_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, digest: Callable[[Path], str], fault: str
) -> None:
    """A digest of the code identifies these suites' versions. The BFCL's digest leaves out what
    is not a file, so it changes instead."""
    (tmp_path / "eval_checker").mkdir()
    FAULTS[fault][0](tmp_path / "eval_checker" / "a.py")
    if digest is bfcl_digest:
        assert digest(tmp_path) == digest(tmp_path / "eval_checker")  # that of an empty folder
        return
    with pytest.raises(PackageError, match=r"a\.py: it cannot be read"):
        digest(tmp_path)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "1" * 9_000, "\xff"])
def test_data_and_code_that_are_broken_are_one_sentence(tmp_path: Path, text: str) -> None:
    """JSON and Python that end early, are nested too deeply, or have another encoding."""
    path = tmp_path / "file"
    path.write_text(text, encoding="latin-1")
    for read in (file_json, file_code):
        with pytest.raises(PackageError, match=r"file: it is not (JSON|Python|UTF-8)"):
            read(path)
