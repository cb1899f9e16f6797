"""Programs in Python have the clock and the random numbers of their moments.

The programs are ours and small; interpreters, SQLite, SQLAlchemy and pydantic are not. Servers that
others wrote need downloads and a recipe.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.envpool.seeded.asking import CLOCK, asked, python_program, pythons

_START = """
import datetime as dt, os, random, secrets, sqlite3, tempfile, time, uuid
from datetime import datetime
from random import choice
"""
_CLOCKS = """
return [
    time.time(), time.time_ns(), datetime.now(), datetime.now(dt.timezone.utc), datetime.today(),
    dt.date.today(), datetime.utcnow(), time.ctime(), time.asctime(), time.gmtime(),
    time.localtime(), time.strftime("%H:%M:%S"), time.clock_gettime(time.CLOCK_REALTIME),
    time.ctime(0), time.gmtime(0)[0],
]
"""
_CHANCE = """
return [
    random.random(), random.randint(1, 10**9), choice(range(10**6)), random.gauss(0, 1),
    rng.random(), random.Random().random(), system.random(), secrets.token_hex(),
    secrets.randbelow(10**9), os.urandom(4).hex(), uuid.uuid4(), uuid.uuid1(), tempfile.mktemp(),
]
"""
_ITS_OWN_SEED = """
items = list(range(99))
random.shuffle(items)
return [random.random(), fixed.random(), fixed.gauss(0, 1), items[:3], random.Random(3).random()]
"""
_TABLE = """
db = sqlite3.connect(":memory:")
db.execute(
    "CREATE TABLE t (id INTEGER PRIMARY KEY, at DEFAULT CURRENT_TIMESTAMP,"
    " day DEFAULT (date('now', '+1 month')), key DEFAULT (hex(randomblob(8))))"
)
"""
_ROWS = """
db.execute("INSERT INTO t DEFAULT VALUES")
return db.execute(
    "SELECT at, day, key, random(), CURRENT_DATE, CURRENT_TIME, datetime('NOW'), julianday('now'),"
    " strftime('%s', 'now'), date('2020-01-31', '+1 month'), time('12:00', '-1 hour') FROM t"
    " ORDER BY id DESC"
).fetchone()
"""
_LATE = """
import random, sqlite3, tempfile, uuid, logging
if not cache:
    cache.append(random.Random())
    logging.getLogger().warning("opened once")
    tempfile.gettempdir()
return [cache[0].random(), random.random(), uuid.uuid4(), tempfile.mktemp(), time.time()]
"""
_FORKED = """
import json
ends = os.pipe()
child = os.fork()
text = json.dumps([random.random(), uuid.uuid4(), os.urandom(2).hex()], default=str)
if child == 0:
    os.write(ends[1], text.encode())
    os._exit(0)
os.waitpid(child, 0)
other = os.read(ends[0], 1000).decode()
assert other != text
return [text, other]
"""
_IDENT = ["git", "-c", "user.name=a", "-c", "user.email=b", "var", "GIT_COMMITTER_IDENT"]
_COMMITS = f"""
import asyncio, os, subprocess
words, run = {_IDENT}, subprocess.check_output
own = dict(os.environ, GIT_COMMITTER_DATE="1000000000 +0000")
async def later():
    process = await asyncio.create_subprocess_exec(*words, stdout=-1)
    return (await process.communicate())[0].decode()
return [
    run(words, text=True), run(" ".join(words), shell=True, text=True), asyncio.run(later()),
    run(words, env=dict(PATH=os.environ["PATH"]), text=True), run(words, env=own, text=True),
]
"""
_FAKE_CLOCK = """
import datetime as dt, time
real = dt.datetime
class Fake(real):
    @classmethod
    def now(cls, tz=None):
        return cls(2001, 2, 3, tzinfo=tz)
dt.datetime = Fake
"""
_CASES = {
    "clocks": (_START, _CLOCKS),
    "chance": (f"{_START}rng, system = random.Random(), random.SystemRandom()", _CHANCE),
    "its own seed": (
        f"{_START}random.seed(5); fixed = random.Random(7)",
        _ITS_OWN_SEED,
    ),
    "rows": (_START + _TABLE, _ROWS),
    "imported and opened at the first call": ("import time; cache = []", _LATE),
    "forks": (_START, _FORKED),
    "git": ("import json", _COMMITS),
    "puts a fake clock in place": (_FAKE_CLOCK, "return [dt.datetime.now(), real.now()]"),
}


@pytest.mark.parametrize("case", _CASES)
def test_a_call_draws_the_same_in_each_process(case: str) -> None:
    """Calls made again draw the same, in another process and in one whose moments begin again; so
    does the third call in a process that made none before; another call draws something else."""
    command = [sys.executable, "-c", python_program(*_CASES[case])]
    answers, loaded = asked(command, (1, 2, 3, 1, 2, 3))
    first, reset = answers[:3], answers[3:]
    again, _ = asked(command, (1, 2, 3))
    alone, _ = asked(command, (3,))

    assert reset == first
    assert (first, loaded) == (again, ["Python"])
    assert alone == first[2:]
    assert first[0] != first[1] != first[2]


@pytest.mark.parametrize("python", pythons()[1:])
def test_each_python_has_it(python: str) -> None:
    """All clocks, generators and functions of SQL, in the versions of Python that are here; the
    time zone is UTC."""
    start = f"{_START}rng, system = random.Random(), random.SystemRandom()\n{_TABLE}"
    parts = [_CLOCKS.replace("return", "clocks ="), _CHANCE.replace("return", "chance =")]
    answer = "\n".join([*parts, _ROWS.replace("return ", "rows = "), "return clocks, chance, rows"])
    command = [python, "-W", "error::RuntimeWarning", "-c", python_program(start, answer)]
    (first, second), loaded = asked(command, (1, 2))
    alone, _ = asked(command, (2,))

    assert (alone, loaded) == ([second], ["Python"])
    clocks = first[0]
    assert clocks[2:4] == ["2026-01-05 09:00:01.003000", "2026-01-05 09:00:01.004000+00:00"]
    assert clocks[-2:] == ["Thu Jan  1 00:00:00 1970", 1970]
    assert first[2][:2] == ["2026-01-05 09:00:01", "2026-02-05"]
    assert first[2][-2:] == ["2020-03-02", "11:00:00"]


def test_another_seed_draws_something_else() -> None:
    """The seed decides the numbers, the clock is as it was."""
    program = python_program("import time, uuid", "return [time.time(), str(uuid.uuid4())]")
    command = [sys.executable, "-c", program]
    ((time, name),), _ = asked(command, (1,))
    ((other_time, other_name),), _ = asked(command, (1,), seed="another")

    assert time == other_time
    assert name != other_name


def test_the_classes_of_time_are_the_real_ones() -> None:
    """isinstance, pickle, copies, arithmetic, subclasses, pydantic fields and defaults, and the
    defaults of SQLAlchemy work, since no class is replaced."""
    start = """
