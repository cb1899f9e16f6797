"""AWM records: which rows belong together, which shapes are accepted, what refuses a scenario."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.awm import row_index
from rehearsal_room.scenarios.awm.folder import CLOCK, AwmFolder, AwmSettings, parse_address
from rehearsal_room.scenarios.awm.join import Duplicate
from rehearsal_room.scenarios.awm.names import name_fault, normalize_name, package_name
from rehearsal_room.scenarios.errors import PackageError, RecordError, UnknownScenario
from rehearsal_room.scenarios.format import AwmSample, AwmTable, AwmVerifier, Scenario, Task
from tests.support.awm_files import (
    APP,
    CODE,
    DB,
    DDL,
    ENVS,
    FILES,
    INDEX,
    INSERT,
    SAMPLE,
    SCENARIO,
    SPEC,
    SQL,
    TASKS,
    VERIFIER,
    Rows,
    mail_scenario,
    rows_of,
    two,
    write_folder,
)
from tests.support.paths import AWM


def test_the_fixture_is_read() -> None:
    """The fixture's record has its 10 tasks, 18 tables, 156 statements and 20 verifiers; of two
    verifiers of one task the first is used."""
    folder = AwmFolder(AWM)
    assert folder.names() == ["e_commerce_lab_1"]
    scenario = folder.find("E-Commerce Lab 1")
    record = scenario.awm
    assert record is not None
    assert (scenario.name, scenario.title) == ("e_commerce_lab_1", "E-Commerce Lab 1")
    assert [task.id for task in scenario.tasks] == [str(index) for index in range(10)]
    assert len(record.tables) == 18
    assert sum(len(sample.insert_statements) for sample in record.samples) == 156
    assert record.code.startswith("import os\n")
    verifiers = record.verifiers["0"]
    assert "all_conditions_met" not in (verifiers.sql or "all_conditions_met").splitlines()[1]
    assert [len(code or "") for code in (verifiers.sql, verifiers.code)] == [1285, 1332]
    assert list(folder.join.duplicates(scenario.name)) == [
        Duplicate("e_commerce_lab_1", SQL, (1, 11), 1, 0),
        Duplicate("e_commerce_lab_1", CODE, (1, 11), 1, 0),
    ]


def test_a_record_is_a_scenario(tmp_path: Path) -> None:
    """Everything in a record is in its scenario; what the record does not define is a default."""
    scenario = mail_scenario(tmp_path, two())
    assert scenario.awm is not None
    assert scenario == Scenario(
        name="mail_desk_1",
        title="Mail Desk 1",
        version="awm",
        description="About Mail Desk 1.",
        clock=CLOCK,
        user=User("1", "the current user", "user"),
        schema_sql="",
        data_sql="",
        rules="",
        tasks=(
            Task("0", "Do thing 0 of Mail Desk 1.", "unrated", "open", ""),
            Task("1", "Do thing 1 of Mail Desk 1.", "unrated", "open", ""),
        ),
        path=tmp_path / "mail_desk_1",
        digest=scenario.digest,
        awm=scenario.awm,
    )
    assert scenario.awm.code == APP.format(name="Mail Desk 1")
    assert scenario.awm.tables == (AwmTable("notes", DDL, (INDEX,), ()),)
    assert scenario.awm.samples == (AwmSample("notes", (INSERT,)),)
    assert scenario.awm.seeding == "awm"
    both = AwmVerifier(
        sql=VERIFIER.format(function="verify_task"),
        code=VERIFIER.format(function="verify_task_completion"),
    )
    assert scenario.awm.verifiers == {"0": both, "1": both}


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("e_commerce_33", "e_commerce_33"),
        ("E-Commerce  Lab (1)", "e_commerce_lab_1"),
        ("__a__b__", "a_b"),
        ("Café №5", "caf_5"),
        ("\tHRIS & Payroll\n", "hris_payroll"),
        ("3D Shop!", "w_3d_shop"),
        ("W 3D Shop", "w_w_3d_shop"),
        ("日本", ""),
    ],
)
def test_names_are_normalised(written: str, name: str) -> None:
    """Names become lower case, other characters become one underscore, and the name of a package
    begins with a letter."""
    assert package_name(normalize_name(written)) == name
    assert (name_fault(written) is None) == bool(name)


def test_the_order_of_rows_and_the_spelling_of_names_do_not_matter(tmp_path: Path) -> None:
    """The same rows in another order, under names that normalise alike, are the same scenario."""
    rows = two()
    other = {file: list(reversed(values)) for file, values in rows.items()}
    other[ENVS] = [row | {"scenario": row["scenario"].upper()} for row in other[ENVS]]
    first, second = (
        AwmFolder(write_folder(tmp_path / name, value))
        for name, value in (("a", rows), ("b", other))
    )
    assert first.names() == second.names() == ["mail_desk_1", "w_3d_shop"]
    for name in ("mail_desk_1", "3d_shop", "w_3d_shop", "3D shop"):
        assert first.find(name).digest == second.find(name).digest


def test_of_duplicates_the_documented_one_is_used(tmp_path: Path) -> None:
    """Of several rows the first is used, in gen_envs.jsonl the last, and all are reported."""
    rows = rows_of("Mail Desk 1", "mail_desk_1")
    later = rows_of("mail--DESK 1", "Mail Desk 1")
    later[DB][0]["db_schema"] = {"tables": []}
    later[SAMPLE][0]["sample_data"] = []
    for file in (SQL, CODE):
        later[file][1]["verification"]["code"] = "def verify_other(a, b): pass\n"
    both = {file: [*rows[file], *later[file]] for file in FILES}
    folder = AwmFolder(write_folder(tmp_path / "both", both))
    found, alone = folder.find("mail_desk_1"), mail_scenario(tmp_path / "alone", rows)
    assert found.awm is not None and alone.awm is not None
    assert (found.title, found.tasks) == (alone.title, alone.tasks)
    assert found.awm.code == APP.format(name="mail--DESK 1")
    assert found.awm.tables == alone.awm.tables
    assert found.awm.samples == alone.awm.samples
    assert found.awm.verifiers == alone.awm.verifiers
    duplicates = {
        (duplicate.file, duplicate.task, duplicate.lines, duplicate.taken)
        for duplicate in folder.join.duplicates("mail_desk_1")
    }
    assert duplicates == {
        *((file, None, (1, 2), 1) for file in (SCENARIO, TASKS, DB, SAMPLE, SPEC)),
        (ENVS, None, (1, 2), 2),
        *((file, task, (task + 1, task + 3), task + 1) for file in (SQL, CODE) for task in (0, 1)),
    }


def test_optional_files(tmp_path: Path) -> None:
    """Without names, specifications and verifiers a scenario has its title as description, and no
    verifiers."""
    rows = two() | {file: [] for file in (SCENARIO, SPEC, SQL, CODE)}
    scenario = mail_scenario(tmp_path, rows)
    assert scenario.awm is not None
    assert (scenario.title, scenario.description) == ("Mail Desk 1", "Mail Desk 1")
    assert scenario.awm.verifiers == {"0": AwmVerifier(), "1": AwmVerifier()}


@pytest.mark.parametrize("file", [TASKS, DB, SAMPLE, ENVS])
def test_required_files(tmp_path: Path, file: str) -> None:
    """A folder without one of the four required files is refused."""
    with pytest.raises(PackageError) as caught:
        AwmFolder(write_folder(tmp_path, two() | {file: []}))
    assert str(caught.value) == f"{tmp_path / file}: the file is missing"


@pytest.mark.parametrize(
    ("data", "samples"),
    [
        ({"tables": []}, ()),
        ([], ()),
        (None, ()),
        ({}, ()),
        ([INSERT, INSERT], (AwmSample("", (INSERT,)),) * 2),
        ([{"table_name": "a", "insert_statements": [INSERT]}], (AwmSample("a", (INSERT,)),)),
        ([{"insert_statements": None}, INSERT], (AwmSample("", ()), AwmSample("", (INSERT,)))),
        ({"tables": [{"table_name": "a", "insert_statements": [5]}]}, (AwmSample("a", ("5",)),)),
    ],
)
def test_shapes_of_seed_data(tmp_path: Path, data: Any, samples: tuple[AwmSample, ...]) -> None:
    """Seed data may be a list or an object, of objects or of plain SQL."""
    rows = two()
    rows[SAMPLE][1]["sample_data"] = data
    record = mail_scenario(tmp_path, rows).awm
    assert record is not None and record.samples == samples


def test_shapes_of_tables(tmp_path: Path) -> None:
    """Every field of a table may be missing, and an index that is not text is converted to text."""
    rows = two()
    tables = [{"name": "a", "ddl": None, "indexes": None}, {}, {"ddl": DDL, "indexes": [5, INDEX]}]
    rows[DB][1]["db_schema"] = {"tables": [*tables, {"name": "b", "examples": [INSERT]}]}
    record = mail_scenario(tmp_path, rows).awm
    assert record is not None
    assert record.tables == (
        AwmTable("a", ""),
        AwmTable("", ""),
        AwmTable("", DDL, ("5", INDEX)),
        AwmTable("b", "", (), (INSERT,)),
    )


def test_shapes_of_verifiers(tmp_path: Path) -> None:
    """A task's number may be text; code that is null, blank or shorter than ten characters does not
    count as a verifier; a verifier of an unknown task is counted as stray."""
    rows = rows_of("Mail Desk 1", "mail_desk_1", num_tasks=12)
    code = rows[SQL][0]["verification"]["code"]
    changes: list[dict[str, Any]] = [
        {"task_idx": "0"},
        {"task_idx": 1.0},
        {"verification": None},
        {"verification": {"code": None, "raw_response": "…"}},
        {"verification": {"raw_response": "…"}},
        {"verification": {"code": "def f(): "}},
        {"verification": {"code": " " * 20}},
        {"task_idx": 40},
    ]
    for row, change in zip(rows[SQL], changes, strict=False):
        row |= change
    folder = AwmFolder(write_folder(tmp_path, rows))
    scenario = folder.find("mail_desk_1")
    record = scenario.awm
    assert record is not None
    assert [task for task, both in record.verifiers.items() if both.sql == code] == [
        *("0", "1", "8", "9", "10", "11")
    ]
    assert [task for task, both in record.verifiers.items() if both.sql is None] == [
        *("2", "3", "4", "5", "6", "7")
    ]
    assert len(scenario.tasks) == 12
    assert folder.num_stray(scenario) == 1


Change = Callable[[Rows], None]


def _row(file: str, **fields: Any) -> Change:
    """Change fields of the second scenario's row."""

    def change(rows: Rows) -> None:
        rows[file][-1] |= fields

    return change


