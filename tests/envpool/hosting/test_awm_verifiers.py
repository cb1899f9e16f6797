"""Verifiers of AWM tasks give the verdicts of AWM's runner, whatever their code does."""

import builtins
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.envpool.hosting.awm_verifiers import (
    MAX_DETAIL,
    MAX_PRINTED,
    AwmVerdict,
    VerifierKind,
    verify_awm,
)
from rehearsal_room.scenarios.format import AwmRecord, AwmVerifier
from tests.support.paths import AWM

CLOCK = "2026-03-14T09:30:00Z"
_FILES = {"sql": "gen_verifier.jsonl", "code": "gen_verifier.pure_code.jsonl"}


def _records(name: str) -> list[dict[str, Any]]:
    lines = (AWM / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


GOLDEN = _records("golden.jsonl")
START = next(record["db"] for record in GOLDEN if record["kind"] == "seed")
RUNS = [record for record in GOLDEN if record["kind"] == "run" and record.get("verifiers")]


def _image(dump: dict[str, Any]) -> bytes:
    """A database with the fixture's schema and a dump's rows."""
    connection = sqlite3.connect(":memory:")
    for table in _records("gen_db.jsonl")[0]["db_schema"]["tables"]:
        connection.execute(table["ddl"])
        content = dump["tables"][table["name"]]
        marks = ", ".join("?" * len(content["columns"]))
        connection.executemany(
            f"INSERT INTO {table['name']} VALUES ({marks})",
            [[_value(value) for value in row] for row in content["rows"]],
        )
    connection.commit()
    image = connection.serialize()
    connection.close()
    return image


def _value(value: Any) -> Any:
    return bytes.fromhex(value["$hex"]) if isinstance(value, dict) else value


def _fixture() -> AwmRecord:
    codes: dict[str, dict[str, str]] = {}
    for kind, name in _FILES.items():
        for record in _records(name):  # the first of a key wins
            codes.setdefault(f"t{record['task_idx']}", {}).setdefault(
                kind, record["verification"]["code"]
            )
    verifiers = {task: AwmVerifier(**kinds) for task, kinds in codes.items()}
    return AwmRecord(code="", tables=(), samples=(), verifiers=verifiers)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run["id"]))
def test_verdicts_are_those_of_awms_runner(run: dict[str, Any], tmp_path: Path) -> None:
    """Label, detail and output of both kinds equal those of the genuine runner."""
    before = _image(START)
    after = _image(run.get("db") or START)
    record = _fixture()
    for kind in ("sql", "code"):
        verdict = verify_awm(
            *(record, f"t{run['task_idx']}", kind, before, after, run["final_answer"], tmp_path),
            clock=CLOCK,
        )
        golden = run["verifiers"][kind]
        expected = AwmVerdict(golden["label"], golden["detail"], golden.get("stdout", ""))
        assert verdict == expected
    assert list(tmp_path.iterdir()) == []


BEFORE = "CREATE TABLE notes (text TEXT, at TEXT)"


def _database(*statements: str) -> bytes:
    connection = sqlite3.connect(":memory:")
    for statement in (BEFORE, *statements):
        connection.execute(statement)
    connection.commit()
    image = connection.serialize()
    connection.close()
    return image


def _ask(
    folder: Path, kind: VerifierKind, code: str | None, answer: str = "the answer"
) -> AwmVerdict:
    """A verifier's verdict on a table that is empty before and has a note after."""
    record = AwmRecord("", (), (), verifiers={"t": AwmVerifier(**{kind: code})})
    after = _database("INSERT INTO notes VALUES ('hello', '2026-03-14 09:29:00')")
    return verify_awm(record, "t", kind, _database(), after, answer, folder, clock=CLOCK)


def _success(label: str, raw: Any) -> tuple[str, Any, str]:
    return label, {"result": label, "execution_status": "success", "raw_result": raw}, ""


def _failure(why: str) -> tuple[str, Any, str]:
    detail = {"result": "others", "execution_status": "error", "error_message": why}
    return "judge_error", detail, why


_COUNT = "sqlite3.connect({}).execute('SELECT count(*) FROM notes').fetchone()[0]"
_COUNTS = f"[{_COUNT.format('a')}, {_COUNT.format('b')}]"


