"""Runs snippets at a sandbox level, without the audit hook, each in its own fork.

The program is a text, because inside bubblewrap there is no tests folder to import it from.
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
        folder = os.path.join(scratch, str(os.getpid()))
        os.mkdir(folder)
        os.chdir(folder)
        os.chmod(scratch, 0o300)
        confine.confine(level, folder, Limits(**limits))
        names = {}
        try:
            exec(snippet, names)
            text = repr(names.get("result"))
        except BaseException as exc:
            text = type(exc).__name__
        os.write(write, text.encode()[:1000])
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    text = os.read(read, 1000).decode()
    os.close(read)
    code = os.waitstatus_to_exitcode(status)
    return text if code == 0 else signal.Signals(-code).name if code < 0 else f"exit {code}"

with open(1, "w") as out:
    json.dump([outcome(snippet) for snippet in snippets], out)
"""


def outcomes(level: str, snippets: list[str], **limits: int) -> list[str]:
    """The outcome of each snippet: the repr of its `result`, the name of the exception that it
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
    found: list[str] = json.loads(done.stdout)
    return found