def _line(file: str, text: str) -> Change:
    """Replace the second scenario's row with a line."""

    def change(rows: Rows) -> None:
        rows[file][-1] = text

    return change


_KEYED = '{"scenario": "Mail Desk 1", '
_FAULTS: dict[str, tuple[Change, str, int | None, str]] = {
    "no code": (_row(ENVS, full_code=None), ENVS, 2, "full_code: there is no code"),
    "blank code": (_row(ENVS, full_code=" \n"), ENVS, 2, "full_code: there is no code"),
    "no parse": (
        *(_row(ENVS, full_code="x = 1\nx ="), ENVS, 2),
        "full_code: line 2: invalid syntax",
    ),
    "no compile": (
        *(_row(ENVS, full_code="return 5"), ENVS, 2),
        "full_code: line 1: 'return' outside function",
    ),
    "zero byte": (
        *(_row(ENVS, full_code="x = 1\0"), ENVS, 2),
        "full_code: source code string cannot contain null bytes",
    ),
    "too deep": (
        *(_row(ENVS, full_code="-" * 100_000 + "1"), ENVS, 2),
        "full_code: not valid Python: it is nested too deeply",
    ),
    "code's type": (
        *(_row(ENVS, full_code=["x"]), ENVS, 2),
        "full_code: expected `str | null`, got `array`",
    ),
    "no env": (
        lambda rows: rows[ENVS].pop(),
        *(ENVS, None),
        "there is no row for scenario 'mail_desk_1'",
    ),
    "no sample": (
        lambda rows: rows[SAMPLE].pop(),
        *(SAMPLE, None),
        "there is no row for scenario 'mail_desk_1'",
    ),
    "truncated": (
        *(_line(ENVS, _KEYED + '"full_code": "import o'), ENVS, 2),
        "not valid JSON: input data was truncated",
    ),
    "truncated in an escape": (
        *(_line(ENVS, _KEYED + '"full_code": "import o\\'), ENVS, 2),
        "not valid JSON: input data was truncated",
    ),
    "garbled": (
        *(_line(SQL, _KEYED + '"task_idx": 1, }'), SQL, 4),
        "not valid JSON: trailing comma in object (byte 43)",
    ),
    "deep": (
        *(_line(SPEC, _KEYED + '"api_spec": ' + "[" * 90_000), SPEC, 2),
        "not valid JSON: it is nested too deeply",
    ),
    "no task number": (
        *(_row(SQL, task_idx="first"), SQL, 4),
        "task_idx: 'first' is not the number of a task",
    ),
    "half a task": (_row(SQL, task_idx=0.5), SQL, 4, "task_idx: 0.5 is not the number of a task"),
    "negative task": (_row(SQL, task_idx=-1), SQL, 4, "task_idx: -1 is not the number of a task"),
    "task's type": (
        *(_row(SQL, task_idx=None), SQL, 4),
        "task_idx: expected `int | float | str`, got `null`",
    ),
    "no tasks": (_row(TASKS, tasks=[]), TASKS, 2, "tasks: there is no task"),
    "blank task": (_row(TASKS, tasks=["x", ""]), TASKS, 2, "tasks: [1]: must not be empty"),
    "odd task": (
        *(_row(TASKS, tasks=[{"task": "x"}]), TASKS, 2),
        "tasks[0]: expected `str`, got `object`",
    ),
    "no schema": (
        _row(DB, db_schema={}),
        DB,
        2,
        "db_schema: object missing required field `tables`",
    ),
    "odd ddl": (
        *(_row(DB, db_schema={"tables": [{"ddl": 5}]}), DB, 2),
        "db_schema.tables[0].ddl: expected `str | null`, got `int`",
    ),
    "odd seed": (
        *(_row(SAMPLE, sample_data="INSERT"), SAMPLE, 2),
        "sample_data: expected a list, or an object with `tables`",
    ),
    "odd item": (
        *(_row(SAMPLE, sample_data={"tables": [INSERT, 5]}), SAMPLE, 2),
        "sample_data.tables[1]: expected `object`, got `int`",
    ),
    "odd statements": (
        *(_row(SAMPLE, sample_data=[{"insert_statements": INSERT}]), SAMPLE, 2),
        "sample_data[0].insert_statements: expected `array | null`, got `str`",
    ),
    "odd verifier": (
        *(_row(CODE, verification={"code": 5}), CODE, 4),
        "verification.code: expected `str | null`, got `int`",
    ),
    "odd description": (
        *(_row(SCENARIO, description=[]), SCENARIO, 2),
        "description: expected `str | null`, got `array`",
    ),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_broken_record_is_refused_alone(tmp_path: Path, fault: str) -> None:
    """A broken row refuses its scenario with file, line and reason; the other is unchanged."""
    change, file, line, reason = _FAULTS[fault]
    rows = two()
    change(rows)
    folder = AwmFolder(write_folder(tmp_path, rows))
    assert list(folder.join.faults(None)) == []
    with pytest.raises(RecordError) as caught:
        folder.find("mail_desk_1")
    assert (caught.value.file, caught.value.line, caught.value.reason) == (file, line, reason)
    location = tmp_path / file if line is None else f"{tmp_path / file}: line {line}"
    assert str(caught.value) == f"{location}: {reason}"
    whole = AwmFolder(write_folder(tmp_path / "whole", two()))
    assert folder.find("3d_shop").digest == whole.find("3d_shop").digest


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"scenario": "Mail De', "not valid JSON: input data was truncated"),
        ('{"full_code": "x"', "not valid JSON: input data was truncated"),
        (
            '{"full_code": "a \\"scenario\\": \\"3D Shop\\"',
            "not valid JSON: input data was truncated",
        ),
        ("nonsense", "not valid JSON: invalid character (byte 4)"),
        ('{"full_code": "x"}', "object missing required field `scenario`"),
        ('{"scenario": 5}', "scenario: expected `str`, got `int`"),
        ('{"scenario": "---"}', "scenario: '---' has no letter and no digit of a-z, 0-9"),
        (f'{{"scenario": "{"x" * 121}"}}', "scenario: it is longer than 120 characters"),
        ("[]", "expected `object`, got `array`"),
    ],
)
def test_a_line_of_no_scenario_is_a_fault_of_the_file(
    tmp_path: Path, line: str, reason: str
) -> None:
    """A broken line that names no scenario is listed, and no other scenario is refused for it."""
    rows = two()
    rows[ENVS].append(line)
    folder = AwmFolder(write_folder(tmp_path, rows))
    faults = [(fault.file, fault.line, fault.reason) for fault in folder.join.faults(None)]
    assert faults == [(ENVS, 3, reason)]
    assert [folder.find(name).name for name in folder.names()] == ["mail_desk_1", "w_3d_shop"]


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    """A line that is not UTF-8 refuses its scenario."""
    rows = two()
    rows[ENVS][1]["full_code"] = "x = '@'"
    path = write_folder(tmp_path, rows) / ENVS
    path.write_bytes(path.read_bytes().replace(b"@", b"\xff"))
    with pytest.raises(RecordError) as caught:
        AwmFolder(tmp_path).find("mail_desk_1")
    assert (caught.value.line, caught.value.reason) == (*(2, "not UTF-8: invalid start byte"),)


