"""What an actor runs on its node: the same Worker as a rollout process of one machine.

Each node needs this project in the driver's version, the packages of the scenarios with the same
content, and the files that the settings name, under the same paths. The actor finds scenarios and
makes the plan by itself, a pure function of the settings, and compares it with the driver's.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import ray.cloudpickle

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.harness.core.errors import HarnessError, ProcessError
from rehearsal_room.harness.fleet.faults import failed_of
from rehearsal_room.harness.fleet.transport import CarriedTransport
from rehearsal_room.harness.fleet.worker import RolloutWorker, WorkerSpec
from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.rollout.gc_tuning import tune_garbage_collector
from rehearsal_room.harness.rollout.process import configure_logging, raise_file_limit
from rehearsal_room.harness.settings.mcp import header_variables, variable_names
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.harness.setup.policies import open_policy
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import Scenario, Task

_EXPECTED = (HarnessError, PoolError, ScenarioError, OSError)
_CARRIED = ("OPENAI_", "REHEARSE_")  # first words of environment variables that nodes get
_GATHER_S = 0.25  # seconds that messages may wait; Ray takes 2 to 4 ms of CPU for a batch
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_NOT_CARRIED = ("REHEARSE_MQTT_USER", "REHEARSE_MQTT_PASSWORD")  # the driver alone uses the broker


class ActorSpec(msgspec.Struct, frozen=True):
    """What an actor plays with; it travels pickled."""

    worker: WorkerSpec  # without tasks and plans; its policy is one that the settings do not name
    digests: dict[str, str]  # of the driver's scenarios, by name
    folder: str  # in which the driver works: relative paths begin there, if the node has it
    environment: dict[str, str]  # of the driver, in part


def payload_of(
    spec: WorkerSpec, policy: OpenPolicy | None, environment: Mapping[str, str]
) -> bytes:
    """What an actor needs to be this worker. `policy` None: the settings name it, and each actor
    opens its own."""
    worlds = spec.settings.worlds
    names = {*variable_names(worlds), *header_variables(worlds), *_carried(environment)}
    actor = ActorSpec(
        worker=msgspec.structs.replace(spec, folder=None, tasks=(), plans=(), policy=policy),
        digests=_digests(spec.tasks),
        folder=str(Path.cwd()),
        environment={name: environment[name] for name in sorted(names) if name in environment},
    )
    dumped: bytes = ray.cloudpickle.dumps(actor)
    return dumped


def _carried(names: Iterable[str]) -> list[str]:
    return [
        name
        for name in names
        if name not in _NOT_CARRIED and (name.startswith(_CARRIED) or name.lower() in _PROXIES)
    ]


def _digests(tasks: Sequence[tuple[Scenario, Task]]) -> dict[str, str]:
    return {scenario.name: scenario.digest for scenario, _ in tasks}


def prepare(payload: bytes, address: str) -> WorkerSpec:
    """What the worker needs, made from what is on this node. Raises ProcessError, whose message
    names the node, where something is missing or differs."""
    actor: ActorSpec = ray.cloudpickle.loads(payload)
    os.environ.update(actor.environment)
    with suppress(OSError):  # only relative paths need it
        os.chdir(actor.folder)
    settings = actor.worker.settings
    try:
        tasks, plans = planned(settings)
        policy = actor.worker.policy or open_policy(settings, plans, None)
    except _EXPECTED as exc:
        raise ProcessError(
            f"node {address} cannot play: {exc}; every node needs the packages of the scenarios "
            "and the files that the settings name, under the same paths"
        ) from exc
    here = _digests(tasks)
    for name, digest in actor.digests.items():
        if here.get(name) != digest:
            raise ProcessError(
                f"node {address} has another scenario {name!r}: its digest is {here.get(name)} "
                f"there and {digest} at the driver; copy the package to every node"
            )
    return msgspec.structs.replace(actor.worker, tasks=tasks, plans=plans, policy=policy)


class Playing:
    """One worker's life in an actor: `batches` runs it and gives what it sends."""

    def __init__(self, payload: bytes, address: str) -> None:
        self._payload = payload
        self._address = address
        self._transport = CarriedTransport(_GATHER_S)

    def deliver(self, contents: Iterable[bytes]) -> None:
        """Take messages from the coordinator."""
        self._transport.deliver(contents)

    async def batches(self) -> AsyncGenerator[list[bytes]]:
        """What the worker sends, until it has ended. Raises what failed in its own tasks."""
        configure_logging(0)
        life = asyncio.create_task(self._live())
        life.add_done_callback(lambda _: self._transport.close())
        try:
            async for contents in self._transport.batches():
                yield contents
            await life
        finally:
            life.cancel()

    async def _live(self) -> None:
        try:
            spec = prepare(self._payload, self._address)
        except ProcessError as exc:
            self._transport.put(failed_of(exc))
            return
        raise_file_limit(spec.settings.max_concurrency + 256)
        tune_garbage_collector()
        await RolloutWorker(spec, self._transport).serve()
