"""Programs in Node have the clock and the random numbers of their moments.

The programs are ours and small; Node and its SQLite are not. Packages of npm that have their own
database or their own ids need downloads and a recipe.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.envpool.seeded.asking import asked, node_program

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

_REQUIRED = """
const crypto = require('crypto')
const { randomUUID, randomBytes, webcrypto } = crypto
const { createInterface } = require('node:readline')
"""
_IMPORTED = """
import * as crypto from 'node:crypto'
import { randomUUID, randomBytes, webcrypto } from 'crypto'
import { createInterface } from 'node:readline'
"""
_DRAWS = """
const later = await new Promise((done) => randomBytes(4, (error, bytes) => done(bytes)))
const filled = await new Promise((done) => crypto.randomFill(new Uint16Array(2), (e, a) => done(a)))
return [
  Date.now(), new Date(), Date(), Math.random(), randomUUID(), webcrypto.randomUUID(),
  [...crypto.getRandomValues(new Uint8Array(4))],
  [...webcrypto.getRandomValues(new Uint32Array(2))],
  crypto.randomInt(10 ** 9), crypto.randomInt(5, 10), randomBytes(4), later, filled,
  crypto.randomFillSync(Buffer.alloc(6), 2, 3), Math.round(performance.timeOrigin),
  [1, 2, 3, 4, 5, 6, 7, 8].sort(() => Math.random() - 0.5),
]
"""
_ROWS = """
db.exec('INSERT INTO t DEFAULT VALUES')
return db.prepare(`SELECT at, day, key, CAST(random() AS TEXT) AS chance, CURRENT_DATE AS a,
  CURRENT_TIME AS b, datetime('NOW') AS c, julianday('now') AS d, strftime('%s', 'now') AS e,
  date('2020-01-31', '+1 month') AS f FROM t ORDER BY id DESC`).get()
"""
_TABLE = """
const db = new DatabaseSync(':memory:')
db.exec(`CREATE TABLE t (id INTEGER PRIMARY KEY, at DEFAULT CURRENT_TIMESTAMP,
  day DEFAULT (date('now', '+1 month')), key DEFAULT (hex(randomblob(8))))`)
"""
_IDENT = ["-c", "user.name=a", "-c", "user.email=b", "var", "GIT_COMMITTER_IDENT"]
_COMMITS = f"""
const words = {_IDENT}
const text = `git ${{words.join(' ')}}`
const own = {{ ...process.env, GIT_COMMITTER_DATE: '1000000000 +0000' }}
const later = (...args) => new Promise((done) => processes.execFile(...args, (e, out) => done(out)))
return [
  processes.execSync(text).toString(), processes.execFileSync('git', words).toString(),
  processes.spawnSync('git', words, {{ encoding: 'utf8' }}).stdout, await later('git', words),
  processes.spawnSync('git', words, {{ env: own }}).stdout.toString(),
  await later('git', words, {{ env: own }}),
]
"""
_CASES = {
    "git": (f"{_REQUIRED}const processes = require('node:child_process')\n", _COMMITS),
    "required": (_REQUIRED, _DRAWS),
    "imported": (_IMPORTED, _DRAWS),
    "rows, required": (
        f"{_REQUIRED}const {{ DatabaseSync }} = require('node:sqlite'){_TABLE}",
        _ROWS,
    ),
    "rows, imported": (f"{_IMPORTED}import {{ DatabaseSync }} from 'node:sqlite'{_TABLE}", _ROWS),
}


def _command(start: str, answer: str) -> list[str]:
    kind = "module" if "import " in start else "commonjs"
    return ["node", f"--input-type={kind}", "-e", node_program(start, answer)]


@pytest.mark.parametrize("case", _CASES)
def test_a_call_draws_the_same_in_each_process(case: str) -> None:
    """Calls made again draw the same, in another process and in one whose moments begin again; so
    does the third call in a process that made none before; another call draws something else."""
    if (
        "rows" in case
        and subprocess.run(["node", "-e", "require('node:sqlite')"], stderr=-3).returncode
    ):
        pytest.skip("this Node has no SQLite")
    command = _command(*_CASES[case])
    answers, loaded = asked(command, (1, 2, 3, 1, 2, 3))
    first, reset = answers[:3], answers[3:]
    again, _ = asked(command, (1, 2, 3))
    alone, _ = asked(command, (3,))

    assert reset == first
    assert (first, loaded) == (again, ["Node"])
    assert alone == first[2:]
    assert first[0] != first[1] != first[2]


def test_dates_remain_dates() -> None:
    """Times that are given, texts, arithmetic, subclasses, clones and `instanceof` are Node's own;
    two reads differ, and a loop that waits ends."""
    answer = """
      class Mine extends Date {}
      const now = new Date(), end = Date.now() + 20000
      while (Date.now() < end);
      return [
        new Date(5).getTime(), new Date('2020-02-30').getTime(),
        new Date(2020, 1, 3).toISOString(),
        Date.UTC(2020, 1), Date.parse('2020-01-01'), now instanceof Date,
        new Mine() instanceof Mine,
        new Mine(7).getTime(), structuredClone(now) instanceof Date, now.constructor === Date,
        Object.prototype.toString.call(now), Date.length, Date.name, typeof Date(), +now,
        new Date() - now > 0, new Intl.DateTimeFormat('en', { timeZone: 'UTC' }).format(now),
      ]
    """
    (found,), _ = asked(_command(_REQUIRED, answer), (1,))
    assert found == [
        *(5, 1583020800000, "2020-02-03T00:00:00.000Z", 1580515200000, 1577836800000),
        *(True, True, 7, True, True, "[object Date]", 7, "Date", "string", 1767603601001, True),
        "1/5/2026",
    ]


def test_what_the_user_sets_is_kept(tmp_path: Path) -> None:
    """Another preload of the user is loaded after ours, from a path with a space; workers and
    programs that the call starts read the same moment."""
    preload = tmp_path / "a preload.cjs"
    preload.write_text("globalThis.theirs = Date.now()")
    answer = """
      const { Worker } = require('node:worker_threads')
      const code = "require('node:worker_threads').parentPort.postMessage(Date.now())"
      const worker = new Worker(code, { eval: true })
      const there = await new Promise((done) => worker.once('message', done))
      const { execFileSync } = require('node:child_process')
      const child = execFileSync(process.execPath, ['-p', 'Date.now()'], { encoding: 'utf8' })
      return [theirs, there, Number(child)]
    """
    given = {"NODE_OPTIONS": f'--require "{preload}"'}
    (found,), _ = asked(_command(_REQUIRED, answer), (2,), given)
    assert found == [1767603600001, 1767603602002, 1767603602002]
