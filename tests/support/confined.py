"""Runs snippets at a sandbox level, without the audit hook, each in its own fork.

The program is a text, because inside bubblewrap there is no tests folder to import it from.
"""

import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from envpool.workers.sandbox import bubblewrap, environment, import_root, layers_of

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
NOBODY = 65534


def outcomes(
    level: str, snippets: list[str], *, ordinary: bool = False, **limits: int
) -> list[str]:
    """The outcome of each snippet: the repr of its `result`, the name of the exception that it
    raised, or the signal that ended it. `ordinary`: an ordinary user runs them, not root.

    The file `../../outside` belongs to the user that runs them.
    """
    command = [sys.executable, "-c", _PROGRAM]
    with tempfile.TemporaryDirectory() as folder:
        scratch = os.path.join(folder, "scratch")
        os.mkdir(scratch)
        Path(folder, "outside").write_text("not for workers", encoding="ascii")
        if "bubblewrap" in layers_of(level):
            scratch = "/scratch"
            command = bubblewrap(scratch, command)
        if ordinary and os.getuid() == 0:
            for path in (folder, os.path.join(folder, "scratch"), os.path.join(folder, "outside")):
                os.chown(path, NOBODY, NOBODY)
            command = as_ordinary_user(command)
        done = subprocess.run(
            command,
            input=json.dumps([level, scratch, limits, snippets]),
            capture_output=True,
            env=environment(scratch) | {"PATH": os.environ["PATH"]},
            text=True,
            timeout=100,
            check=False,
        )
        os.chmod(os.path.join(folder, "scratch"), 0o700)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def as_ordinary_user(command: list[str]) -> list[str]:
    """The command, run by an ordinary user without any right of root. Needs root.

    Folders that only root may enter (Python below /root, a checkout below it) are opened in mounts
    of their own, which nobody else sees.
    """
    lines = ["set -e"]
    for closed, needed in _closed_folders().items():
        lines += [f"aside=$(mktemp -d -p {tempfile.gettempdir()})", "mount -t tmpfs -o mode=755 tmpfs $aside"]
        for number, path in enumerate(needed):
            lines += [f"mkdir $aside/{number}", f"mount --bind {shlex.quote(path)} $aside/{number}"]
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(closed)}")
        for number, path in enumerate(needed):
            lines += [f"mkdir -p {shlex.quote(path)}", f"mount --bind $aside/{number} {path}"]
    user = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --bounding-set=-all"
    lines.append(f"exec {user} --inh-caps=-all {shlex.join(command)}")
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)]


def _closed_folders() -> dict[str, list[str]]:
    """Folders that only their owner may enter -> what an ordinary user needs below them."""
    found: dict[str, list[str]] = {}
    needed = {sys.prefix, sys.base_prefix, import_root()}
    for path in sorted(needed):
        for folder in reversed(Path(path).parents):
            if not folder.stat().st_mode & 0o001:
                found.setdefault(str(folder), []).append(path)
                break
    return found


@functools.cache
def why_no_ordinary_user() -> str:
    """Why nothing can be run as an ordinary user here; empty: it works."""
    if os.getuid() != 0:
        return ""
    if shutil.which("setpriv") is None or shutil.which("unshare") is None:
        return "util-linux is not installed"
    command = as_ordinary_user([sys.executable, "-I", "-S", "-c", "pass"])
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return done.stderr.strip()[-200:] if done.returncode else ""
