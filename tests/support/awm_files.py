"""A small folder of AWM's files: two scenarios whose names are spelt differently per file."""

import json
from pathlib import Path
from typing import Any

from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.format import Scenario, Seeding

FILES = (
    *("gen_scenario.jsonl", "gen_tasks.jsonl", "gen_db.jsonl", "gen_sample.jsonl"),
    *("gen_spec.jsonl", "gen_envs.jsonl", "gen_verifier.jsonl", "gen_verifier.pure_code.jsonl"),
)
SCENARIO, TASKS, DB, SAMPLE, SPEC, ENVS, SQL, CODE = FILES
DDL = "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT)"
INDEX = "CREATE INDEX by_body ON notes (body)"
INSERT = "INSERT INTO notes VALUES (1, 'naïve; “quoted”')"
APP = "app = 'of {name}'\n"
VERIFIER = "def {function}(initial_db_path, final_db_path):\n    return {{}}\n"

Rows = dict[str, list[Any]]  # by file; a str is a whole line


def rows_of(written: str, key: str, num_tasks: int = 2) -> Rows:
    """The rows of one scenario; `key` is its name in the files that AWM itself writes."""
    tasks = [f"Do thing {index} of {written}." for index in range(num_tasks)]
    table = {"name": "notes", "ddl": DDL, "indexes": [INDEX]}
    sample = {"table_name": "notes", "reasoning": "", "insert_statements": [INSERT]}
    rows: Rows = {
        SCENARIO: [{"name": written, "description": f"About {written}."}],
        TASKS: [{"scenario": written, "tasks": tasks}],
        DB: [{"scenario": written, "db_schema": {"tables": [table]}, "db_path": "x.db"}],
        SAMPLE: [{"scenario": written, "sample_data": {"tables": [sample]}}],
        SPEC: [{"scenario": written, "api_spec": {"api_groups": []}}],
        ENVS: [{"scenario": written, "db_path": "x.db", "full_code": APP.format(name=written)}],
        SQL: [],
        CODE: [],
    }
    for file, function in ((SQL, "verify_task"), (CODE, "verify_task_completion")):
        for index, task in enumerate(tasks):
            code = VERIFIER.format(function=function)
            about = {"code": code, "raw_response": "{}"}
            row = {"scenario": key, "task_idx": index, "task": task, "verification": about}
            rows[file].append(row)
    return rows


def two() -> Rows:
    """The rows of "3D Shop" and, after them, those of "Mail Desk 1"."""
    mail, shop = rows_of("Mail Desk 1", "mail_desk_1"), rows_of("3D Shop!", "3d_shop")
    return {file: [*shop[file], *mail[file]] for file in FILES}


def write_folder(folder: Path, rows: Rows) -> Path:
    """Write the files; a file without rows is not written."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, values in rows.items():
        lines = [row if isinstance(row, str) else json.dumps(row) for row in values]
        if lines:
            text = "".join(f"{line}\n" for line in lines)
            (folder / file).write_text(text, encoding="utf-8", newline="")
    return folder


def mail_scenario(folder: Path, rows: Rows, seeding: Seeding = "awm") -> Scenario:
    """ "Mail Desk 1", read from these rows."""
    return AwmFolder(write_folder(folder, rows), seeding=seeding).find("mail_desk_1")
