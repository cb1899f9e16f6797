"""The entries of the BFCL as scenarios."""

import shutil
from pathlib import Path

import pytest

from rehearsal_room.scenarios.core.dialogue import ScriptedTurn, UserScript
from rehearsal_room.scenarios.core.suite_record import Said
from rehearsal_room.scenarios.errors import PackageError, UnknownScenario
from rehearsal_room.scenarios.format import Call, Utterance
from rehearsal_room.scenarios.suites.bfcl.answers import reference_call
from rehearsal_room.scenarios.suites.bfcl_entries import BfclData, opening_of, release_of
from rehearsal_room.scenarios.suites.catalogue import SuiteFinder, installed_package, suite
from tests.support.paths import SUITES
from tests.support.suites import DATA, entry


def test_a_multi_turn_entry_is_a_dialogue() -> None:
    """The first text is the instruction, the others are the user's script; the oracle makes the
    reference calls of a turn and then speaks. Positional arguments get their names."""
    task = entry("multi_turn_base").tasks[0]
    assert task.instruction == "Open a ticket 'Lamp'."
    script = (ScriptedTurn("Close the printer ticket and count."),)
    assert task.user == UserScript(script, ends_at_limit=True)
    assert task.oracle == (
        Call("open_ticket", {"title": "Lamp", "priority": 1}),
        Call("close_ticket", {"ticket": "1"}),
        Call("count_tickets"),
    )
    assert task.utterances == (Utterance(1, "Done."),)


def test_a_missed_function_comes_with_its_turn() -> None:
    """A withheld function is a tool of the world, which the agent gets with a later turn."""
    task = entry("multi_turn_miss_func").tasks[0]
    assert isinstance(task.user, UserScript)
    assert (task.user.withheld, task.user.executes_withheld) == (("close_ticket",), True)
    assert [turn.tools for turn in task.user.turns] == [("close_ticket",)]


def test_a_single_turn_entry_ends_with_the_first_reply() -> None:
    """Its functions are tools without dots and with types of JSON schema; all reference calls are
    one reply's."""
    scenario = entry("parallel")
    assert scenario.tasks[0].single_turn
    assert len(scenario.tasks[0].oracle) == 2
    assert scenario.suite is not None
    (tool,) = scenario.suite.world["tools"]
    assert tool["name"] == "shape_area"
    assert tool["schema"]["type"] == "object"
    assert tool["schema"]["properties"]["width"]["type"] == "number"


def test_a_system_message_is_the_rules() -> None:
    """What the data has as system message is not part of the instruction."""
    scenario = entry("irrelevance")
    assert (scenario.rules, scenario.tasks[0].instruction) == ("Be brief.", "Who wrote Faust?")


def test_earlier_messages_are_not_the_instruction() -> None:
    """The talk with which an entry begins keeps its roles; the last text is the instruction."""
    said = [{"role": role, "content": role[0]} for role in ("system", "user", "assistant", "user")]
    assert opening_of(said) == ("s", (Said("user", "u"), Said("assistant", "a")), "u")
    assert opening_of([]) == ("", (), "")


@pytest.mark.parametrize(
    ("changed", "version", "sentence"),
    [
        ("", "2027.1.1", None),
        ("eval_checker/ast_eval/ast_checker.py", "2026.3.23", "has other code or data"),
        ("data/BFCL_v4_parallel.json", "2027.1.1", "is 2027.1.1"),
        ("data/possible_answer/BFCL_v4_parallel.json", "unknown", "has other code or data"),
    ],
)
def test_another_release_and_changed_data_are_refused(
    tmp_path: Path, changed: str, version: str, sentence: str | None
) -> None:
    """Scores belong to the data and the checks of one release; what has others is one sentence,
    which names the release. Equal files are that release, whatever they call themselves."""
    package = tmp_path / "bfcl_eval"
    shutil.copytree(SUITES / "bfcl_eval", package)
    if sentence is None:
        assert release_of(package, version) == "1"
        return
    (package / changed).write_text((package / changed).read_text() + "\n")
    with pytest.raises(PackageError, match=rf"bfcl-eval {sentence}.*pip install .*==2026\.3\.23"):
        release_of(package, version)


