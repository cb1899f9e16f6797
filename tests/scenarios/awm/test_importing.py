"""Importing AWM records, and finding the imported packages."""

import os
from pathlib import Path

import pytest

from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.awm.importing import ImportReport, Refusal, Written, import_awm
from rehearsal_room.scenarios.awm.join import Duplicate
from rehearsal_room.scenarios.awm.package import RecordSource, write
from rehearsal_room.scenarios.catalogue import (
    CatalogueEntry,
    bundled_names,
    catalogue_entries,
    find,
    imported_names,
    is_trusted,
)
from rehearsal_room.scenarios.errors import PackageError, UnknownScenario
from rehearsal_room.scenarios.format import Scenario, Seeding, read
from tests.support.awm_files import (
    CODE,
    ENVS,
    SPEC,
    SQL,
    TASKS,
    Rows,
    mail_scenario,
    rows_of,
    two,
    write_folder,
)
from tests.support.ledger_world import write_package
from tests.support.paths import AWM


def test_all_scenarios_are_imported(tmp_path: Path) -> None:
    """Every scenario becomes a package with the content of its record."""
    folder, out = write_folder(tmp_path / "awm", two()), tmp_path / "worlds"
    report = import_awm(folder, out)
    assert report == ImportReport(
        written=(
            Written("mail_desk_1", out / "mail_desk_1", 2),
            Written("w_3d_shop", out / "w_3d_shop", 2),
        ),
        refused=(),
        duplicates=(),
        tasks_without_sql=0,
        tasks_without_code=0,
        stray_verifiers=0,
    )
    records = AwmFolder(folder)
    assert sorted(os.listdir(out)) == records.names()
    for name in records.names():
        assert read(out / name).digest == records.find(name).digest


def _broken() -> Rows:
    """Four scenarios, two of them broken, and a line that names no scenario."""
    rows = two()
    for name, later in (
        ("Bad Code", rows_of("Bad Code", "bad_code")),
        ("No Tasks", rows_of("No Tasks", "no_tasks")),
    ):
        for file, values in later.items():
            rows[file] += [] if (name, file) == ("No Tasks", TASKS) else values
    rows[ENVS][2]["full_code"] = "import os\ndef f(:\n"
    rows[ENVS].append('{"scenario": "Half Wr')
    rows[CODE].insert(0, rows[CODE][0])
    rows[SQL][2]["verification"] = None
    rows[SQL].append(rows[SQL][0] | {"task_idx": 7})
    return rows


def test_broken_records_are_listed_and_the_others_imported(tmp_path: Path) -> None:
    """Broken scenarios are refused with file, line and reason; valid ones are written."""
    out = tmp_path / "worlds"
    report = import_awm(write_folder(tmp_path / "awm", _broken()), out)
    assert report == ImportReport(
        written=(
            Written("mail_desk_1", out / "mail_desk_1", 2),
            Written("w_3d_shop", out / "w_3d_shop", 2),
        ),
        refused=(
            Refusal("bad_code", ENVS, 3, "full_code: line 2: invalid syntax"),
            Refusal("no_tasks", TASKS, None, "there is no row for scenario 'no_tasks'"),
            Refusal(None, ENVS, 5, "not valid JSON: input data was truncated"),
        ),
        duplicates=(Duplicate("w_3d_shop", CODE, (1, 2), 1, 0),),
        tasks_without_sql=1,
        tasks_without_code=0,
        stray_verifiers=1,
    )
    assert sorted(os.listdir(out)) == ["mail_desk_1", "w_3d_shop"]


def test_a_truncated_file_changes_no_scenario(tmp_path: Path) -> None:
    """Wherever a file is cut off, each scenario is written unchanged or refused."""
    folder = write_folder(tmp_path / "awm", two())
    digests = {name: AwmFolder(folder).find(name).digest for name in AwmFolder(folder).names()}
    whole = (folder / TASKS).read_bytes()
    seen = set()
    for size in range(0, len(whole) + 1, 7):
        (folder / TASKS).write_bytes(whole[:size])
        out = tmp_path / f"worlds{size}"
        report = import_awm(folder, out)
        written = {one.name: read(one.path).digest for one in report.written}
        assert written.items() <= digests.items()
        assert {one.scenario for one in report.refused} - {None} == digests.keys() - written.keys()
        seen.add(len(written))
    assert seen == {0, 1, 2}


