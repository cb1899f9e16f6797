"""EnterpriseOps-Gym's tasks: how they are read, and what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.envpool.objects.adapters import enterprise
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply
from rehearsal_room.harness.dialects.enterpriseops import EnterpriseOps
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.suites import enterpriseops
from rehearsal_room.scenarios.suites.enterpriseops import EnterpriseOpsData
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags
from tests.suites.parity.enterprise.tasks import tasks, write


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of a checkout, whose digest is taken to be the right one."""
    root = tmp_path / "checkout"
    for name in enterpriseops._CODE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n")
    (root / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')
    monkeypatch.setattr(enterpriseops, "_DIGEST", enterpriseops.digest_of(root))
    return root


def data(checkout: Path, folder: Path) -> EnterpriseOpsData:
    return EnterpriseOpsData(SuiteFlags(folder=str(checkout), tasks=str(folder)))


def test_modes_are_categories(checkout: Path, tmp_path: Path) -> None:
    """A file's mode is the beginning of its name, or a folder above it; without one it is a task
    of no mode. System prompt and user prompt are kept byte for byte."""
    made = tasks("http://desk")
    write(tmp_path / "all", made)
    nested = tmp_path / "all" / "+5_tools" / "csm"
    nested.mkdir(parents=True)
    (nested / "a.json").write_text(json.dumps(made[0].config))
    (tmp_path / "all" / "b.json").write_text(json.dumps(made[1].config))
    found = data(checkout, tmp_path / "all")
    names = {one: [each.name for each in found.scenarios(one)] for one in enterpriseops.CATEGORIES}
    assert [len(one) for one in names.values()] == [5, 6, 5, 5, 1]
    assert names["oracle"][0] == "oracle_desk__t00"
    assert "plus_5_tools__5_tools__csm__a" in names["plus_5_tools"]
    first = found.scenarios("oracle")[0]
    assert first.rules == made[0].config["system_prompt"]
    assert first.tasks[0].instruction == made[0].config["user_prompt"]
    assert first.suite is not None
    assert "_comment" not in first.suite.world["task"]


def test_the_data_sets_rows_are_read(checkout: Path, tmp_path: Path) -> None:
    """Servers and verifiers may be JSON in a text, as in the rows of the data set."""
    config = tasks("http://desk")[0].config
    row = {**config, "task_id": "x", "domain": "csm"}
    row |= {name: json.dumps(row[name]) for name in ("gym_servers_config", "verifiers")}
    (tmp_path / "a.json").write_text(json.dumps(row))
    folder = tmp_path / "rows"
    folder.mkdir()
    shutil.move(tmp_path / "a.json", folder)
    (one,) = data(checkout, folder).scenarios("tasks")
    assert one.suite is not None
    assert one.suite.world["task"]["verifiers"] == config["verifiers"]
    assert not {"task_id", "domain"} & one.suite.world["task"].keys()


def test_what_cannot_be_played_is_one_sentence(checkout: Path, tmp_path: Path) -> None:
    """No folder, no checkout, another version, changed code, no tasks, and other JSON files."""
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(PackageError, match="needs a checkout of EnterpriseOps-Gym"):
        EnterpriseOpsData(SuiteFlags())
    with pytest.raises(PackageError, match="there is no checkout of EnterpriseOps-Gym"):
        data(empty, empty)
    with pytest.raises(PackageError, match="there is no such folder of tasks"):
        data(checkout, tmp_path / "nowhere")
    with pytest.raises(PackageError, match="there are no tasks"):
        data(checkout, empty).scenarios("oracle")
    for text in ("{", "[]", '{"mcp_server_url": "http://old", "user_prompt": "a"}'):
        (empty / "oracle__a.json").write_text(text)
        with pytest.raises(PackageError, match="task"):
            data(checkout, empty).scenarios("oracle")
    (checkout / "benchmark" / "verifier.py").write_text("passed = True\n")
    with pytest.raises(PackageError, match="has other code or data"):
        data(checkout, empty)
    (checkout / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    with pytest.raises(PackageError, match=r"this EnterpriseOps-Gym is 0\.2\.0"):
        data(checkout, empty)
    (checkout / "pyproject.toml").unlink()
    with pytest.raises(PackageError, match=r"pyproject.toml: it cannot be read"):
        data(checkout, empty)


@pytest.mark.parametrize("text", ["[{", "[" * 100_000])
def test_lists_that_are_no_json_are_one_sentence(checkout: Path, tmp_path: Path, text: str) -> None:
    """In the data set's rows they are texts, which may be cut off."""
    config = {**tasks("http://desk")[0].config, "verifiers": text}
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(config))
    with pytest.raises(PackageError, match=r"a\.json: it is not a task of EnterpriseOps-Gym"):
        data(checkout, folder).scenarios("tasks")


def test_a_reply_is_read_as_langchain_reads_it() -> None:
    """Calls that cannot be read are not made, the others are; without one the talk is over, and
    its text is kept as it came."""
    good, bad = AgentCall("find", {"id": 1}, "a"), AgentCall("find", '{"id": ', "b")
    dialect = EnterpriseOps()
    act = dialect.read(Reply("", (good, bad)), turn=0)
    assert isinstance(act, Act)
    assert [(one.name, one.arguments) for one in act.calls] == [("find", {"id": 1})]
    assert dialect.read(Reply("<think>a</think> b ", (bad,)), turn=0) == Answer(
        "<think>a</think> b "
    )


def _audit(before: list[Any], after: list[Any], *queries: str) -> str:
    """The audit of one table (id, state)."""
    gyms = object.__new__(enterprise.Gyms)
    config: dict[str, Any] = {"gym_servers_config": [{"mcp_server_name": "a"}]}
    world = enterprise.World(config)
    world.executor = type("Executor", (), {"mcp_clients": {"a": None}})
    rows = [
        {("a", "cases", str(id)): {"id": id, "state": state} for id, state in one}
        for one in (before, after)
    ]
    gyms.starts = {enterprise._key(config): rows[0]}
    gyms.tables = {"a": {"cases": "CREATE TABLE cases (id INTEGER PRIMARY KEY, state TEXT)"}}
    gyms._rows = lambda world: rows[1]  # type: ignore[method-assign]
    verifiers = [
        {"verifier_type": "database_state", "validation_config": {"query": query}}
        for query in queries
    ]
    return gyms._audit(world, verifiers)


def test_an_audit_names_rows_that_no_verifier_asks_about() -> None:
    """A changed row is asked about if some query finds something else where it is put back: a query
    that merely reads its table does not ask about it, and one that does may read it in any way."""
    before = [(1, "open"), (2, "open"), (3, "open")]
    after = [(1, "closed"), (2, "closed"), (4, "new")]
    assert _audit(before, before, "SELECT 1") == "none of 0 changed rows"
    one = _audit(before, after, "SELECT state FROM cases WHERE id = 1")
    assert (
        one == "3 of 4 changed rows: cases 2 (changed: state), cases 3 (deleted), cases 4 (created)"
    )
    counted = "SELECT COUNT(*) FROM cases WHERE state = 'closed'"
    assert _audit(before, after, counted, "SELECT MAX(id) FROM cases") == (
        "1 of 4 changed rows: cases 3 (deleted)"
    )
    assert _audit(before, after, "SELECT * FROM cases") == "none of 4 changed rows"
    assert _audit(before, after, "SELECT broken").startswith("4 of 4 changed rows")
    assert _audit([], [], "SELECT 1").startswith("unknown")


def test_names_that_two_programs_share_are_equal() -> None:
    """The adapter imports nothing of this project, so it repeats the name of the audit."""
    assert enterprise.AUDIT == enterpriseops.AUDIT
    assert enterprise._listed([], 3, is_one=True).startswith(enterpriseops.NO_CHANGE)
