"""Runs snippets behind the walls of a sandbox level, without the witness, each in its own fork.

It is the text of a program: inside bubblewrap there is no folder of tests to import it from.
"""

import json
import subprocess
import sys
import tempfile

from envpool.workers.sandbox import bubblewrap, environment

_PROGRAM = """
import json, os, signal, sys
from envpool.workers import confine
from envpool.workers.sandbox import Limits

level, scratch, limits, snippets = json.loads(sys.stdin.read())

def outcome(snippet):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        place = os.path.join(scratch, str(os.getpid()))
        os.mkdir(place)
        os.chdir(place)
        os.chmod(scratch, 0o300)
        confine.confine(level, place, Limits(**limits))
        names = {}
        try:
            exec(snippet, names)
            said = repr(names.get("result"))
        except BaseException as exc:
            said = type(exc).__name__
        os.write(write, said.encode()[:1000])
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    said = os.read(read, 1000).decode()
    os.close(read)
    code = os.waitstatus_to_exitcode(status)
    return said if code == 0 else signal.Signals(-code).name if code < 0 else f"exit {code}"

with open(1, "w") as out:
    json.dump([outcome(snippet) for snippet in snippets], out)
"""


def outcomes(level: str, snippets: list[str], **limits: int) -> list[str]:
    """What each snippet came to: the repr of its `result`, the name of the exception that it
    raised, or the signal that ended it."""
    command = [sys.executable, "-c", _PROGRAM]
    with tempfile.TemporaryDirectory() as scratch:
        if "bubblewrap" in level:
            scratch = "/scratch"
            command = bubblewrap(scratch, command)
        done = subprocess.run(
            command,
            input=json.dumps([level, scratch, limits, snippets]),
            capture_output=True,
            env=environment(scratch),
            text=True,
            timeout=50,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    told: list[str] = json.loads(done.stdout)
    return told
