"""Reading packages: what is read, and a sentence for whatever is wrong."""

from pathlib import Path

import pytest

from scenarios.api import User
from scenarios.catalogue import BUNDLED, bundled_names, find, is_bundled
from scenarios.errors import PackageError, UnknownScenario
from scenarios.format import FILES, Call, Task, read
from tests.support.ledger_world import TASKS, ledger, write_package

_HEAD = "scenario.toml"
_TASKS = "tasks.toml"
_CLOCK = "2026-03-14T09:30:00Z"
_UTC = "is not a moment in UTC such as '2026-03-14T09:30:00Z'"
_ORACLE = '{ name = "open_account", arguments = { name = "petty" } }'

# fault: (file, text there, text instead, the sentence after the file's name)
_FAULTS = {
    "no TOML": (_HEAD, "[user]", "[user", "not valid TOML: Expected ']' at the end"),
    "nested": (_HEAD, '"Ledger"', "[" * 5000, "not valid TOML: it is nested too deeply"),
    "no name": (_HEAD, 'name = "ledger"\n', "", "object missing required field `name`"),
    "odd name": (_HEAD, '"ledger"', '"The Ledger"', "name: 'The Ledger' is not a lower-case"),
    "blank title": (_HEAD, '"Ledger"', '" "', "title: must not be empty"),
    "blank version": (_HEAD, 'version = "1"', 'version = ""', "version: must not be empty"),
    "version": (_HEAD, 'version = "1"', "version = 1", "version: expected `str`, got `int`"),
    "blank description": (_HEAD, '"Accounts and entries."', '""', "description: must not be empty"),
    "no time": (_HEAD, _CLOCK, "yesterday", f"clock: 'yesterday' {_UTC}"),
    "no zone": (_HEAD, _CLOCK, "2026-03-14T09:30:00", f"clock: '2026-03-14T09:30:00' {_UTC}"),
    "no day": (_HEAD, _CLOCK, "2026-02-30T09:30:00Z", f"clock: '2026-02-30T09:30:00Z' {_UTC}"),
    "TOML time": (_HEAD, f'"{_CLOCK}"', _CLOCK, "clock: expected `str`, got `datetime`"),
    "unknown key": (
        _HEAD,
        "[user]",
        "colour = 1\n[user]",
        "object contains unknown field `colour`",
    ),
    "user's key": (_HEAD, 'role = "', 'rule = "', "user: object "),
    "user's type": (_HEAD, '"clerk"', "[]", "user.role: expected `str`, got `array`"),
    "no task": (_TASKS, TASKS, "task = []", "task: the package has no task"),
    "nothing": (_TASKS, TASKS, "", "object missing required field `task`"),
    "odd id": (_TASKS, '"open"', '"Open it"', "task[0].id: 'Open it' is not a lower-case word"),
    "twice": (_TASKS, TASKS, TASKS * 2, "task[1].id: 'open' is there twice"),
    "blank answer": (_TASKS, '"Opened."', '" "', "task 'open': answer: must not be empty"),
    "no instruction": (_TASKS, '"Open an account named petty."', '""', "task 'open': instruction:"),
    "difficulty": (_TASKS, '"simple"', '"easy"', "task[0].difficulty: invalid enum value 'easy'"),
    "kind": (_TASKS, '"change"', '"alter"', "task[0].kind: invalid enum value 'alter'"),
    "task's key": (_TASKS, "answer =", "reply =", "task[0]: object "),
    "oracle's key": (_TASKS, "arguments =", "args =", "task[0].oracle[0]: object contains unknown"),
    "oracle's type": (_TASKS, _ORACLE, '"x"', "task[0].oracle[0]: expected `object`, got `str`"),
    "a date": (
        *(_TASKS, '"petty" }', "{ on = [2026-03-14] } }"),
        "task 'open': oracle[0].arguments.name.on[0]: 2026-03-14 has no like in JSON",
    ),
    "a large integer": (
        *(_TASKS, '"petty" }', f"{2**63} }}"),
        f"task 'open': oracle[0].arguments.name: {2**63} has more than 64 bits and no like in JSON",
    ),
    "infinity": (
        *(_TASKS, '"petty" }', "inf }"),
        "task 'open': oracle[0].arguments.name: inf has no like in JSON",
    ),
    "tools": ("tools.py", "def wipe(db: Db) -> int:", "def wipe(db: Db) -> int", "line "),
    "zero byte": (
        "tools.py",
        '"""Tools',
        '"""\0Tools',
        "source code string cannot contain null bytes",
    ),
    "verify": ("verify.py", "check = Check(", "check = = Check(", "line 7: invalid syntax"),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_fault_is_named(tmp_path: Path, fault: str) -> None:
    """Whatever is wrong in a package is one sentence with the file and the field in front."""
    name, old, new, sentence = _FAULTS[fault]
    path = write_package(tmp_path) / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PackageError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{path}: {sentence}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """Every file of a package must be there."""
    (write_package(tmp_path) / name).unlink()
    with pytest.raises(PackageError) as caught:
        read(tmp_path)
    assert str(caught.value) == f"{tmp_path / name}: the file is missing"


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, name: str) -> None:
    """A file that is not UTF-8, or a folder in its place, is named."""
    path = write_package(tmp_path) / name
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PackageError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{path}: the file cannot be read as UTF-8 text: ")
    path.unlink()
    path.mkdir()
    with pytest.raises(PackageError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{path}: the file cannot be read as UTF-8 text: ")


def test_a_package_as_it_is_read(tmp_path: Path) -> None:
    """Reading gives the head, the scripts, the rules and the tasks, and runs no code."""
    scenario = ledger(tmp_path, policy_md="\n# Rules\n", tools_py="raise SystemExit")
    assert (scenario.name, scenario.title, scenario.version) == ("ledger", "Ledger", "1")
    assert scenario.clock == "2026-03-14T09:30:00Z"
    assert scenario.user == User("u1", "Ada Lindqvist", "clerk")
    assert (scenario.rules, scenario.path) == ("# Rules", tmp_path)
    task = Task(
        id="open",
        instruction="Open an account named petty.",
        difficulty="simple",
        kind="change",
        answer="Opened.",
        oracle=(Call("open_account", {"name": "petty"}),),
    )
    assert scenario.tasks == (task,)
    assert scenario.task("open") is scenario.tasks[0]


def test_a_verifiers_name() -> None:
    """A task's verifier is named after its id, unless it says otherwise."""
    task = Task("cancel-9", "Cancel.", "hard", "change", "Done.")
    named = Task("cancel-9", "Cancel.", "hard", "change", "Done.", verify="cancelled")
    assert (task.verifier, named.verifier) == ("cancel_9", "cancelled")


def test_an_unknown_task(tmp_path: Path) -> None:
    """Asking for a task that is not there names the scenario and its tasks."""
    with pytest.raises(UnknownScenario) as caught:
        ledger(tmp_path).task("close")
    assert str(caught.value) == "scenario 'ledger' has no task 'close'; it has open"


@pytest.mark.parametrize("name", FILES)
def test_the_digest_covers_every_file(tmp_path: Path, name: str) -> None:
    """Equal packages have equal digests, wherever they lie; one byte in any file tells them
    apart."""
    first = ledger(tmp_path / "a")
    second = write_package(tmp_path / "b")
    assert read(second).digest == first.digest
    with (second / name).open("a", encoding="utf-8") as file:
        file.write("\n")
    assert read(second).digest != first.digest


def test_bundled_worlds_are_found_by_name() -> None:
    """Every bundled world is read under its folder's name and counts as trusted."""
    names = bundled_names()
    assert names == ["claims_desk", "flight_desk", "shop_support"]
    for name in names:
        scenario = find(name)
        assert (scenario.name, scenario.path) == (name, BUNDLED / name)
        assert is_bundled(scenario)


def test_a_package_is_found_by_path(tmp_path: Path) -> None:
    """A folder's path is a scenario too, and its code is not trusted."""
    scenario = find(str(write_package(tmp_path / "mine")))
    assert scenario.name == "ledger"
    assert not is_bundled(scenario)


@pytest.mark.parametrize("name", ["nowhere", "x\0y", "x" * 5000])
def test_nothing_of_that_name(name: str) -> None:
    """A name that is neither a world nor a folder is told with what there is."""
    with pytest.raises(UnknownScenario) as caught:
        find(name)
    assert str(caught.value) == (
        f"there is no scenario {name!r}: no folder of that path, and bundled are "
        "claims_desk, flight_desk, shop_support"
    )


def test_an_empty_folder_is_no_package(tmp_path: Path) -> None:
    """A folder without a package names the first file that is missing."""
    with pytest.raises(PackageError, match=r"scenario\.toml: the file is missing"):
        find(str(tmp_path))
