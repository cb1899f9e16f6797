"""Runs snippets at a sandbox level, without the audit hook, each in its own fork.

The program is a text, because inside bubblewrap there is no tests folder to import it from.

A snippet may succeed, at a level that guards nothing, so none may name a file of this machine that
it would change. It has two decoys, which are made for the run and belong to the user that runs it:

    library     a file that workers may read and not write, like a library's
    outside     a file that workers may neither read nor write
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

from rehearsal_room.envpool.workers.sandbox import bubblewrap, environment, import_root, layers_of

_PROGRAM = """
import json, os, signal, sys
from rehearsal_room.envpool.workers import confine
from rehearsal_room.envpool.workers.sandbox import WorkerLimits

level, scratch, decoys, limits, snippets = json.loads(sys.stdin.read())
readable = (*confine.readable(), os.path.dirname(decoys["library"]))
confine.readable = lambda: readable
confinement = confine.Confinement(level, WorkerLimits(**limits))  # once, as the fork server does

def outcome(snippet):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        folder = os.path.join(scratch, str(os.getpid()))
        os.mkdir(folder)
        os.chdir(folder)
        os.chmod(scratch, 0o300)
        confinement.apply(folder)
        names = dict(decoys)
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
ORDINARY_USER = 65534


def outcomes(
    level: str, snippets: list[str], *, ordinary: bool = False, **limits: int
) -> list[str]:
    """The outcome of each snippet: the repr of its `result`, the name of the exception that it
    raised, or the signal that ended it. `ordinary`: an ordinary user runs them, not root."""
    command = [sys.executable, "-c", _PROGRAM]
    with tempfile.TemporaryDirectory() as folder:
        decoys = _make_decoys(folder)
        scratch = os.path.join(folder, "scratch")
        if "bubblewrap" in layers_of(level):
            scratch = "/scratch"
            command = bubblewrap(scratch, command)
            shown = os.path.dirname(decoys["library"])
            command[1:1] = ["--ro-bind", shown, shown]
        if ordinary and os.getuid() == 0:
            _give_away(folder)
            command = as_ordinary_user(command)
        done = subprocess.run(
            command,
            input=json.dumps([level, scratch, decoys, limits, snippets]),
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


def _make_decoys(folder: str) -> dict[str, str]:
    """Make the scratch folder and the decoys."""
    decoys = {}
    os.mkdir(os.path.join(folder, "scratch"))
    for name in ("library", "outside"):
        inner = Path(folder, f"{name}-folder")
        inner.mkdir()
        (inner / name).write_text("not for workers", encoding="ascii")
        decoys[name] = str(inner / name)
    return decoys


def _give_away(folder: str) -> None:
    """Make the ordinary user the owner of a folder and of all that is in it."""
    os.chown(folder, ORDINARY_USER, ORDINARY_USER)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(parent, name), ORDINARY_USER, ORDINARY_USER)


def as_ordinary_user(command: list[str]) -> list[str]:
    """The command, run by an ordinary user without any right of root. Needs root.

    Folders that only root may enter (Python below /root, a checkout below it) are opened in mounts
    of their own, which no other process sees.
    """
    lines = ["set -e"]
    closed_folders = _closed_folders()
    if closed_folders:
        lines.append("mount -t tmpfs tmpfs /mnt")
    for closed, needed in closed_folders.items():
        for path in needed:
            lines += [
                f"mkdir -p {_aside(path)}",
                f"mount --bind {shlex.quote(path)} {_aside(path)}",
            ]
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(closed)}")
        for path in needed:
            lines += [f"mkdir -p {shlex.quote(path)}"]
            lines += [f"mount --rbind {_aside(path)} {shlex.quote(path)}"]
    user = f"setpriv --reuid {ORDINARY_USER} --regid {ORDINARY_USER} --clear-groups"
    lines.append(f"exec {user} --bounding-set=-all --inh-caps=-all {shlex.join(command)}")
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)]


def _aside(path: str) -> str:
    """Where a folder is kept while the one above it is covered."""
    return shlex.quote(f"/mnt{path}")


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
