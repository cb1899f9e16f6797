"""What several tests need and one run makes, also where several processes run the tests."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.forked_workers import WORKER_VARIABLE


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` has filled, in this process or in another one of the session.

    `make` gets the folder empty. If it fails, nothing is kept: the next caller makes it again.
    """
    base = factory.getbasetemp()
    shared = base.parent if {"PYTEST_XDIST_WORKER", WORKER_VARIABLE} & set(os.environ) else base
    folder, done = shared / name, shared / f"{name}.done"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            done.touch()
    return folder