def test_selected_scenarios(tmp_path: Path) -> None:
    """Names select scenarios, in any spelling and also repeated; lines without a scenario are
    still reported."""
    folder, out = write_folder(tmp_path / "awm", _broken()), tmp_path / "worlds"
    report = import_awm(folder, out, names=["Mail-Desk 1", "mail_desk_1", "bad_code"])
    assert [one.name for one in report.written] == ["mail_desk_1"]
    assert [one.scenario for one in report.refused] == ["bad_code", None]
    assert report.duplicates == ()
    assert os.listdir(out) == ["mail_desk_1"]


def test_an_unknown_name_stops_before_anything_is_written(tmp_path: Path) -> None:
    """A name that no file has is the caller's mistake: nothing is written."""
    folder, out = write_folder(tmp_path / "awm", two()), tmp_path / "worlds"
    with pytest.raises(UnknownScenario, match="scenario 'mail_desk_2' not found among 2; did you"):
        import_awm(folder, out, names=["mail_desk_1", "mail_desk_2"])
    assert not out.exists()


def test_a_scenario_can_be_examined_first(tmp_path: Path) -> None:
    """A reason that the caller returns refuses a scenario, with the line of its code."""
    folder, out = write_folder(tmp_path / "awm", two()), tmp_path / "worlds"
    seen: list[str] = []

    def examine(scenario: Scenario) -> str | None:
        seen.append(scenario.name)
        return "server.py: line 7: no such module" if scenario.title == "Mail Desk 1" else None

    report = import_awm(folder, out, examine=examine)
    assert seen == ["mail_desk_1", "w_3d_shop"]
    assert report.refused == (Refusal("mail_desk_1", ENVS, 2, "server.py: line 7: no such module"),)
    assert os.listdir(out) == ["w_3d_shop"]


def test_progress_is_reported(tmp_path: Path) -> None:
    """Progress is reported before each scenario and at the end."""
    reported: list[tuple[int, int, str]] = []
    folder = write_folder(tmp_path / "awm", two())
    import_awm(folder, tmp_path / "worlds", progress=lambda *args: reported.append(args))
    assert reported == [(0, 2, "mail_desk_1"), (1, 2, "w_3d_shop"), (2, 2, "")]


def test_existing_packages_and_files_are_left_unchanged(tmp_path: Path) -> None:
    """A package of that name that people wrote is left unchanged; the error on a folder that cannot
    be written to is one sentence."""
    folder, out = write_folder(tmp_path / "awm", two()), tmp_path / "worlds"
    write_package(out / "mail_desk_1")
    report = import_awm(folder, out)
    assert report.refused == (
        Refusal(
            scenario="mail_desk_1",
            file=str(out / "mail_desk_1"),
            line=None,
            reason="something that is not an AWM package has this name; it is left unchanged",
        ),
    )
    assert [one.name for one in report.written] == ["w_3d_shop"]
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(PackageError) as caught:
        import_awm(folder, blocked)
    assert str(caught.value).startswith(f"{blocked}: packages cannot be written there: ")


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The worlds folder, with "Mail Desk 1" and "3D Shop!" imported."""
    out = tmp_path / "worlds"
    import_awm(write_folder(tmp_path / "awm", two()), out)
    monkeypatch.setenv("REHEARSE_WORLDS", str(out))
    return out


def test_imported_worlds_are_in_the_catalogue(worlds: Path) -> None:
    """Imported worlds are found and listed by name, and are not trusted."""
    assert imported_names() == ["mail_desk_1", "w_3d_shop"]
    scenario = find("w_3d_shop")
    assert (scenario.title, scenario.path) == ("3D Shop!", worlds / "w_3d_shop")
    assert not is_trusted(scenario)
    assert is_trusted(find("shop_support"))
    names = [*bundled_names(), "mail_desk_1", "w_3d_shop"]
    assert [(one.name, one.path.name, one.fault) for one in catalogue_entries()] == [
        (name, name, "") for name in names
    ]
    assert [one.scenario for one in catalogue_entries()] == [find(name) for name in names]


def test_the_default_worlds_folder(
    tmp_path: Path, worlds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without $REHEARSE_WORLDS it is `worlds` in the current folder, which need not exist."""
    monkeypatch.delenv("REHEARSE_WORLDS")
    monkeypatch.chdir(tmp_path)
    assert find("mail_desk_1").path == Path("worlds/mail_desk_1")
    monkeypatch.chdir(worlds)
    assert imported_names() == []


