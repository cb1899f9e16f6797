"""Hosts the scenarios of a worker: AWM records and packages in our format."""

import os
import shutil
from pathlib import Path

from envpool.core.offload import Snapshot, Verified
from envpool.hosting.awm_host import AwmHost
from envpool.hosting.awm_verifiers import verify_awm
from envpool.hosting.package_host import PackageHost
from envpool.inprocess.verifiers import VerifierFault
from envpool.store.overlay import PAGE
from envpool.store.template import Template
from envpool.workers.wire import Load, Verify
from envpool.workers.worker import Host, live_world
from scenarios.errors import PackageError
from scenarios.format import Scenario


class ScenarioHosts:
    """Hosts AWM records and packages in our format. It implements
    envpool.workers.worker.HostFactory.

    `scratch` is the worker's folder, where verifiers of AWM records find their databases.
    """

    def __init__(self, scratch: str) -> None:
        self._scratch = Path(scratch)
        self._scratch_name = scratch

    def open(self, request: Load) -> Host:
        """Host a scenario. Raises SeedError and ToolsetError."""
        if request.scenario.awm is None:
            return PackageHost(request.scenario, request.sources, request.image)
        return AwmHost(request.scenario, request.image)

    def verify(self, scenario: Scenario, host: Host, request: Verify) -> Verified:
        """The result of a task's verifier; a verifier that breaks is reported as `fault`."""
        if isinstance(host, PackageHost):
            return self._verify_package(host, request)
        assert scenario.awm is not None
        verdict = verify_awm(
            scenario.awm,
            request.task,
            request.which,
            host.template.image,
            _image(host.template, request.state),
            request.answer,
            self._scratch,
            clock=scenario.clock,
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
        for name in os.listdir(self._scratch_name):
            path = self._scratch / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _verify_package(self, host: PackageHost, request: Verify) -> Verified:
        world = live_world(request.state)
        try:
            findings = host.verify(request.task, world.overlay, request.answer)
        except (VerifierFault, PackageError) as exc:
            return Verified(request.id, fault=str(exc))
        return Verified(request.id, findings=findings)


def _image(template: Template, state: Snapshot) -> bytes:
    """A state as a database file."""
    pages = template.pages
    blank = b"\0" * PAGE
    return b"".join(
        state.pages.get(number) or (pages[number] if number < len(pages) else blank)
        for number in range(state.num_pages)
    )