def test_blank_lines_and_line_ends(tmp_path: Path) -> None:
    """Blank lines, a byte order mark, Windows line ends and a missing last one change nothing."""
    expected = mail_scenario(tmp_path / "a", two()).digest
    folder = write_folder(tmp_path / "b", two())
    for file in FILES:
        lines = (folder / file).read_bytes().split(b"\n")[:-1]
        (folder / file).write_bytes(b"\xef\xbb\xbf" + b"\r\n\r\n  \n".join(lines))
    assert AwmFolder(folder).find("mail_desk_1").digest == expected


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line over the limit is a fault, and the lines after it are read as usual."""
    rows = two()
    long = json.dumps({"scenario": "Mail Desk 1", "full_code": "#" * 5000})
    rows[ENVS] = [rows[ENVS][1], long, rows[ENVS][0]]
    monkeypatch.setattr(row_index, "MAX_LINE", 2000)
    folder = AwmFolder(write_folder(tmp_path, rows))
    with pytest.raises(RecordError, match=r"gen_envs\.jsonl: line 2: longer than 2000 bytes"):
        folder.find("mail_desk_1")
    assert folder.find("3d_shop").title == "3D Shop!"


def test_a_file_of_something_else(tmp_path: Path) -> None:
    """A file with more than a thousand invalid lines is refused as a whole."""
    write_folder(tmp_path, two() | {SPEC: ["Dear diary,"] * 1001})
    with pytest.raises(PackageError) as caught:
        AwmFolder(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / SPEC}: not a file of AWM: more than 1000 lines are not valid rows; "
        "the first is line 1: not valid JSON: invalid character (byte 0)"
    )


def test_files_are_not_loaded_into_memory(tmp_path: Path) -> None:
    """Indexing 20 MB needs less than 1 MB."""
    rows = two()
    big = rows[SPEC][0] | {"api_spec": "x" * 100_000}
    rows[SPEC] = [big] * 200
    write_folder(tmp_path, rows)
    tracemalloc.start()
    try:
        folder = AwmFolder(tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / SPEC).stat().st_size > 20_000_000
    assert peak < 1_000_000
    assert folder.names() == ["mail_desk_1", "w_3d_shop"]


def test_settings_are_part_of_a_scenario(tmp_path: Path) -> None:
    """Seeding and clock are part of a scenario, of its digest and of its address."""
    plain = mail_scenario(tmp_path, two())
    clock = "2027-01-01T00:00:00Z"
    other = AwmFolder(tmp_path, seeding="openenv", clock=clock).find("mail_desk_1")
    assert plain.awm is not None and other.awm is not None
    assert (plain.awm.seeding, other.awm.seeding) == ("awm", "openenv")
    assert (plain.clock, other.clock) == (CLOCK, clock)
    assert plain.digest != other.digest
    assert plain.path.name == "mail_desk_1"
    assert other.path.name == "mail_desk_1?seeding=openenv&clock=2027-01-01T00%3A00%3A00Z"
    assert parse_address(other.path.name) == ("mail_desk_1", AwmSettings("openenv", clock))
    with pytest.raises(ValueError, match=r"clock: 'noon' is not a moment in UTC such as"):
        AwmFolder(tmp_path, clock="noon")


def test_an_unknown_scenario_is_refused_with_the_nearest_names(tmp_path: Path) -> None:
    """The error on a name that no file has suggests the names that are most like it."""
    folder = AwmFolder(write_folder(tmp_path, two()))
    for name, hint in (("Mail Dask 1", "; did you mean 'mail_desk_1'?"), ("zzz", "")):
        with pytest.raises(UnknownScenario) as caught:
            folder.find(name)
        assert str(caught.value) == f"{tmp_path}: scenario {name!r} not found among 2{hint}"
