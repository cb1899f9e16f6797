"""Drafts as packages: SQL scripts, merged verifiers, the files."""

from pathlib import Path

import pytest

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.scenarios.catalogue import is_trusted
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.synth.core.package_files import (
    SqlScript,
    merge_python,
    package_texts,
    script_of,
    write_package,
)
from rehearsal_room.scenarios.synth.core.protocols import Unhostable
from rehearsal_room.scenarios.synth.core.world_drafts import (
    slug,
)
from tests.support.synth_draft import world_draft


def test_statements_keep_their_numbers_in_a_script() -> None:
    """A statement that was left out keeps its number."""
    script = script_of(["A", " B\n(1);", "", "C"])
    assert script == SqlScript("A;\n\nB\n(1);\n\n\nC;\n\n", (1, 3, 6, 7))
    assert [script.statement_at(line) for line in (1, 3, 4, 7)] == [1, 2, 2, 4]


def test_a_comment_hides_no_statement() -> None:
    """A statement that ends in a comment gets its semicolon on the next line."""
    assert script_of(["A -- a", "B"]) == SqlScript("A -- a\n;\n\nB;\n\n", (1, 4))


def test_equal_names_from_different_modules_stay_separate() -> None:
    """Each function sees its own imports, even if another function uses the name differently."""
    one = "import re\nimport datetime\n\ndef f():\n    'Doc.'\n    return datetime.date, re\n"
    two = "from __future__ import annotations\nfrom datetime import datetime\n\n"
    two += "def re(x: y):\n    return datetime\n"
    merged = merge_python([one, two])
    assert merged == (
        "from __future__ import annotations\n\n\n"
        'def f():\n    """Doc."""\n    import datetime\n    import re\n'
        "    return (datetime.date, re)\n\n\n"
        "def re(x: y):\n    from datetime import datetime\n    return datetime\n"
    )
    compile(merged, "verify.py", "exec")


def test_verifiers_share_their_imports() -> None:
    """The functions follow in their order, unchanged."""
    one = "from a import x, y\nimport re\n\ndef f():\n    # one\n    return 1\n"
    two = "from a import z, x\n\ndef g():\n    return 2\n"
    assert merge_python([one, two]) == (
        "import re\nfrom a import x, y, z\n\n\n"
        "def f():\n    # one\n    return 1\n\n\ndef g():\n    return 2\n"
    )


def test_a_draft_becomes_a_package_that_runs_in_workers_only(tmp_path: Path) -> None:
    """The package is read as it was written, and is marked as written by a model."""
    scenario = write_package(tmp_path / "say_it", package_texts(world_draft()))
    assert scenario.name == "say_it"
    assert scenario.description == "A place where things are said."
    assert (scenario.user.id, scenario.user.name) == ("noor.haddad", "Noor Haddad")
    assert scenario.schema_sql.count(";") == 2
    assert scenario.tasks[0].oracle == (Call("list_tables"),)
    assert scenario.written_by == "model"
    assert not is_trusted(scenario)
    assert RoutingPool().isolates(scenario)
    again = write_package(tmp_path / "say_it", package_texts(world_draft()))
    assert again.digest == scenario.digest
    assert [path.name for path in tmp_path.iterdir()] == ["say_it"]


def test_a_package_is_written_by_people_or_a_model(tmp_path: Path) -> None:
    """A third word is refused with the field and the allowed words."""
    texts = package_texts(world_draft())
    texts["scenario.toml"] = texts["scenario.toml"].replace('"model"', '"cat"')
    with pytest.raises(Unhostable) as caught:
        write_package(tmp_path / "say_it", texts)
    assert caught.value.reason == (
        "scenario.toml: written_by: 'cat' is not one of 'model', 'people'"
    )


def test_ids_are_made_of_words() -> None:
    """Long texts are cut, other characters dropped."""
    assert slug("Refund the late parcel, of Ana's!") == "refund-the-late-parcel-of-ana"
    assert slug("¿…?") == ""
