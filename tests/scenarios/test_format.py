"""Reading packages: what is read, and a sentence for every fault."""

from pathlib import Path

import pytest

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.catalogue import bundled_names, find, is_bundled
from rehearsal_room.scenarios.errors import PackageError, UnknownScenario
from rehearsal_room.scenarios.files import compiled, keep_compiled, python_fault
from rehearsal_room.scenarios.format import BUNDLED, FILES, Call, Task, read, read_identity
from rehearsal_room.scenarios.task_tables import TaskTables
from tests.support.ledger_world import TASKS, ledger, write_package

_HEAD = "scenario.toml"
_TASKS = "tasks.toml"
_CLOCK = "2026-03-14T09:30:00Z"
_UTC = "is not a moment in UTC such as '2026-03-14T09:30:00Z'"
_ORACLE = '{ name = "open_account", arguments = { name = "petty" } }'
_OPEN = "line 2: task 'open': "

# fault: (file, its text, the text instead, the beginning of the sentence after the file's name)
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
        "object contains unknown field `colour`; the fields are name, title, version, description, "
        "clock, user, written_by",
    ),
    "user's key": (
        *(_HEAD, 'role = "', 'rule = "'),
        "user: object contains unknown field `rule`; did you mean 'role'?",
    ),
    "author": (
        *(_HEAD, "[user]", 'written_by = "robot"\n[user]'),
        "written_by: 'robot' is not one of 'model', 'people'",
    ),
    "user's type": (_HEAD, '"clerk"', "[]", "user.role: expected `str`, got `array`"),
    "no task": (_TASKS, TASKS, "task = []", "task: the package has no task"),
    "nothing": (_TASKS, TASKS, "", "object missing required field `task`"),
    "no tasks": (_TASKS, TASKS, "task = 1", "task: expected `array`, got `int`"),
    "odd id": (
        *(_TASKS, '"open"', '"Open it"'),
        "line 2: task 'Open it': id: 'Open it' is not a lower-case word",
    ),
    "no id": (_TASKS, 'id = "open"', "", "line 2: task[0]: object missing required field `id`"),
    "an id of another type": (_TASKS, '"open"', "7", "line 2: task[0]: id: expected `str`, got"),
    "twice": (_TASKS, TASKS, TASKS * 2, "line 10: task 'open': id: 'open' occurs twice"),
    "blank answer": (_TASKS, '"Opened."', '" "', f"{_OPEN}answer: must not be empty"),
    "no instruction": (_TASKS, '"Open an account named petty."', '""', f"{_OPEN}instruction:"),
    "difficulty": (
        *(_TASKS, '"simple"', '"easy"'),
        f"{_OPEN}difficulty: 'easy' is not one of 'hard', 'medium', 'simple', 'unrated'",
    ),
    "kind": (
        *(_TASKS, '"change"', '"alter"'),
        f"{_OPEN}kind: 'alter' is not one of 'change', 'decline', 'open', 'question'",
    ),
    "task's key": (
        *(_TASKS, "answer =", "anwser ="),
        f"{_OPEN}object contains unknown field `anwser`; did you mean 'answer' or 'user'?",
    ),
    "oracle's key": (
        *(_TASKS, "arguments =", "args ="),
        f"{_OPEN}oracle[0]: object contains unknown field `args`; did you mean 'arguments'?",
    ),
    "oracle's type": (_TASKS, _ORACLE, '"x"', f"{_OPEN}oracle[0]: expected `object`, got `str`"),
    "a date": (
        *(_TASKS, '"petty" }', "{ on = [2026-03-14] } }"),
        f"{_OPEN}oracle[0].arguments.name.on[0]: 2026-03-14 has no form in JSON",
    ),
    "a large integer": (
        *(_TASKS, '"petty" }', f"{2**63} }}"),
        f"{_OPEN}oracle[0].arguments.name: {2**63} has more than 64 bits, so it has no form",
    ),
    "infinity": (
        *(_TASKS, '"petty" }', "inf }"),
        f"{_OPEN}oracle[0].arguments.name: inf has no form in JSON",
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
    """Every fault of a package is one sentence with the file and the field in front; in tasks.toml
    also with the line and the id of the task."""
    name, old, new, sentence = _FAULTS[fault]
    path = write_package(tmp_path) / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PackageError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{path}: {sentence}")
    assert "\n" not in str(caught.value)


_LINES = {  # name: (the text of tasks.toml, how the message names the second task)
    "spaces and comments": (
        f"# first\n{TASKS}\n  [[ task ]]  # second\n{TASKS.strip().removeprefix('[[task]]')}",
        "line 11: task 'open'",
    ),
    "an array of tables": ('task = [{ id = "a" }, { id = "b" }]', "task 'b'"),
    "a header inside of a text": (
        f"{TASKS}{TASKS}".replace('"Opened."', '"""\n[[task]]\nOpened."""', 1),
        "task 'open'",
    ),
}


@pytest.mark.parametrize("case", _LINES)
def test_the_line_of_a_task_is_named_where_it_is_known(tmp_path: Path, case: str) -> None:
    """Lines are counted from 1 at `[[task]]`; a file with other headers gets no wrong line."""
    text, name = _LINES[case]
    assert TaskTables(tmp_path / "tasks.toml", text).name(1) == name


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """A package without one of its files is refused."""
    (write_package(tmp_path) / name).unlink()
    with pytest.raises(PackageError) as caught:
        read(tmp_path)
    assert str(caught.value) == f"{tmp_path / name}: the file is missing"


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_text_is_named(tmp_path: Path, name: str) -> None:
    """A file that is not UTF-8, or a folder of the file's name, is named."""
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


def test_reading_a_package(tmp_path: Path) -> None:
    """Reading returns the head, the scripts, the rules and the tasks, and runs no code."""
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
    """A task's verifier is named after its id, unless the task names another function."""
    task = Task("cancel-9", "Cancel.", "hard", "change", "Done.")
    named = Task("cancel-9", "Cancel.", "hard", "change", "Done.", verify="cancelled")
    assert (task.verifier, named.verifier) == ("cancel_9", "cancelled")


def test_an_unknown_task(tmp_path: Path) -> None:
    """The error names the nearest tasks, the number of tasks and the command that lists them."""
    listed = f"listed by `rehearse worlds show {tmp_path}`"
    with pytest.raises(UnknownScenario) as caught:
        ledger(tmp_path).task("close")
    assert str(caught.value) == f"scenario 'ledger' has no task 'close'; it has 1 task, {listed}"
    with pytest.raises(UnknownScenario) as caught:
        ledger(tmp_path).task("opne")
    assert str(caught.value) == (
        f"scenario 'ledger' has no task 'opne'; did you mean 'open'? It has 1 task, {listed}"
    )


def test_an_unknown_task_of_a_bundled_scenario() -> None:
    """The error stays short: it names no more than three of the tasks, and the scenario's name."""
    with pytest.raises(UnknownScenario) as caught:
        find("shop_support").task("refund-damaged")
    text, count = str(caught.value), len(find("shop_support").tasks)
    assert text.startswith("scenario 'shop_support' has no task 'refund-damaged'")
    assert text.endswith(f"has {count} tasks, listed by `rehearse worlds show shop_support`")
    assert text.count("'") <= 2 * (2 + 3)


@pytest.mark.parametrize("name", FILES)
def test_the_digest_covers_every_file(tmp_path: Path, name: str) -> None:
    """Equal packages have equal digests in any folder; one more byte in any file changes them."""
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
    """A folder's path finds a scenario that does not count as bundled."""
    scenario = find(str(write_package(tmp_path / "mine")))
    assert scenario.name == "ledger"
    assert not is_bundled(scenario)


@pytest.mark.parametrize("name", ["nowhere", "x\0y", "x" * 5000])
def test_an_unknown_name_is_refused_with_the_names_that_exist(name: str) -> None:
    """A name that is near to none is refused with the names of the bundled scenarios."""
    with pytest.raises(UnknownScenario) as caught:
        find(name)
    assert str(caught.value) == (
        f"scenario {name!r} not found: no folder has this path, and no scenario this name; "
        "bundled scenarios are claims_desk, flight_desk, shop_support"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("shop", "did you mean 'shop_support'?"),
        ("shop_suport", "did you mean 'shop_support'?"),
        ("desk", "did you mean 'claims_desk' or 'flight_desk'?"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_names(name: str, hint: str) -> None:
    """A part of a name suffices, and so does a misspelt name."""
    with pytest.raises(UnknownScenario) as caught:
        find(name)
    assert str(caught.value) == f"scenario {name!r} not found; {hint}"


def test_an_empty_folder_is_not_a_package(tmp_path: Path) -> None:
    """The error on a folder without a package names the first missing file."""
    with pytest.raises(PackageError, match=r"scenario\.toml: the file is missing"):
        find(str(tmp_path))


@pytest.mark.parametrize("name", bundled_names())
def test_an_identity_is_that_of_the_whole_package(name: str) -> None:
    """Name, author and digest are known without the tasks, and before the files are checked."""
    whole, identity = read(BUNDLED / name), read_identity(BUNDLED / name)
    assert identity.tasks == ()
    assert (identity.name, identity.digest, identity.written_by, identity.path) == (
        *(whole.name, whole.digest, whole.written_by, whole.path),
    )


def test_code_is_compiled_once_and_only_the_latest_is_kept() -> None:
    """Checking a text compiles it for who executes it, under the name of its file; code that
    another process has compiled takes its place; older code is compiled again."""
    assert python_fault("x = 1", "a.py") is None
    code = compiled("x = 1", "a.py")
    assert code is compiled("x = 1", "a.py")
    assert code.co_filename == "a.py"
    assert compiled("x = 1", "b.py") is not code
    own = compile("x = 2", "a.py", "exec")
    keep_compiled("x = 2", "a.py", own)
    assert compiled("x = 2", "a.py") is own
    for number in range(20):
        compiled(f"x = {number}", "c.py")
    assert compiled("x = 2", "a.py") is not own
