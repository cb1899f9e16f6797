"""AWM packages: written for people, read strictly, there whole or not at all."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.awm.package import LICENCE, Occupied, RecordSource, write
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import (
    AwmHead,
    AwmRecord,
    AwmTable,
    AwmVerifier,
    Scenario,
    awm_scenario,
    read,
)
from tests.support.awm_files import (
    DDL,
    INDEX,
    INSERT,
    mail_scenario,
    rows_of,
    two,
    write_folder,
)
from tests.support.ledger_world import write_package
from tests.support.paths import AWM

_SOURCE = RecordSource(Path("/data"), ())


def _files(folder: Path) -> list[str]:
    """The files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_fixture_can_be_written_and_read(tmp_path: Path) -> None:
    """A written package is read as the same scenario with the same digest."""
    plain = AwmFolder(AWM)
    other = AwmFolder(AWM, seeding="strict", clock="2027-05-06T07:08:09Z")
    for folder in (plain, other):
        scenario = folder.find("e_commerce_lab_1")
        package = write(scenario, tmp_path, _SOURCE)
        assert package == tmp_path / "e_commerce_lab_1"
        assert read(package) == replace(scenario, path=package)
    assert len(_files(package)) == 6 + 20


def test_a_package_can_be_read_by_people(tmp_path: Path) -> None:
    """Each part of a record has its own file, in a form that people can read."""
    rows = two()
    rows["gen_verifier.jsonl"].pop()
    rows["gen_envs.jsonl"].append(rows["gen_envs.jsonl"][-1])
    folder = AwmFolder(write_folder(tmp_path / "awm", rows))
    scenario = folder.find("mail_desk_1")
    record = scenario.awm
    assert record is not None
    source = RecordSource(
        folder.path,
        tuple(folder.join.used_rows("mail_desk_1")),
        tuple(folder.join.duplicates("mail_desk_1")),
    )
    package = write(scenario, tmp_path / "worlds", source)
    texts = {name: (package / name).read_text(encoding="utf-8") for name in _files(package)}
    assert tomllib.loads(texts.pop("scenario.toml")) == {
        "format": "awm",
        "name": "mail_desk_1",
        "title": "Mail Desk 1",
        "version": "awm",
        "description": "About Mail Desk 1.",
        "clock": "2026-02-10T09:00:00Z",
        "seeding": "awm",
        "user": {"id": "1", "name": "the current user", "role": "user"},
    }
    assert tomllib.loads(texts.pop("source.toml")) == {
        "folder": str(tmp_path / "awm"),
        "licence": LICENCE,
        "row": [
            {"file": "gen_envs.jsonl", "line": 3},
            {"file": "gen_db.jsonl", "line": 2},
            {"file": "gen_sample.jsonl", "line": 2},
            {"file": "gen_tasks.jsonl", "line": 2},
            {"file": "gen_scenario.jsonl", "line": 2},
            {"file": "gen_spec.jsonl", "line": 2},
            {"file": "gen_verifier.jsonl", "line": 3, "task": 0},
            {"file": "gen_verifier.pure_code.jsonl", "line": 3, "task": 0},
            {"file": "gen_verifier.pure_code.jsonl", "line": 4, "task": 1},
        ],
        "duplicate": [{"file": "gen_envs.jsonl", "lines": [2, 3], "taken": 3}],
    }
    table = {"name": "notes", "ddl": DDL, "indexes": [INDEX], "examples": []}
    assert json.loads(texts.pop("schema.json")) == [table]
    assert INSERT in texts["data.json"]
    assert json.loads(texts.pop("data.json")) == [
        {"table_name": "notes", "insert_statements": [INSERT]}
    ]
    assert json.loads(texts.pop("tasks.json")) == [task.instruction for task in scenario.tasks]
    assert texts == {
        "server.py": record.code,
        "verify/0_sql.py": record.verifiers["0"].sql,
        "verify/0_code.py": record.verifiers["0"].code,
        "verify/1_code.py": record.verifiers["1"].code,
    }


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_codes = st.none() | _texts


