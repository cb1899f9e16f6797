"""What a specification says about parameters reaches the schema that an agent sees."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.inprocess.toolset import load
from rehearsal_room.scenarios.synth.core.package_files import package_texts, write_package
from rehearsal_room.scenarios.synth.core.signatures import described
from rehearsal_room.scenarios.synth.core.world_drafts import ToolDraft, ToolParameter
from tests.support.synth_draft import world_draft

CODE = '''"""The tools."""
from __future__ import annotations

from typing import Literal

from scenarios.api import Db, Row


def extend(
    db: Db, loan_id: int, days: int | None = None, word: Literal["a", "ä"] = "ä", *, note: str = ""
) -> Row:
    """Extend a loan."""
    return {"loan_id": loan_id}
'''
EXTEND = ToolDraft(
    "extend",
    "Extends a loan.",
    {
        "loan_id": ToolParameter("integer", description="The loan, from list_loans."),
        "days": ToolParameter("integer", False, 'Days to "add".', minimum=1, maximum=7),
        "word": ToolParameter(required=False, description="Größe, in\nwords."),
        "note": ToolParameter(required=False),
    },
)


def schema_of(folder: Path, code: str, *tools: ToolDraft) -> dict[str, Any]:
    """The properties of the only tool, as an agent sees them."""
    draft = msgspec.structs.replace(world_draft(), code=code, tools=tools)
    [tool] = load(write_package(folder / "p", package_texts(draft))).values()
    return dict(tool.spec.schema["properties"])


def test_descriptions_and_ranges_reach_the_agent(tmp_path: Path) -> None:
    """With the parameters in the order of the function, and whatever characters are in them."""
    found = schema_of(tmp_path, CODE, EXTEND)
    assert list(found.items()) == [
        ("loan_id", {"type": "integer", "description": "The loan, from list_loans."}),
        (
            "days",
            {
                "description": 'Days to "add".',
                "default": None,
                "anyOf": [{"type": "integer", "minimum": 1, "maximum": 7}, {"type": "null"}],
            },
        ),
        ("word", {"description": "Größe, in words.", "default": "ä", "enum": ["a", "ä"]}),
        ("note", {"type": "string", "default": ""}),
    ]


@pytest.mark.parametrize(
    ("signature", "parameter"),
    [
        ("days: int = 0", ToolParameter("integer", minimum=1)),  # the default is outside
        ("days: int = 2", ToolParameter("number", minimum=0.5)),  # a range of other numbers
        ("days: str = ''", ToolParameter("integer", minimum=1)),
    ],
)
def test_a_range_that_does_not_fit_the_code_is_left_out(
    tmp_path: Path, signature: str, parameter: ToolParameter
) -> None:
    """The package can be hosted, and the schema has no bound."""
    code = f'from scenarios.api import Db\n\n\ndef f(db: Db, {signature}) -> int:\n    """F."""\n'
    found = schema_of(tmp_path, code, ToolDraft("f", "F.", {"days": parameter}))
    assert not {"minimum", "maximum"} & found["days"].keys()


def test_names_that_the_code_uses_are_not_taken() -> None:
    """A class `Meta` of the model keeps its name, and carriage returns move no text."""
    code = 'class Meta: ...\r\n\r\n\r\ndef f(db: Db, a: int) -> int:\r\n    """F."""\r\n'
    tool = ToolDraft("f", "F.", {"a": ToolParameter("integer", description="A.")})
    assert described(code, (tool,)).split("\n")[:6] == [
        "from typing import Annotated",
        "from msgspec import Meta as _Meta",
        "class Meta: ...",
        "",
        "",
        'def f(db: Db, a: Annotated[int, _Meta(description="A.")]) -> int:',
    ]


def test_code_without_specified_parameters_stays_as_it_is() -> None:
    """To the byte; also where it is not Python, which hosting reports."""
    assert described(CODE, (ToolDraft("other", "Other."),)) == CODE
    assert described("def f(", (EXTEND,)) == "def f("
