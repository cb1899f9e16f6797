"""The attacks of this folder, and the scenarios that are built from them.

Each function of the themes is an attack. It is self-contained (its imports are inside), so that its
text can be put into the tools of a package, the endpoints of an AWM record, or a verifier. Its
docstring states the expected outcome; words joined by "or" are alternatives:

    ended: TEXT     the world is broken, with a message that contains TEXT
    failed          the call fails, and the world continues
    answered: TEXT  the attack gains nothing: the call's result contains TEXT

The outcome of a verifier (`verdicts.py`) is judged, failed (no verdict, with a message) or ended.
"""

import ast
import textwrap
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.format import (
    AwmRecord,
    AwmSample,
    AwmTable,
    AwmVerifier,
    Scenario,
    Task,
    read,
)

FOLDER = Path(__file__).parent
THEMES = ("files", "network", "processes", "descriptors", "threads", "excess", "inside")
CLOCK = "2026-02-10T09:00:00Z"


class Attack(msgspec.Struct, frozen=True):
    """One function of this folder."""

    theme: str
    name: str
    source: str
    expected: str  # its possible outcomes

    def __str__(self) -> str:
        return f"{self.theme}-{self.name}"

    @property
    def hangs(self) -> bool:
        """Whether the attack ends at the pool's deadline only."""
        return "longer than" in self.expected

    def expects(self, outcome: str) -> bool:
        """Whether an outcome (`WORD: TEXT`) is one of the expected ones."""
        word, _, text = outcome.partition(": ")
        for choice in self.expected.split(" or "):
            expected_word, _, part = choice.partition(": ")
            if word == expected_word and part in text:
                return True
        return False


def attacks(*themes: str) -> list[Attack]:
    """The attacks of these themes, in order."""
    found = []
    for theme in themes or THEMES:
        text = (FOLDER / f"{theme}.py").read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                source = ast.get_source_segment(text, node)
                assert source is not None
                found.append(Attack(theme, node.name, source, (ast.get_docstring(node) or "")))
    return found


_PACKAGE_TOOLS = '''
from typing import Any
from scenarios.api import Db

def add_note(db: Db, text: str) -> int:
    """Add a note."""
    return db.insert("notes", text=text)

def list_notes(db: Db) -> list[dict[str, Any]]:
    """All notes."""
    return db.all("SELECT * FROM notes ORDER BY id")

def attack(db: Db, name: str) -> Any:
    """Attack."""
    db.insert("notes", text="attacked")
    return globals()["_" + name]()
'''
_HEAD = f"""
name = "hostile"
title = "Hostile"
version = "1"
description = "Notes, and tools that nobody should trust."
clock = "{CLOCK}"
[user]
id = "u1"
name = "Mallory"
role = "user"
"""
_TASKS = """
[[task]]
id = "note"
instruction = "Add a note."
difficulty = "simple"
kind = "change"
answer = "done"
"""
_VERIFY = "def note(before, after, answer):\n    return []\n"


def package(folder: Path) -> Scenario:
    """All attacks as tools of a package in our format."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "scenario.toml": _HEAD,
        "schema.sql": "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);",
        "data.sql": "INSERT INTO notes (text) VALUES ('first');",
        "tools.py": _PACKAGE_TOOLS + _functions(attacks()),
        "policy.md": "",
        "tasks.toml": _TASKS,
        "verify.py": _VERIFY,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return read(folder)


_AWM_CODE = '''
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import Column, Integer, Text, create_engine
from sqlalchemy.orm import declarative_base, sessionmaker

Base = declarative_base()

class Note(Base):
    __tablename__ = "notes"
    id = Column(Integer, primary_key=True)
    text = Column(Text, nullable=False)

engine = create_engine("sqlite:///notes.db", connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine)
app = FastAPI()

@app.post("/notes", operation_id="add_note")
def add_note(text: str):
    """Add a note."""
    with SessionLocal() as session:
        note = Note(text=text)
        session.add(note)
        session.commit()
        return note.id

@app.get("/notes", operation_id="list_notes")
async def list_notes():
    """All notes."""
    with SessionLocal() as session:
        return [{"id": note.id, "text": note.text} for note in session.query(Note)]

@app.post("/attack", operation_id="attack")
def attack(name: str):
    """Attack."""
    return globals()["_" + name]()
'''
_SERVE = """
if __name__ == "__main__":
    import uvicorn
    uvicorn.run(app, host="127.0.0.1", port=8000)
"""


def record() -> Scenario:
    """All attacks behind an endpoint of an AWM record, and as verifiers of its tasks.

    Tasks are named after the attacks; each has verifiers of both kinds.
    """
    databases = "initial_db_path, final_db_path"
    verifiers = {}
    for attack in [*attacks(), *attacks("verdicts")]:
        arguments = databases if attack.theme == "verdicts" else ""
        body = f"    return {attack.name}({arguments})\n"
        signature = f"def verify_task_completion({databases}, answer=None):\n"
        verifiers[attack.name] = AwmVerifier(
            sql=f"{attack.source}\n\ndef verify_task({databases}):\n{body}",
            code=f"{attack.source}\n\n{signature}{body}",
        )
    return Scenario(
        name="hostile_awm",
        title="Hostile",
        version="awm",
        description="Notes, and endpoints that nobody should trust.",
        clock=CLOCK,
        user=User("1", "the current user", "user"),
        schema_sql="",
        data_sql="",
        rules="",
        tasks=tuple(Task(name, "Attack.", "unrated", "open", "") for name in verifiers),
        path=FOLDER,
        digest="h" * 32,
        awm=AwmRecord(
            code=_AWM_CODE + _functions(attacks()) + _SERVE,
            tables=(
                AwmTable(
                    "notes", "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)"
                ),
            ),
            samples=(AwmSample("notes", ("INSERT INTO notes (text) VALUES ('first')",)),),
            verifiers=verifiers,
        ),
    )


def _functions(found: list[Attack]) -> str:
    """The attacks as functions whose names begin with an underscore, so that they are not tools."""
    texts = [
        attack.source.replace(f"def {attack.name}", f"def _{attack.name}", 1) for attack in found
    ]
    return "\n\n" + "\n\n".join(map(textwrap.dedent, texts)) + "\n"