@pytest.mark.parametrize(
    ("signature", "got"),
    [
        ("initial_db_path, final_db_path, final_answer", [0, 1, "the answer"]),
        ("final_answer, final_db_path, initial_db_path", [0, 1, "the answer"]),
        ("initial_db_path, final_db_path", [0, 1, None]),
        ("*, final_db_path, initial_db_path, extra=None", [0, 1, None]),
        ("one, two", [0, 1, None]),
        ("one, two, three", [0, 1, "the answer"]),
        ("one, two, three, four='d'", [0, 1, "the answer"]),
        ("*given", TypeError("verify_task_completion() missing initial")),
        ("*given, **named", [0, 1, None]),
    ],
)
def test_arguments_are_passed_by_name_else_by_position(
    signature: str, got: Any, tmp_path: Path
) -> None:
    """The three names work in any order; without them the arguments are passed by position."""
    code = f"""
def verify_task_completion({signature}):
    v = locals()
    given = v.pop("given", ())
    v.pop("named", None)
    values = dict(zip(("one", "two", "three"), given)) or v
    a = values.get("initial_db_path", values.get("one"))
    b = values.get("final_db_path", values.get("two"))
    if a is None:
        raise TypeError("verify_task_completion() missing initial")
    answer = values.get("final_answer", values.get("three"))
    return {{"result": "complete", "got": {_COUNTS} + [answer]}}
"""
    verdict = _ask(tmp_path, "code", code)
    if isinstance(got, TypeError):
        expected = _failure(f"Execution error: {got}")
    else:
        expected = _success("complete", {"result": "complete", "got": got})
    assert (verdict.label, verdict.detail, verdict.fault) == expected


def test_partly_named_arguments_are_an_error(tmp_path: Path) -> None:
    """When a function has one of the names, AWM passes by name only."""
    verdict = _ask(tmp_path, "code", "def verify_x(first, second, final_answer): return {}")
    why = "verify_x() missing 2 required positional arguments: 'first' and 'second'"
    assert (verdict.label, verdict.fault) == ("judge_error", f"Execution error: {why}")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (  # the first line that looks like a verifier's names the function, at any depth
            "def helper(): return 1\ndef verify_orders(a, b): return {'result': 'complete'}\n"
            "def verify_task_completion(a, b): return {'result': 'others'}",
            _success("complete", {"result": "complete"}),
        ),
        (
            "class C:\n    def verify_inner(self): pass\n"
            "def verify_task_completion(a, b): return {'result': 'complete'}",
            _failure("Function 'verify_inner' not found"),
        ),
        (  # a lambda with the default name
            "verify_task_completion = lambda a, b: {'result': 'complete'}",
            _success("complete", {"result": "complete"}),
        ),
        (
            "async def verify_it(a, b): pass",
            _failure("Function 'verify_task_completion' not found"),
        ),
        ("just some words", _failure("Execution error: invalid syntax (<code verifier>, line 1)")),
        (
            "def verify_x(a, b): return {'result': 'complete', 're': bool(re.match('a', 'a')),"
            " 'main': __name__ == '__main__'}",
            _success("complete", {"result": "complete", "re": True, "main": False}),
        ),
    ],
)
def test_the_function_is_found_as_awm_finds_it(
    code: str, expected: tuple[str, Any, str], tmp_path: Path
) -> None:
    """By its line, else by the default name of its kind; the namespace is AWM's."""
    verdict = _ask(tmp_path, "code", code)
    assert (verdict.label, verdict.detail, verdict.fault) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{'result': 'others', 'why': 1}", _success("others", {"result": "others", "why": 1})),
        ("{'result': 'Complete'}", _success("others", {"result": "Complete"})),
        ("{'result': True}", _success("others", {"result": True})),
        ("{'result': ['complete']}", _success("others", {"result": ["complete"]})),
        ("{'done': 'complete'}", _failure("Invalid return format: dict")),
        ("'complete'", _failure("Invalid return format: str")),
        ("['complete']", _failure("Invalid return format: list")),
        ("None", _failure("Invalid return format: NoneType")),
        ("1 / 0", _failure("Execution error: division by zero")),
        ("exit(3)", _failure("Execution error: SystemExit: 3")),
        ("raise_(KeyboardInterrupt())", _failure("Execution error: KeyboardInterrupt: ")),
        (
            "raise_(Hostile())",
            _failure("Execution error: an exception whose text raises SystemExit"),
        ),
        ("recurse()", _failure("Execution error: maximum recursion depth exceeded")),
        (
            "{'result': 'complete', 1: (2, b'x'), None: {3}, 'big': 2**70, 't': date(2026, 1, 2)}",
            _success(
                "complete",
                {
                    "result": "complete",
                    "1": [2, "x"],
                    "null": [3],
                    "big": str(2**70),
                    "t": "2026-01-02",
                },
            ),
        ),
        (
            "{'result': 'complete', 'self': knot}",
            _success("complete", "it cannot be written as JSON: Circular reference detected"),
        ),
        (
            "{'result': 'complete', 'odd': '\\ud800'}",
            _success("complete", {"result": "complete", "odd": "?"}),
        ),
        (
            f"{{'result': 'complete', 'huge': 'x' * {MAX_DETAIL}}}",
            _success(
                "complete",
                "it cannot be written as JSON: "
                f"its result is larger than {MAX_DETAIL} characters of JSON",
            ),
        ),
        ("{'result': Equal()}", _success("others", {"result": "an Equal"})),
        (
            "{'result': 'complete', 'odd': Raising()}",
            _success(
                "complete",
                "it cannot be written as JSON: an exception whose text raises SystemExit",
            ),
        ),
    ],
)
def test_odd_returns_of_the_code_kind(
    value: str, expected: tuple[str, Any, str], tmp_path: Path
) -> None:
    """Only the text `complete` as `result` is complete; a failure is a judge_error."""
    code = f"""
from datetime import date
class Hostile(Exception):
    def __str__(self): raise SystemExit
class Equal:
    def __eq__(self, other): return True
    def __str__(self): return "an Equal"
class Raising:
    def __str__(self): raise Hostile
knot = []
knot.append(knot)
def raise_(exc): raise exc
def recurse(): return recurse()
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    return {value}
"""
    verdict = _ask(tmp_path, "code", code)
    assert (verdict.label, verdict.detail, verdict.fault) == expected