@given(
    texts=st.tuples(_texts, _texts, _texts, _texts).map(lambda four: [f"-{x}-" for x in four]),
    code=_texts.map(lambda text: f"x = {text!r}  # \r\n\f"),
    verifiers=st.tuples(_codes, _codes),
    sql=st.lists(_texts, max_size=3).map(tuple),
)
def test_any_text_can_be_written_and_read(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    code: str,
    verifiers: tuple[str | None, str | None],
    sql: tuple[str, ...],
) -> None:
    """With any characters and line ends in a record, its package is the same scenario."""
    out = tmp_path_factory.mktemp("worlds")
    scenario = _scenario(texts, code, verifiers, sql, out)
    assert read(write(scenario, out, _SOURCE)) == scenario


def _scenario(
    texts: list[str],
    code: str,
    verifiers: tuple[str | None, str | None],
    sql: tuple[str, ...],
    out: Path,
) -> Scenario:
    title, description, *tasks = texts
    user = AwmFolder(AWM).find("e_commerce_lab_1").user
    head = AwmHead("any", title, "awm", description, "2026-02-10T09:00:00Z", user, "awm")
    table = AwmTable(title, description, sql, sql)
    both = {"0": AwmVerifier(*verifiers), "1": AwmVerifier()}
    return awm_scenario(head, tuple(tasks), AwmRecord(code, (table,), (), "awm", both), out / "any")


_HEAD = "scenario.toml"

