"""From tools.py to tools: the same schemas in every process, arguments checked in plain words."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.inprocess.toolset import BadArguments, Tool, load, load_module
from tests.support.ledger_world import ledger

_TOOLS = '''
from typing import Annotated, Any, Literal

import msgspec

from scenarios.api import Db
from scenarios.errors import ToolError


class Price(msgspec.Struct, forbid_unknown_fields=True):
    """An amount of money."""
    cents: Annotated[int, msgspec.Meta(ge=1)]
    kind: Literal["net", "gross"] = "gross"


class Line(msgspec.Struct, forbid_unknown_fields=True):
    sku: str
    price: Price | None = None


def order(
    db: Db,
    how: Literal["cash", "card", "wire"],
    lines: Annotated[list[Line], msgspec.Meta(min_length=1, description="What to buy.")],
    note: str | None = None,
    level: Literal[3, 1, 2] | None = None,
    weights: dict[str, float] | None = None,
    code: Annotated[str, msgspec.Meta(pattern="^[A-Z]{2}$")] = "AA",
    anything: Any = None,
) -> str:
    """Place an order."""
    return how


def ping(db: Db) -> str:
    """
    Say pong.

        Indented.
    """
    return "pong"


def helper(text: str) -> str:
    return text


def _hidden(db: Db) -> str:
    return ""
'''
_LINES = [{"sku": "a"}]
_TAKES = "how, lines, note, level, weights, code, anything"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tool]:
    return load(ledger(tmp_path_factory.mktemp("toolset"), tools_py=_TOOLS))


def test_tools_and_their_schemas(tools: dict[str, Tool]) -> None:
    """Public functions over a Db are tools; tools and parameters keep their order."""
    assert list(tools) == ["order", "ping"]
    assert tools["ping"].spec.description == "Say pong.\n\n    Indented."
    assert tools["ping"].spec.schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    schema = tools["order"].spec.schema
    assert list(schema["properties"]) == _TAKES.split(", ")
    assert schema["required"] == ["how", "lines"]
    assert schema["properties"]["how"] == {"enum": ["card", "cash", "wire"]}
    assert schema["properties"]["lines"]["description"] == "What to buy."
    assert "$ref" not in str(schema)


@pytest.mark.slow
def test_a_schema_is_the_same_in_every_process(tmp_path: Path, tools: dict[str, Tool]) -> None:
    """A schema does not depend on the order of sets or on Python's hash seed."""
    folder = ledger(tmp_path, tools_py=_TOOLS).path
    program = (
        "import sys; from pathlib import Path; import msgspec; "
        "from rehearsal_room.envpool.inprocess.toolset import load;"
        "from rehearsal_room.scenarios.format import read;"
        "tools = load(read(Path(sys.argv[1]))).values();"
        "print(msgspec.json.encode([tool.spec for tool in tools]).decode())"
    )
    here = msgspec.json.encode([tool.spec for tool in tools.values()]).decode()
    for seed in "123":
        done = subprocess.run(
            [sys.executable, "-c", program, str(folder)],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert done.stdout.decode().strip() == here


def test_arguments_reach_the_function_as_its_types(tools: dict[str, Tool]) -> None:
    """Valid arguments become keyword arguments, with structs built and defaults filled in."""
    given = {"how": "cash", "lines": [{"sku": "é", "price": {"cents": 2**63 - 1}}]}
    arguments = tools["order"].arguments(given)
    assert (arguments["lines"][0].sku, arguments["lines"][0].price.kind) == ("é", "gross")
    assert (arguments["how"], arguments["note"], arguments["code"]) == ("cash", None, "AA")
    assert list(arguments) and set(arguments) == set(_TAKES.split(", "))


def test_a_whole_float_is_an_integer(tools: dict[str, Tool]) -> None:
    """JSON Schema calls 3.0 an integer; 3.5 is none, and a float stays one where one is due."""
    given = {
        "how": "cash",
        "lines": [{"sku": "a", "price": {"cents": 3.0}}],
        "level": 2.0,
        "weights": {"a": 1.0},
    }
    arguments = tools["order"].arguments(given)
    assert (arguments["lines"][0].price.cents, arguments["level"]) == (3, 2)
    assert isinstance(arguments["weights"]["a"], float)
    for wrong in (3.5, 1e300, float("nan")):
        with pytest.raises(BadArguments):
            tools["order"].arguments(given | {"level": wrong})


@pytest.fixture(scope="module")
def unlisted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tool]:
    """The same tools, without their schemas."""
    scenario = ledger(tmp_path_factory.mktemp("unlisted"), tools_py=_TOOLS)
    return load(scenario, schemas=False)