def test_a_broken_package_is_listed_with_its_fault(worlds: Path) -> None:
    """One broken package does not hide the others."""
    (worlds / "mail_desk_1" / "tasks.json").unlink()
    broken, whole = list(catalogue_entries())[-2:]
    fault = f"{worlds / 'mail_desk_1' / 'tasks.json'}: the file is missing"
    assert broken == CatalogueEntry("mail_desk_1", worlds / "mail_desk_1", None, fault)
    assert whole.scenario == find("w_3d_shop")


def test_an_unknown_name_is_refused_with_the_catalogue(worlds: Path) -> None:
    """The error names the bundled scenarios and the number of imported ones, or the nearest name
    of either."""
    for name in ("nowhere", ""):
        with pytest.raises(UnknownScenario) as caught:
            find(name)
        assert str(caught.value) == (
            f"scenario {name!r} not found: no folder has this path, and no scenario this name; "
            f"bundled scenarios are {', '.join(bundled_names())}, and {worlds} has 2 more"
        )
    with pytest.raises(UnknownScenario, match="did you mean 'mail_desk_1'"):
        find("mail_desk")


@pytest.mark.parametrize("seeding", ["awm", "openenv"])
def test_a_record_is_found_by_its_address(tmp_path: Path, seeding: Seeding) -> None:
    """The path of a scenario that was not imported finds the scenario with the same settings."""
    scenario = mail_scenario(tmp_path, two(), seeding)
    assert find(str(scenario.path)) == scenario
    rows = two()
    rows[SPEC] = []
    rows[ENVS][1]["full_code"] = "app = 'another'\n"
    (tmp_path / SPEC).unlink()
    write_folder(tmp_path, rows)
    assert find(str(scenario.path)).digest != scenario.digest


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("mail_desk_2", "scenario 'mail_desk_2' not found among 2; did you mean 'mail_desk_1'?"),
        (
            "mail_desk_1?cloc=1",
            "not the address of a record: object contains unknown field `cloc`; "
            "did you mean 'clock'?",
        ),
        (
            "mail_desk_1?seeding=x",
            "is not the address of a record: seeding: 'x' is not one of 'awm', 'openenv', 'strict'",
        ),
        (
            "mail_desk_1?clock=x",
            "is not the address of a record: clock: 'x' is not a moment in UTC",
        ),
    ],
)
def test_an_invalid_address_is_refused(tmp_path: Path, address: str, fault: str) -> None:
    """The error names the folder and what is wrong with the address."""
    write_folder(tmp_path, two())
    with pytest.raises(UnknownScenario) as caught:
        find(f"{tmp_path}/{address}")
    assert fault in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}: ")


def test_importing_does_not_change_the_digest(tmp_path: Path) -> None:
    """A record has the same digest whether it was imported or not."""
    direct = AwmFolder(AWM).find("E-Commerce Lab 1")
    imported = write(direct, tmp_path, RecordSource(AWM, ()))
    assert find(str(imported)).digest == direct.digest == find(str(direct.path)).digest