# fault: (file, its text, the text instead, the beginning of the sentence after the file's name)
_FAULTS = {
    "format": (_HEAD, '"awm"', '"zip"', "format: expected 'awm', 'mcp' or no such key, got 'zip'"),
    "format's type": (_HEAD, '"awm"', "5", "format: expected 'awm', 'mcp' or no such key, got 5"),
    "name": (_HEAD, '"mail_desk_1"', '"Mail"', "name: 'Mail' is not a lower-case identifier"),
    "clock": (_HEAD, "2026-02-10T", "10.2.", "clock: '10.2.09:00:00Z' is not a moment in UTC such"),
    "seeding": (
        *(_HEAD, 'seeding = "awm"', 'seeding = "x"'),
        "seeding: 'x' is not one of 'awm', 'openenv', 'strict'",
    ),
    "no seeding": (_HEAD, 'seeding = "awm"', "", "object missing required field `seeding`"),
    "odd key": (_HEAD, "clock", "colour = 1\nclock", "object contains unknown field `colour`"),
    "no TOML": (_HEAD, "[user]", "[user", "not valid TOML: Expected ']' at the end"),
    "no Python": ("server.py", "app =", "app = =", "line 1: invalid syntax"),
    "no JSON": ("tasks.json", "[", "", "not valid JSON: "),
    "deep": ("tasks.json", "[", "[" * 90_000, "not valid JSON: it is nested too deeply"),
    "odd task": ("tasks.json", "[", "[5, ", "[0]: expected `str`, got `int`"),
    "blank task": ("tasks.json", "[", '["", ', "[0]: must not be empty"),
    "no table": ("schema.json", "[\n {", "[5, \n {", "[0]: expected `object`, got `int`"),
    "odd field": ("schema.json", '"ddl"', '"sql"', "[0]: object contains unknown field `sql`"),
    "no statements": ("data.json", '"insert_', '"', "[0]: object contains unknown field"),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_fault_is_named(tmp_path: Path, fault: str) -> None:
    """Every fault of a package is one sentence with the file and the field in front."""
    name, old, new, sentence = _FAULTS[fault]
    package = write(mail_scenario(tmp_path / "awm", two()), tmp_path, _SOURCE)
    text = (package / name).read_text(encoding="utf-8")
    assert old in text
    (package / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PackageError) as caught:
        read(package)
    assert str(caught.value).startswith(f"{package / name}: {sentence}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["scenario.toml", "server.py", "schema.json", "data.json", "tasks.json"]
)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """Every file except the verifiers and the source is required."""
    package = write(mail_scenario(tmp_path / "awm", two()), tmp_path, _SOURCE)
    (package / name).unlink()
    with pytest.raises(PackageError) as caught:
        read(package)
    assert str(caught.value) == f"{package / name}: the file is missing"


def test_a_verifier_of_no_task_is_an_error(tmp_path: Path) -> None:
    """A file in verify/ that belongs to no task is an error; a missing file means no verifier."""
    scenario = mail_scenario(tmp_path / "awm", two())
    package = write(scenario, tmp_path, _SOURCE)
    (package / "verify" / "1_sql.py").rename(package / "verify" / "2_sql.py")
    with pytest.raises(PackageError) as caught:
        read(package)
    assert str(caught.value) == (
        f"{package / 'verify' / '2_sql.py'}: the file belongs to no task (the package has 2 tasks)"
    )
    (package / "verify" / "2_sql.py").unlink()
    record, found = scenario.awm, read(package).awm
    assert record is not None and found is not None
    less = AwmVerifier(code=record.verifiers["1"].code)
    assert found == replace(record, verifiers=record.verifiers | {"1": less})


def test_code_need_not_be_checked(tmp_path: Path) -> None:
    """Without `check_code` a package can be read even if its code does not parse."""
    package = write(mail_scenario(tmp_path / "awm", two()), tmp_path, _SOURCE)
    (package / "server.py").write_text("x =", encoding="utf-8")
    assert read(package, check_code=False).title == "Mail Desk 1"


def test_a_package_is_replaced_completely(tmp_path: Path) -> None:
    """A rewritten package has no file of the earlier one, and no other file is left next to it."""
    first = mail_scenario(tmp_path / "a", rows_of("Mail Desk 1", "mail_desk_1", num_tasks=3))
    second = mail_scenario(tmp_path / "b", rows_of("Mail Desk 1", "mail_desk_1", num_tasks=1))
    out = tmp_path / "worlds"
    for scenario in (first, second):
        package = write(scenario, out, _SOURCE)
        assert read(package) == replace(scenario, path=package)
    assert os.listdir(out) == ["mail_desk_1"]


def test_other_folders_and_files_are_left_unchanged(tmp_path: Path) -> None:
    """A folder or a file of that name that is not an AWM package stays unchanged."""
    scenario = mail_scenario(tmp_path / "awm", two())
    other = write_package(tmp_path / "a" / "mail_desk_1")
    before = _files(other)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mail_desk_1").write_text("a file")
    for out in (tmp_path / "a", tmp_path / "b"):
        with pytest.raises(Occupied, match="something that is not an AWM package has this name"):
            write(scenario, out, _SOURCE)
        assert os.listdir(out) == ["mail_desk_1"]
    assert _files(other) == before


@pytest.mark.parametrize("existing", [False, True])
def test_nothing_is_left_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: bool
) -> None:
    """A full disk leaves the earlier package, or none, and no other file next to it."""
    scenario = mail_scenario(tmp_path / "awm", two())
    out = tmp_path / "worlds"
    if existing:
        write(scenario, out, _SOURCE)
    write_bytes = Path.write_bytes

    def full(path: Path, data: Any) -> int:
        if path.name == "tasks.json":
            raise OSError(28, "No space left on device")
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write(replace(scenario, title="Other"), out, _SOURCE)
    assert os.listdir(out) == (["mail_desk_1"] if existing else [])
    if existing:
        assert read(out / "mail_desk_1").digest == scenario.digest


def test_the_old_package_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the new package cannot be moved to its destination, the old one is restored."""
    scenario = mail_scenario(tmp_path / "awm", two())
    out = tmp_path / "worlds"
    write(scenario, out, _SOURCE)
    rename = Path.rename

    def fails(path: Path, target: Path) -> Path:
        if path.name.endswith(".new"):
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="Input/output error"):
        write(scenario, out, _SOURCE)
    assert os.listdir(out) == ["mail_desk_1"]
    assert read(out / "mail_desk_1").digest == scenario.digest