_MESSAGES: dict[str, tuple[Any, str]] = {
    "not an object": ([], "the arguments must be a JSON object."),
    "a text": ("{}", "the arguments must be a JSON object."),
    "null": (None, "the arguments must be a JSON object."),
    "missing": ({"how": "cash"}, f"argument 'lines' is missing. Arguments: {_TAKES}."),
    "unknown": ({"what": 1}, f"there is no argument 'what'. Arguments: {_TAKES}."),
    "unknown half": ({"\ud800": 1}, "there is no argument '\\ud800'."),
    "type": ({"how": 1}, "argument 'how': expected str, got int."),
    "enum": (
        {"how": "coin"},
        "argument 'how': expected one of 'card', 'cash', 'wire', got 'coin'.",
    ),
    "numbers": ({"level": 7}, "argument 'level': expected one of 1, 2, 3, got 7."),
    "boolean": ({"level": True}, "argument 'level': expected int | null, got bool."),
    "pattern": ({"code": "a"}, "argument 'code': expected str matching regex '^[A-Z]{2}$'."),
    "empty": ({"lines": []}, "argument 'lines': expected array of length >= 1."),
    "element": ({"lines": [*_LINES, 5]}, "argument 'lines[1]': expected object, got int."),
    "nested": ({"lines": [{"sku": 5}]}, "argument 'lines[0].sku': expected str, got int."),
    "nested missing": (
        {"lines": [*_LINES, {"price": None}]},
        "argument 'lines[1].sku' is missing. It takes: sku, price.",
    ),
    "nested unknown": (
        {"lines": [{"sku": "a", "num": 1}]},
        "argument 'lines[0]': there is no field 'num'. Fields: sku, price.",
    ),
    "nested bound": (
        {"lines": [{"sku": "a", "price": {"cents": 0}}]},
        "argument 'lines[0].price.cents': expected int >= 1.",
    ),
    "nested enum": (
        {"lines": [{"sku": "a", "price": {"cents": 1, "kind": "x"}}]},
        "argument 'lines[0].price.kind': expected one of 'gross', 'net', got 'x'.",
    ),
    "in an object": ({"weights": {"a": "b"}}, "argument 'weights[...]': expected float, got str."),
    "a name that is not text": (
        {"weights": {1: 2}},
        "a name in argument 'weights': expected str, got int.",
    ),
    "large": ({"anything": 2**63}, "argument 'anything': an integer is larger than 64 bits."),
    "small": ({"level": -(2**63) - 1}, "argument 'level': an integer is larger than 64 bits."),
    "deep inside": (
        {"anything": [{"a": [2**70]}]},
        "argument 'anything': an integer is larger than 64 bits.",
    ),
    "half": ({"note": "a\udc00"}, "argument 'note': half of a surrogate pair is not Unicode text."),
    "NUL": (
        {"note": "a\0b"},
        "argument 'note': a text with the character U+0000 cannot be stored.",
    ),
    "half in an enum": (
        {"how": "\ud800"},
        "argument 'how': half of a surrogate pair is not Unicode text.",
    ),
    "half in a name": (
        {"weights": {"\ud800": 1}},
        "argument 'weights': half of a surrogate pair is not Unicode text.",
    ),
    "not a number": ({"anything": float("nan")}, "argument 'anything': nan is not a JSON number."),
}


@pytest.mark.parametrize("case", _MESSAGES)
def test_a_message_lets_an_agent_correct_its_arguments(
    tools: dict[str, Tool], unlisted: dict[str, Tool], case: str
) -> None:
    """The message names the tool, the argument, what was expected and what was found, also where
    the tools were loaded without their schemas."""
    arguments, message = _MESSAGES[case]
    complete = isinstance(arguments, dict) and case not in ("missing", "unknown", "unknown half")
    arguments = {"how": "cash", "lines": _LINES, **arguments} if complete else arguments
    for order in (tools["order"], unlisted["order"]):
        with pytest.raises(BadArguments) as caught:
            order.arguments(arguments)
        assert str(caught.value) == f"order: {message}"
    assert not unlisted["order"].spec.schema


