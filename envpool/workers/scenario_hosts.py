"""Hosts the scenarios of a worker: AWM records and packages in our format."""

import os
import shutil
from pathlib import Path

from rehearsal_room.envpool.core.remote_states import Snapshot, Verified
from rehearsal_room.envpool.hosting.awm_host import AwmHost
from rehearsal_room.envpool.hosting.awm_verifiers import verify_awm
from rehearsal_room.envpool.hosting.package_host import PackageHost
from rehearsal_room.envpool.hosting.package_verifiers import verify_package
from rehearsal_room.envpool.inprocess.verifiers import VerifierFault
from rehearsal_room.envpool.store.overlay import PAGE
from rehearsal_room.envpool.workers.messages.wire import Load, Verify
from rehearsal_room.envpool.workers.worker import Host, live_world
from rehearsal_room.scenarios.errors import PackageError


class ScenarioHosts:
    """Hosts AWM records and packages in our format. It implements
    envpool.workers.worker.HostFactory.

    `scratch` is the worker's folder, where verifiers of AWM records find their databases.
    """

    def __init__(self, scratch: str) -> None:
        self._scratch = Path(scratch)
        self._scratch_name = scratch
        self._empty_size = _size_when_empty(scratch)

    def open(self, request: Load) -> Host:
        """Host a scenario. Raises SeedError and ToolsetError."""
        if request.scenario.awm is None:
            return PackageHost(request.scenario, request.source, request.image)
        return AwmHost(request.scenario, request.image)

    def verify(self, request: Verify) -> Verified:
        """The result of a task's verifier; a verifier that breaks is reported as `fault`."""
        if request.scenario.awm is None:
            return _verify_package(request)
        verdict = verify_awm(
            request.scenario.awm,
            request.task,
            request.which,
            request.image,
            _image(request.image, request.state),
            request.answer,
            self._scratch,
            clock=request.scenario.clock,
        )
        return Verified(
            request.id,
            label=verdict.label,
            detail=verdict.detail,
            printed=verdict.printed,
            fault=verdict.fault,
            violation=verdict.violation,
        )

    def sweep(self) -> None:
        """Remove the files that hosted code left in the scratch folder."""
        if os.stat(self._scratch_name).st_size == self._empty_size:
            return
        for name in os.listdir(self._scratch_name):
            path = self._scratch / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _size_when_empty(folder: str) -> int:
    """The size of an empty folder, where each entry adds to the size (as on tmpfs). -1: entries do
    not add to it, or the folder has some."""
    if os.listdir(folder):
        return -1
    size = os.stat(folder).st_size
    entry = os.path.join(folder, "entry")
    os.mkdir(entry)
    size_with_entry = os.stat(folder).st_size
    os.rmdir(entry)
    return size if size_with_entry != size == os.stat(folder).st_size else -1


def _verify_package(request: Verify) -> Verified:
    overlay = live_world(request.state).overlay
    try:
        findings = verify_package(
            request.scenario,
            request.source,
            request.image,
            overlay,
            request.task,
            request.answer,
        )
    except (VerifierFault, PackageError) as exc:
        return Verified(request.id, fault=str(exc))
    return Verified(request.id, findings=findings)


def _image(start: bytes, state: Snapshot) -> bytes:
    """A state as a database file. `start` is the template's."""
    empty = b"\0" * PAGE
    return b"".join(
        state.pages.get(number) or start[number * PAGE : (number + 1) * PAGE] or empty
        for number in range(state.num_pages)
    )
