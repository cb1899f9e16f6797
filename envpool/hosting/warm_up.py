"""What the fork server executes once, so that its workers do not each execute it again.

Hosting the first record in a process imports modules, fills caches and specialises bytecode: 0.1 s
of CPU and several megabytes. The fork server hosts a tiny record of our own, makes calls and runs a
verifier; the workers that it forks then share what this has left behind.

A worker runs this verifier once more before it is ready: it then has its own copies of the pages
that a verifier writes to, and a verdict does not wait for them.
"""

import gc
import mimetypes
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rehearsal_room.envpool.hosting.awm_host import AwmHost
from rehearsal_room.envpool.hosting.awm_verifiers import verify_awm
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.format import AwmRecord, AwmTable, AwmVerifier, Scenario

_CODE = """
from typing import List, Optional

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy import Column, ForeignKey, Integer, String, create_engine
from sqlalchemy.orm import Session, declarative_base, relationship, sessionmaker

engine = create_engine("sqlite:///world.db", connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine)
Base = declarative_base()
app = FastAPI(title="Warm")


class Note(Base):
    __tablename__ = "notes"
    id = Column(Integer, primary_key=True)
    text = Column(String, nullable=False)
    lines = relationship("Line", back_populates="note")


class Line(Base):
    __tablename__ = "lines"
    id = Column(Integer, primary_key=True)
    note_id = Column(Integer, ForeignKey("notes.id"))
    note = relationship("Note", back_populates="lines")


class NoteIn(BaseModel):
    text: str = Field(..., min_length=1, description="The text.")
    tag: Optional[str] = None


class NoteOut(BaseModel):
    id: int
    text: str


def get_db():
    db = SessionLocal()
    try:
        yield db
    finally:
        db.close()


@app.post("/notes", response_model=NoteOut, operation_id="add_note", summary="Add a note.")
async def add_note(body: NoteIn, db: Session = Depends(get_db)):
    note = Note(text=body.text)
    db.add(note)
    db.commit()
    db.refresh(note)
    return NoteOut(id=note.id, text=note.text)


@app.get("/notes", response_model=List[NoteOut], operation_id="list_notes", summary="List notes.")
async def list_notes(limit: int = 10, db: Session = Depends(get_db)):
    found = db.query(Note).filter(Note.id > 0).order_by(Note.id).limit(limit).all()
    if not found:
        raise HTTPException(status_code=404, detail="no notes")
    return [NoteOut(id=note.id, text=note.text) for note in found]


Base.metadata.create_all(engine)
"""
_VERIFIER = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    before, after = sqlite3.connect(initial_db_path), sqlite3.connect(final_db_path)
    query = "SELECT text FROM notes ORDER BY id"
    rows = [each.execute(query).fetchall() for each in (before, after)]
    before.close()
    after.close()
    return {"result": "complete" if rows[0] == rows[1] else "others"}
"""
_CALLS = 8  # executions after which CPython has specialised a function


def warm_up(scratch: Path) -> Callable[[Path], None]:
    """Host our own record and keep what it leaves out of the workers' garbage collector, so that
    their memory stays shared. `scratch` is an existing folder.

    Returns the function that runs its verifier, in an existing folder.
    """
    mimetypes.init()
    scenario = _scenario()
    host = AwmHost(scenario)
    world = LiveWorld(host.template.overlay(), host.module_state)
    for number in range(_CALLS):
        host.call(world, "list_notes", {"limit": 5})
        host.call(world, "add_note", {"text": f"note {number}"})
    image = host.template.image
    host.close()
    del host, world
    run_verifier = partial(_run_verifier, scenario, image)
    run_verifier(scratch)
    gc.collect()
    gc.freeze()
    return run_verifier


def _run_verifier(scenario: Scenario, image: bytes, scratch: Path) -> None:
    record = scenario.awm
    assert record is not None
    verdict = verify_awm(record, "warm", "code", image, image, "", scratch, clock=scenario.clock)
    assert verdict.label == "complete", verdict.fault


def _scenario() -> Scenario:
    verifiers = {"warm": AwmVerifier(code=_VERIFIER, sql=None)}
    tables = (
        AwmTable("notes", "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)"),
        AwmTable("lines", "CREATE TABLE lines (id INTEGER PRIMARY KEY, note_id INTEGER)"),
    )
    return Scenario(
        name="warm",
        title="Warm",
        version="awm",
        description="",
        clock="2026-01-01T00:00:00Z",
        user=User("user", "User", "user"),
        schema_sql="",
        data_sql="",
        rules="",
        tasks=(),
        path=Path("warm"),
        digest="0" * 32,
        awm=AwmRecord(code=_CODE, tables=tables, samples=(), verifiers=verifiers),
    )