@pytest.mark.slow
def test_arguments_that_are_nested_deeply(tools: dict[str, Tool]) -> None:
    """Extreme nesting is refused before anything recurses into it."""
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadArguments, match="'anything': a value is nested deeper than 50 levels"):
        tools["order"].arguments({"how": "cash", "lines": _LINES, "anything": deep})
    while isinstance(deep, list):  # freed level by level, because freeing recurses too
        deep = deep.pop()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(_TAKES.split(", ")) | st.text(max_size=4), _JSON) | _JSON)
def test_any_value_is_checked(tools: dict[str, Tool], value: Any) -> None:
    """Any value gives arguments that a log can hold, or a message that a log can hold."""
    try:
        arguments = tools["order"].arguments(value)
    except BadArguments as exc:
        assert str(exc).startswith("order: ")
        str(exc).encode()
        return
    msgspec.msgpack.encode(arguments)


def _tool(signature: str, body: str = '    """x"""') -> str:
    return (
        "from typing import Any\nimport msgspec\nfrom scenarios.api import Db\n"
        f"class Tree(msgspec.Struct):\n    inner: 'list[Tree]'\n"
        f"class Other: pass\n{signature}:\n{body}\n"
    )


_FAULTS = {
    "no annotation": (_tool("def f(db: Db, a)"), "f: parameter 'a' has no annotation"),
    "open ended": (_tool("def f(db: Db, **more: int)"), "f: parameter 'more' is open-ended: "),
    "open list": (_tool("def f(db: Db, *more: int)"), "f: parameter 'more' is open-ended: "),
    "by position": (_tool("def f(db: Db, a: int, /)"), "f: parameter 'a' is positional only: "),
    "mutable": (
        _tool("def f(db: Db, a: list[int] = [])"),
        "f: parameter 'a' has a mutable default",
    ),
    "bad default": (
        _tool("def f(db: Db, a: int = None)"),
        "f: parameter 'a' has default None, which does not match its annotation",
    ),
    "no schema": (_tool("def f(db: Db, b: int, a: Other)"), "f: parameter 'a': "),
    "recursive": (_tool("def f(db: Db, b: int, a: Tree)"), "f: parameter 'a': "),
    "two arrays": (_tool("def f(db: Db, a: list[int] | tuple[str, ...])"), "f: parameter 'a': "),
    "unknown name": (_tool("def f(db: Db, a: 'Nothing')"), "f: its annotations cannot be read: "),
    "no docstring": (_tool("def f(db: Db)", "    pass"), "f: a tool needs a docstring"),
    "awaits": (_tool("async def f(db: Db)"), "f: a tool is a plain function: "),
    "yields": (_tool("def f(db: Db)", '    """x"""\n    yield'), "f: a tool is a plain function: "),
    "no annotation of db": (
        _tool("def f(db, a: int)"),
        "line 7: function 'f' has a parameter 'db' without an annotation: write `db: Db` to make "
        "it a tool, or rename it to '_f' to make it a helper",
    ),
    "no tool": (_tool("def f(a: int)"), "no function has a first parameter annotated Db"),
    "cannot run": ("import nowhere_at_all", "ModuleNotFoundError: No module named "),
    "breaks": ("1 / 0", "ZeroDivisionError: division by zero"),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_bad_tools_are_named(tmp_path: Path, fault: str) -> None:
    """A function that cannot be a tool is a ToolsetError naming file, tool and parameter."""
    text, message = _FAULTS[fault]
    with pytest.raises(ToolsetError) as caught:
        load(ledger(tmp_path, tools_py=text))
    assert str(caught.value).startswith(f"{tmp_path / 'tools.py'}: {message}")


def test_the_file_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the same size and modification time as before is read again, and nothing is written
    beside it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "verify.py"
    for value in (1, 2):
        path.write_text(f"VALUE = {value}\n")
        os.utime(path, (1_000_000_000, 1_000_000_000))
        assert value == load_module(path, "rehearsal_same_size").VALUE
    assert list(tmp_path.iterdir()) == [path]
