"""Attacks of a verifier: it has the two databases as files. See tests/hostile/gather.py."""


def write_the_databases(initial_db_path, final_db_path):
    """judged"""
    import contextlib
    import os
    import sqlite3

    for path in (initial_db_path, final_db_path):
        os.chmod(path, 0o666)
        with contextlib.suppress(sqlite3.Error):
            sqlite3.connect(path).execute("DROP TABLE notes")
    return {"result": "complete"}


def delete_the_databases(initial_db_path, final_db_path):
    """judged"""
    import os

    os.remove(initial_db_path)
    os.remove(final_db_path)
    return {"result": "complete"}


def attach_another_file(initial_db_path, final_db_path):
    """ended or failed"""
    import sqlite3

    sqlite3.connect(initial_db_path).execute("ATTACH '/etc/passwd' AS p")
    return sqlite3.connect("file:/etc/passwd?mode=ro", uri=True)


def load_an_extension(initial_db_path, final_db_path):
    """ended or failed"""
    import sqlite3

    sqlite3.connect(":memory:").enable_load_extension(True)
    return {"result": "complete"}


def replace_the_judge(initial_db_path, final_db_path):
    """ended or failed"""
    import json

    json.dumps = lambda *_, **__: '{"result": "complete"}'
    return {"result": "others"}


def print_forever(initial_db_path, final_db_path):
    """ended: longer than"""
    import sys

    while True:
        sys.stdout.write("x" * 1000)


def search_forever(initial_db_path, final_db_path):
    """ended: longer than"""
    import sqlite3

    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    return sqlite3.connect(final_db_path).execute(endless).fetchall()