@pytest.mark.parametrize(
    ("category", "kind", "inner", "accepted", "written"),
    [
        ("simple_python", "dict", "", [{"a": [1], "b": ["", 2]}], {"a": 1}),
        ("simple_java", "long", "", [150], "150L"),
        ("simple_java", "Array", "integer", [[2, 7]], "new Object[]{2, 7}"),
        ("simple_java", "ArrayList", "long", [[2]], "new ArrayList<>(Arrays.asList(2L))"),
        (
            *("simple_java", "HashMap", "", [{"n": [5], "s": ["x"]}]),
            'new HashMap<String, Object>() {{ put("n", 5); put("s", "x"); }}',
        ),
        ("simple_javascript", "dict", "", [{"on": [True], "s": ["x"]}], '{on: true, s: "x"}'),
        ("simple_javascript", "array", "string", [["a", None]], '["a", null]'),
    ],
)
def test_an_accepted_value_is_written_in_its_language(
    category: str, kind: str, inner: str, accepted: list[object], written: object
) -> None:
    """The first accepted value becomes JSON, or text in Java or JavaScript."""
    described = {"type": kind, "items": {"type": inner}}
    function = {"name": "f.g", "parameters": {"properties": {"x": described}, "required": []}}
    assert reference_call(category, [function], {"f.g": {"x": accepted}}) == Call(
        "f_g", {"x": written}
    )


@pytest.mark.parametrize(
    ("accepted", "required", "arguments"),
    [
        (["", 4], False, {}),
        (["", 4], True, {"x": 4}),
        ([""], True, {"x": ""}),
        ([], True, {"x": []}),
        ([], False, {}),
        ([3, ""], False, {"x": 3}),
    ],
)
def test_an_argument_that_may_be_missing_is_left_out(
    accepted: list[object], required: bool, arguments: dict[str, object]
) -> None:
    """An empty text says that an argument may be missing; one that is required is given."""
    parameters = {"properties": {"x": {"type": "any"}}, "required": ["x"] if required else []}
    function = {"name": "f", "parameters": parameters}
    assert reference_call("multiple", [function], {"f": {"x": accepted}}).arguments == arguments


def test_entries_are_found_by_name() -> None:
    """A finder reads the category that a name begins with."""
    finder = SuiteFinder(suite("bfcl_v3"), DATA)
    assert finder.find("multi_turn_base_1").name == "multi_turn_base_1"
    with pytest.raises(UnknownScenario, match="has no entry 'multi_turn_base_9'"):
        finder.find("multi_turn_base_9")
    with pytest.raises(UnknownScenario, match="did you mean 'bfcl_v3'"):
        suite("bfcl_v33")


def test_a_folder_without_the_data_is_refused(tmp_path: Path) -> None:
    """A folder that has no such package, and one whose package has no data, are one sentence."""
    with pytest.raises(PackageError, match="there is no package 'bfcl_eval' in this folder"):
        installed_package("bfcl_eval", "bfcl-eval", str(tmp_path), "")
    with pytest.raises(PackageError, match="not the folder of the package bfcl_eval"):
        BfclData(tmp_path, "1")
    assert installed_package("bfcl_eval", "bfcl-eval", str(SUITES), "")[0] == SUITES / "bfcl_eval"


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    """A line of the data that is not JSON, and a reference call that is not a call, are named."""
    data = tmp_path / "data"
    (data / "possible_answer").mkdir(parents=True)
    (data / "BFCL_v4_multi_turn_base.json").write_text('{"id": 1}\n{"id"\n')
    with pytest.raises(PackageError, match=r"BFCL_v4_multi_turn_base\.json:2: not JSON"):
        list(BfclData(tmp_path, "1")._entries("BFCL_v4_multi_turn_base.json"))


def test_a_package_in_the_current_folder_is_not_the_suites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks at somebody's folder from within it plays no package that lies there."""
    (tmp_path / "bfcl_eval").mkdir()
    (tmp_path / "bfcl_eval" / "__init__.py").touch()
    described = tmp_path / "bfcl_eval-1.dist-info" / "METADATA"
    described.parent.mkdir()
    described.write_text("Metadata-Version: 2.1\nName: bfcl-eval\nVersion: 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PackageError, match="no package 'bfcl_eval'"):
        installed_package("bfcl_eval", "bfcl-eval", "", "")