@pytest.mark.parametrize(
    ("value", "label", "detail"),
    [
        ("{'rows': (1, 2)}", "incomplete", {"rows": [1, 2]}),
        ("None", "incomplete", None),
        ("[1, {'a': float('inf')}]", "incomplete", [1, {"a": float("inf")}]),
        ("'words'", "incomplete", "words"),
        (
            "{'execution_status': 'error', 'error_message': 'no table'}",
            "judge_error",
            {"execution_status": "error", "error_message": "no table"},
        ),
        (
            "re.match('a', 'a')",  # AWM provides `re` to the other kind only
            "judge_error",
            {
                "execution_status": "error",
                "error_message": "Execution error: name 're' is not defined",
            },
        ),
        (
            "(lambda x: x.append(x) or x)([])",
            "judge_error",
            {
                "execution_status": "error",
                "error_message": "Execution error: Circular reference detected",
            },
        ),
    ],
)
def test_odd_returns_of_the_sql_kind(value: str, label: str, detail: Any, tmp_path: Path) -> None:
    """Its result is evidence for a judge, unless it failed or reports an error itself."""
    verdict = _ask(
        tmp_path, "sql", f"def verify_task(initial_db_path, final_db_path): return {value}"
    )
    assert (verdict.label, verdict.detail) == (label, detail)
    assert bool(verdict.fault) == (label == "judge_error")


@pytest.mark.parametrize("code", [None, "", "  pass   ", "\n" * 20])
def test_no_code_is_a_judge_error(code: str | None, tmp_path: Path) -> None:
    """Without code of this kind, or with less code than a function needs, there is no verdict."""
    verdict = _ask(tmp_path, "sql", code)
    why = "task 't' has no sql verifier"
    assert verdict == AwmVerdict("judge_error", {"error": why}, fault=why)
    unknown = verify_awm(AwmRecord("", (), ()), "u", "code", b"", b"", "", tmp_path, clock=CLOCK)
    assert (unknown.label, unknown.fault) == ("judge_error", "task 'u' has no code verifier")


def test_output_is_returned_up_to_a_limit(tmp_path: Path) -> None:
    """The verdict has the beginning of standard output, and nothing of standard error."""
    body = (
        "print('a', end=''); import sys; sys.stderr.write('b'); print('\\ud800c'); print('d' * n)"
    )
    code = f"n = 10**6\ndef verify_x(a, b): {body}; return {{'result': 'complete'}}"
    verdict = _ask(tmp_path, "code", code)
    assert verdict.label == "complete"
    assert len(verdict.printed) == MAX_PRINTED
    assert verdict.printed.startswith("a?c\nddd")


