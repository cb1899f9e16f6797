"""The gate on many worlds: parallel processes, near-duplicates, the allow-list."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.allow_list import (
    AllowedWorld,
    AllowList,
    read_allow_list,
    write_allow_list,
)
from rehearsal_room.judge.gate.core.near_duplicates import WorldPair, near_duplicates
from rehearsal_room.judge.gate.core.report import GateFailure, WorldGateReport
from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.judge.gate.inputs import is_record, worlds_in
from rehearsal_room.judge.gate.job_pool import CheckOutcome, JobSettings, check_worlds
from rehearsal_room.judge.gate.package import CheckResult
from rehearsal_room.judge.gate.summary import allowed_worlds, gate_report_of, print_report
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.errors import UnknownScenario
from rehearsal_room.scenarios.format import Scenario, read
from tests.support.cli import Rehearse, json_of
from tests.support.mini_world import variant
from tests.support.paths import LIBRARY

FAST = GateSettings(probes=5)
RETURNED = '{"loan_id": loan_id, "returned_on"'


def named(folder: Path, name: str, **edits: tuple[str, str]) -> Path:
    """A variant of the mini world under a name of its own."""
    made = variant(folder / name, **edits)
    head = made / "scenario.toml"
    head.write_text(head.read_text().replace('name = "library"', f'name = "{name}"'))
    return made.rename(folder / name / name)


def no_record(scenario: Scenario) -> CheckResult:
    raise AssertionError(scenario.name)


def checked(settings: JobSettings, *folders: Path) -> dict[str, CheckOutcome]:
    """The outcomes of a check, by name."""
    found = check_worlds([str(folder) for folder in folders], find, settings, no_record)
    return {outcome.name: outcome for outcome in found}


def whys(outcome: CheckOutcome) -> list[tuple[str, str]]:
    return [(failure.check, failure.why) for failure in outcome.report.failures]


@pytest.mark.slow
def test_no_world_is_lost(tmp_path: Path) -> None:
    """A world whose code ends the process, and a folder that is not a package, cost only
    themselves; results that differ in another process are reported."""
    dies = named(tmp_path, "dies", tools=("from typing", "import os\nos._exit(3)\nfrom typing"))
    order = f'{{"odd": str({{"a", "b", "c", "d", "e", "f", "g"}}), {RETURNED[1:]}'
    moody = named(tmp_path, "moody", tools=(RETURNED, order))
    half = named(tmp_path, "half")
    (half / "scenario.toml").unlink()
    sound = named(tmp_path, "sound")

    found = checked(JobSettings(jobs=2, gate=FAST), dies, moody, half, sound)

    assert whys(found["sound"]) == []
    assert found["sound"].tasks == tuple(task.id for task in read(LIBRARY).tasks)
    dead = "its check ended early: its process ended with exit status 3"
    assert whys(found["dies"]) == [("crash", dead)]
    assert whys(found["half"]) == [("package", f"{half}/scenario.toml: the file is missing")]
    [(check, why)] = whys(found["moody"])
    assert (check, why[:50]) == (
        "determinism",
        "in another process return_book(loan_id=301) gives ",
    )


@pytest.mark.slow
def test_a_world_that_hangs_is_stopped(tmp_path: Path) -> None:
    """A check that misses its deadline is ended, and reported so."""
    hangs = named(tmp_path, "hangs", tools=("from typing", "while True:\n    pass\nfrom typing"))
    found = checked(JobSettings(gate=FAST, deadline=1.0), hangs)
    late = "its check ended early: it took longer than 1 s and was stopped"
    assert whys(found["hangs"]) == [("crash", late)]


@pytest.mark.slow
def test_a_models_package_is_checked_in_a_sandbox(tmp_path: Path) -> None:
    """Its code runs in a confined process: forbidden actions fail, and the rest is checked."""
    head = ('version = "', 'written_by = "model"\nversion = "')
    outside = 'open("/etc/hostname").read()\nfrom typing'
    prying = named(tmp_path, "prying", scenario=head, tools=("from typing", outside))
    tame = named(tmp_path, "tame", scenario=head)

    found = checked(JobSettings(gate=FAST), prying, tame)

    assert whys(found["tame"]) == []
    [(check, why)] = whys(found["prying"])
    assert check == "tools"
    assert "PermissionError" in why


def test_worlds_are_found_in_folders(tmp_path: Path) -> None:
    """A name, a package, and a folder of packages without hidden ones are accepted; a name that
    nothing has is refused before anything is checked."""
    one, two = named(tmp_path, "one"), named(tmp_path, "two")
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    one.rename(shelf / "one")
    two.rename(shelf / "two")
    (shelf / ".three").mkdir()
    (shelf / "notes").mkdir()
    assert worlds_in([str(shelf), "shop_support", str(shelf / "two")]) == [
        str(shelf / "one"),
        str(shelf / "two"),
        "shop_support",
    ]
    with pytest.raises(UnknownScenario, match=re.escape(f"{shelf}/notes: there is no package")):
        worlds_in([str(shelf / "notes")])
    (shelf / "list.json").touch()
    with pytest.raises(UnknownScenario, match=r"list.json' not found"):
        worlds_in([str(shelf), str(shelf / "list.json")])


def test_records_are_distinguished_from_packages() -> None:
    """A path inside a folder of AWM's files names a record, a package's folder does not."""
    awm = LIBRARY.parent.parent / "awm"
    assert worlds_in([str(awm)]) == [f"{awm}/e_commerce_lab_1"]
    assert is_record(f"{awm}/e_commerce_lab_1")
    assert not is_record(str(LIBRARY))
    assert not is_record("shop_support")


def test_near_duplicates_are_pairs_with_many_common_features() -> None:
    """The index is common features over all features; the most similar pair comes first."""
    worlds = [
        ("a", range(100)),
        ("b", range(100)),
        ("c", range(5, 100)),
        ("d", range(50, 150)),
        ("empty", ()),
        ("bare", ()),
    ]
    assert near_duplicates(worlds) == [
        WorldPair("a", "b", 1.0),
        WorldPair("a", "c", 0.95),
        WorldPair("b", "c", 0.95),
    ]


def outcome(name: str, *failures: tuple[str, str]) -> CheckOutcome:
    """The outcome of a world of two tasks, with failures given as task and check."""
    found = tuple(GateFailure(name, task, check, "why") for task, check in failures)
    report = WorldGateReport(worlds=1, tasks=2, names=(name,), failures=found)
    return CheckOutcome(name, report, f"digest of {name}", ("t1", "t2"))


def test_sound_worlds_and_tasks_are_allowed() -> None:
    """A failed task is left out, and so is a failed world, unless its tools only mishandle bad
    input; a world without a sound task is not listed."""
    outcomes = [
        outcome("whole"),
        outcome("partly", ("t1", "noop")),
        outcome("broken", ("", "determinism")),
        outcome("rude", ("", "constraint")),
        outcome("hopeless", ("t1", "noop"), ("t2", "oracle")),
    ]
    assert allowed_worlds(outcomes) == [
        AllowedWorld("partly", "digest of partly", ("t2",)),
        AllowedWorld("rude", "digest of rude", ("t1", "t2")),
        AllowedWorld("whole", "digest of whole", ("t1", "t2")),
    ]


def test_two_worlds_of_one_name_are_reported() -> None:
    """Episodes of two packages with one name could not be distinguished."""
    second = msgspec.structs.replace(outcome("a"), digest="another")
    total = gate_report_of([outcome("a"), outcome("b"), second], 1.0)
    why = "another world that was checked has the same name"
    assert total.failures == (GateFailure("a", "", "package", why),)
    assert (total.worlds, total.tasks, total.near_duplicate_share) == (3, 6, 0.0)


def test_of_many_worlds_those_with_failures_are_shown() -> None:
    """With many worlds, only those with failures have rows; the total is last."""
    outcomes = [outcome(f"w{number:02}") for number in range(30)]
    outcomes[7] = outcome("w07", ("t1", "noop"))
    console = Console(width=100)
    with console.capture() as capture:
        print_report(outcomes, gate_report_of(outcomes, 1.0), console)
    rows = [line.split()[:4] for line in capture.get().splitlines()]
    assert rows == [
        ["world", "tasks", "tools", "mutants"],
        ["w07", "2", "0", "0"],
        ["all", "30", "worlds", "60"],
        ["noop", "w07/t1:", "why"],
    ]


# The allow-list in a run --------------------------------------------------------------------


@pytest.mark.slow
def test_an_allow_list_is_written_and_followed(rehearse: Rehearse, tmp_path: Path) -> None:
    """`run --allow` follows the list of `check --allow-list`: a bad task is left out of its world
    and refused by name, and a world that is not listed or has changed is refused."""
    folder = variant(tmp_path, tasks=('kind = "decline"', 'kind = "change"'))
    path = tmp_path / "worlds.ok.json"
    status, out, _ = rehearse("worlds", "check", folder, "--allow-list", path, "--json", "-")
    assert (status, json.loads(out)["worlds"]) == (1, 1)
    [world] = json.loads(path.read_bytes())["worlds"]
    good = [task.id for task in read(folder).tasks if task.id != "blocked"]
    assert world == {"name": "library", "digest": read(folder).digest, "tasks": good}

    run = ("run", folder, "--allow", path, "-o", tmp_path / "run")
    report = json_of(rehearse, *run)
    assert report["episodes"] == len(good)
    status, _, err = rehearse("run", f"{folder}:blocked", "--allow", path)
    assert status == 2
    assert f"{path} does not list task 'blocked' of scenario 'library'" in err
    status, _, err = rehearse("bench", "shop_support", "--allow", path)
    assert status == 2
    assert "does not list scenario 'shop_support': it did not pass the gate" in err
    (folder / "policy.md").write_text("Be kind.")
    status, _, err = rehearse("run", folder, "--allow", path)
    assert status == 2
    assert "the scenario has changed since it was checked" in err


def test_an_invalid_allow_list(tmp_path: Path) -> None:
    """A missing file, and one of another kind, give a sentence."""
    with pytest.raises(SettingsError, match=r"allow: .*none\.json cannot be read: No such file"):
        read_allow_list(tmp_path / "none.json")
    path = tmp_path / "odd.json"
    path.write_text('{"format": "rehearsal.allow-list.1", "worlds": [{"name": "a"}]}')
    with pytest.raises(
        SettingsError, match=r"is not an allow-list: .*missing required field `digest`"
    ):
        read_allow_list(path)
    with pytest.raises(SettingsError, match="cannot be written"):
        write_allow_list(tmp_path / "nowhere" / "list.json", ())


def test_an_allow_list_survives_writing_and_reading(tmp_path: Path) -> None:
    """What was written is allowed, and nothing more."""
    scenario = read(LIBRARY)
    path = tmp_path / "list.json"
    write_allow_list(path, [AllowedWorld("library", scenario.digest, ("overdue", "blocked"))])
    sound = read_allow_list(path).permitted(scenario, scenario.tasks, named=False)
    assert [task.id for task in sound] == ["overdue", "blocked"]
    assert (
        AllowList(path, [AllowedWorld("library", scenario.digest, ())]).permitted(
            scenario, scenario.tasks, named=False
        )
        == ()
    )


def test_where_a_list_cannot_be_written_nothing_is_checked(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """A missing folder is reported before the work, not after it."""
    path = tmp_path / "nowhere" / "list.json"
    status, _, err = rehearse("worlds", "check", LIBRARY, "--allow-list", path)
    assert status == 2
    assert f"--allow-list: {path}: its folder does not exist" in err
