"""Tools that are left out become helpers."""

import msgspec

from rehearsal_room.scenarios.synth.core.left_out import as_helpers, leave_out
from rehearsal_room.scenarios.synth.core.world_drafts import ToolDraft
from tests.support.synth_draft import world_draft

CODE = '''def get(db: Db) -> Row:
    """One row; see get."""
    return db.one("SELECT get FROM t")


def take(db: Db) -> Row:
    """Take it. Ü"""
    db.insert("t", get=1)
    return {"ü": get(db), "take": 1}
'''


def test_calls_of_a_helper_follow_its_name() -> None:
    """Texts, keywords of calls and other functions stay as they are."""
    assert as_helpers(CODE, {"get"}) == CODE.replace("def get(", "def _get(").replace(
        "get(db)}", "_get(db)}"
    ).replace("get(db),", "_get(db),")


def test_a_name_that_is_also_a_variable_stays() -> None:
    """Renaming it could change what the code does, so the tool is kept."""
    code = CODE + "\n\ndef other(db: Db, get: int) -> int:\n    return get\n"
    tools = (ToolDraft("get", "Get."), ToolDraft("take", "Take."))
    draft = msgspec.structs.replace(world_draft(), code=code, tools=tools)
    assert leave_out(draft, {"get"}) == draft
    left = leave_out(draft, {"take"})
    assert [tool.name for tool in left.tools] == ["get"]
    assert "def _take(" in left.code


def test_a_world_keeps_its_last_tool() -> None:
    """A world without tools could not be hosted."""
    draft = msgspec.structs.replace(world_draft(), code=CODE, tools=(ToolDraft("get", "Get."),))
    assert leave_out(draft, {"get", "take"}) == draft
