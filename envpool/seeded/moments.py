"""The moments of a program that we start: its clock and its random numbers, call by call.

A `Moments` owns a small file. Two files of this folder, which the program's interpreter loads at
its start, read it at each use: `python/sitecustomize.py` and `node/seeded.cjs`. What the program
draws during its call number k follows from the seed, the clock, k, and what it drew before in this
call. So it has the same ids and times when the calls are made again in another process, and also
when a process that begins with a copy of the state makes call k as its first.

The clock stands at `clock` when the process starts (moment 0). Call k begins k seconds later; each
read moves the clock by a millisecond, so that two reads differ and a call of fewer than 1,000 reads
ends before the next begins. A program that reads it an eighth time when the call has taken five
seconds waits for a time to come: from then on the clock keeps the real pace, and what such a loop
sees does not repeat. Timers, `sleep` and monotonic clocks are always real.

A program that opens its database or imports a module at its first call may read the clock or draw
for that too. Log records, names of temporary files and sql.js do not count; what else is drawn only
once shifts the rest of that call, and a process that begins there with a copy has other times.

Every thread, and every program that the process starts, reads the same moment. Threads that draw at
the same time draw in an order that nobody fixes. A forked child has streams of its own until the
next call; a program that another starts has not: two that are started in one call draw the same.

The layout, in little endian: 8 bytes of a mark; the number and its complement, 8 bytes each (a
reader that finds them at odds reads again; the upper half of the number counts the restarts); the
clock, 8 bytes, in nanoseconds since 1970; the seed, 32 bytes; 8 bytes of which the first two are
set to 1 by Python and by Node when they have loaded.
"""

import os
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PYTHON = str(_HERE / "python")
_NODE = str(_HERE / "node" / "seeded.cjs")
_FILE = "REHEARSAL_MOMENTS"
_RECORD = struct.Struct("<8sQQQ32s8s")
_NUMBER = struct.Struct("<QQ")
_NUMBER_AT = 8
_LOADED_AT = 64
_MARK = b"moments1"
_MASK = 2**64 - 1
_INTERPRETERS = ("Python", "Node")


class Moments:
    """The moments of one process and of the programs that it starts.

    `path` is where its file is made, outside of the folders that the program may empty. `clock` is
    an ISO 8601 time, UTC if it names no zone. Close it when the process has ended; this removes the
    file.
    """

    def __init__(self, path: Path, *, seed: str, clock: str) -> None:
        self._path = path
        self._num_resets = 0
        key = blake2b(seed.encode(), digest_size=32).digest()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        record = _RECORD.pack(_MARK, 0, _MASK, _nanoseconds(clock), key, bytes(8))
        os.pwrite(self._handle, record, 0)

    def variables(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """What to add to the process's environment, or to replace there.

        `given` are the variables that the user sets for this program. Its PYTHONPATH and
        NODE_OPTIONS are kept, behind ours; a TZ or PYTHONHASHSEED is left as it is. Otherwise the
        time zone is UTC and texts are hashed with seed 0, so that they are equal on each machine.
        """
        given = given or {}
        quoted = _NODE.replace("\\", "\\\\").replace('"', '\\"')
        return {
            _FILE: str(self._path),
            "PYTHONPATH": os.pathsep.join(filter(None, (_PYTHON, given.get("PYTHONPATH")))),
            "NODE_OPTIONS": f'--require "{quoted}" {given.get("NODE_OPTIONS", "")}'.rstrip(),
            "PYTHONHASHSEED": given.get("PYTHONHASHSEED", "0"),
            "TZ": given.get("TZ", "UTC"),
        }

    def begin_call(self, number: int) -> None:
        """Begin call `number`, from 1; before its request is sent."""
        mark = self._num_resets << 32 | number
        os.pwrite(self._handle, _NUMBER.pack(mark, mark ^ _MASK), _NUMBER_AT)

    def restart(self) -> None:
        """Count the calls from 1 again: what follows is drawn as after the start."""
        self._num_resets += 1
        self.begin_call(0)

    def loaded(self) -> list[str]:
        """The interpreters that draw from these moments: of "Python" and "Node" those that ran.

        Empty after the program's first answer: its clock and ids are its own, since it is written
        in another language or started its interpreter isolated (`python -I`).
        """
        marks = os.pread(self._handle, len(_INTERPRETERS), _LOADED_AT)
        return [name for name, mark in zip(_INTERPRETERS, marks, strict=True) if mark]

    def close(self) -> None:
        os.close(self._handle)
        self._path.unlink(missing_ok=True)


def _nanoseconds(clock: str) -> int:
    moment = datetime.fromisoformat(clock)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000) * 1_000_000