def test_files_are_read_only_and_the_only_ones(tmp_path: Path) -> None:
    """The folder has only the two databases, read-only and fresh for each run; files that the
    verifier leaves there are deleted."""
    code = """
def verify_task(initial_db_path, final_db_path):
    folder = os.path.dirname(final_db_path)
    seen = sorted(os.listdir(folder)), oct(os.stat(final_db_path).st_mode)[-3:]
    os.chmod(final_db_path, 0o644)
    connection = sqlite3.connect(final_db_path)
    connection.execute("DELETE FROM notes")
    connection.commit()
    os.remove(initial_db_path)
    open(os.path.join(folder, "left"), "w").close()
    return seen
"""
    (tmp_path / "verify").mkdir()
    (tmp_path / "verify" / "left").write_text("by another")
    for _ in range(2):
        assert _ask(tmp_path, "sql", code).detail == [["final.db", "initial.db"], "444"]
    assert list(tmp_path.iterdir()) == []
    count = f"def verify_task(a, b): return {_COUNTS}"
    assert _ask(tmp_path, "sql", count).detail == [0, 1]


def test_time_and_randomness_are_the_scenarios(tmp_path: Path) -> None:
    """A verifier sees the scenario's time in Python and SQL, and its random numbers repeat."""
    code = """
import datetime, random, uuid
def verify_task(initial_db_path, final_db_path):
    connection = sqlite3.connect(f"file:{final_db_path}?mode=ro", uri=True)
    one = lambda sql: connection.execute(sql).fetchone()[0]
    return [
        datetime.datetime.utcnow().isoformat(), one("SELECT datetime('now')"),
        one("SELECT date('NOW', '+1 day')"), one("SELECT time()"), one("SELECT CURRENT_TIMESTAMP"),
        one("SELECT strftime('%Y')"), one("SELECT strftime('%H:%M', 'now', 'localtime')"),
        one("SELECT unixepoch('now')"), one("SELECT julianday('2026-03-14')"),
        one("SELECT date(NULL) IS NULL"), one("SELECT datetime('2020-01-01', '-1 month')"),
        one("SELECT count(*) FROM notes WHERE at > datetime('now', '-5 minutes')"),
        str(uuid.uuid4()), random.random(),
    ]
"""
    first, second = (_ask(tmp_path, "sql", code).detail for _ in range(2))
    assert first == second
    assert first[:12] == [
        *("2026-03-14T09:30:00", "2026-03-14 09:30:00", "2026-03-15", "09:30:00"),
        *("2026-03-14 09:30:00", "2026", "09:30", 1773480600, 2461113.5, 1),
        *("2019-12-01 00:00:00", 1),
    ]


def test_replaced_functions_are_restored_and_reported(tmp_path: Path) -> None:
    """A verifier that replaces functions of shared modules is a violation, and they are restored;
    one that imports a submodule is not a violation."""
    code = """
import builtins, json.tool
def verify_task_completion(initial_db_path, final_db_path):
    if final_db_path:
        %s
    return {"result": "complete"}
"""
    assert _ask(tmp_path, "code", code % "pass").violation == ""
    real = (json.dumps, print, sqlite3.connect)
    changes = "json.dumps = builtins.print = sqlite3.connect = None; json.mine = 1; del json.load"
    verdict = _ask(tmp_path, "code", code % changes)
    assert verdict.detail == _success("complete", {"result": "complete"})[1]
    replaced = "builtins.print, json.dumps, json.load, json.mine, sqlite3.connect"
    assert verdict.violation == f"the verifier replaced {replaced}"
    assert (json.dumps, print, sqlite3.connect) == real
    assert not hasattr(json, "mine")


def test_a_verifier_may_use_dataclasses(tmp_path: Path) -> None:
    """The name that dataclasses leaves in builtins, for a class without a module, is not a
    violation, and it is removed afterwards."""
    code = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Row:
    total: int = 3

def verify_task_completion(initial_db_path, final_db_path):
    return {"result": "complete" if Row() == Row(3) else "others"}
"""
    verdict = _ask(tmp_path, "code", code)
    assert (verdict.label, verdict.violation) == ("complete", "")
    assert "__builtins__" not in vars(builtins)