import copy, pickle
from datetime import date, datetime, timedelta, timezone
from pydantic import BaseModel, Field
from sqlalchemy import DateTime, create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
import uuid
class Mine(datetime): pass
class Note(BaseModel):
    at: datetime = Field(default_factory=datetime.now)
    day: date = Field(default_factory=date.today)
    id: uuid.UUID = Field(default_factory=uuid.uuid4)
class Base(DeclarativeBase): pass
class Row(Base):
    __tablename__ = "rows"
    id: Mapped[str] = mapped_column(primary_key=True, default=lambda: str(uuid.uuid4()))
    at: Mapped[datetime] = mapped_column(default=datetime.now)
    made: Mapped[datetime] = mapped_column(server_default=func.now())
engine = create_engine("sqlite://")
Base.metadata.create_all(engine)
"""
    answer = """
now = datetime.now(timezone.utc)
assert isinstance(now, datetime) and isinstance(now, date) and type(now) is datetime
assert pickle.loads(pickle.dumps(now)) == copy.deepcopy(now) == now
assert type(Mine.now()) is Mine and isinstance(Mine.today(), Mine)
assert now - timedelta(days=1) < now < datetime.now(timezone.utc)
note = Note()
assert Note.model_validate_json(note.model_dump_json()) == note
with Session(engine) as session:
    session.add(Row())
    session.commit()
    row = session.scalars(select(Row).order_by(Row.at.desc())).first()
    return [str(now), note.model_dump(mode="json"), row.id, str(row.at), str(row.made)]
"""
    command = [sys.executable, "-c", python_program(start, answer)]
    first, _ = asked(command, (1, 2))
    assert asked(command, (2,))[0] == first[1:]
    assert first[0][0].startswith("2026-01-05 09:00:01")


def test_loops_that_wait_end() -> None:
    """A loop that reads the clock until a time has come ends, with and without `sleep`."""
    answer = """
begin, real = time.time(), time.monotonic()
while time.time() < begin + 20: pass
return time.monotonic() - real < 20
"""
    command = [sys.executable, "-c", python_program("import time", answer)]
    assert asked(command, (1,))[0] == [True]


@pytest.mark.slow  # it waits for the real pace, which begins after five seconds
def test_a_loop_that_sleeps_ends() -> None:
    """A loop that waits three seconds for the clock, and reads it five times a second, takes some
    eight; by its reads alone it would take ten minutes, more than this test may."""
    answer = "end = time.time() + 3\nwhile time.time() < end: threading.Event().wait(0.2)\nreturn 1"
    command = [sys.executable, "-c", python_program("import threading, time", answer)]
    assert asked(command, (1,))[0] == [1]


@pytest.mark.parametrize(
    ("options", "loaded"), [([], ["Python"]), (["-I"], []), (["-E"], []), (["-S"], [])]
)
def test_it_is_known_whether_it_was_loaded(options: list[str], loaded: list[str]) -> None:
    """An isolated interpreter does not load the file, and `loaded` says so."""
    command = [sys.executable, *options, "-c", python_program("", "return 1")]
    assert asked(command, (1,)) == ([1], loaded)


def test_what_the_user_sets_is_kept(tmp_path: Path) -> None:
    """The PYTHONPATH of the user stands behind ours, a sitecustomize that ours hides is run, and
    the user's time zone and hash seed remain."""
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.theirs = 'ran'\n")
    (tmp_path / "wanted.py").write_text("value = 7\n")
    answer = "return [theirs, wanted.value, time.tzname[0], os.environ['PYTHONHASHSEED']]"
    command = [sys.executable, "-c", python_program("import os, time, wanted", answer)]
    given = {"PYTHONPATH": str(tmp_path), "TZ": "EST5", "PYTHONHASHSEED": "9"}
    assert asked(command, (1,), given) == ([["ran", 7, "EST", "9"]], ["Python"])


def test_programs_that_it_starts_have_the_same_moment() -> None:
    """A shell between, and a program that a call starts, read the same clock."""
    code = "import time; print(time.time())"
    answer = f"return [time.time(), subprocess.check_output([sys.executable, '-c', {code!r}])]"
    program = python_program("import subprocess, time", answer)
    ((own, child),), _ = asked(["sh", "-c", '"$0" -c "$1"', sys.executable, program], (4,))
    clock = datetime.fromisoformat(CLOCK).astimezone(UTC).timestamp()
    assert (own, child) == (clock + 4.001, f"b'{clock + 4.001}\\n'")
