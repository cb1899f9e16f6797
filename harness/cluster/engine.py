"""The engine `ray`: starts rollout workers as actors of a Ray cluster."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import ray
import ray.cloudpickle

from rehearsal_room.harness.cluster import actor
from rehearsal_room.harness.cluster.connection import connected
from rehearsal_room.harness.cluster.node import payload_of
from rehearsal_room.harness.cluster.ray_worker import RayWorker
from rehearsal_room.harness.fleet.coordinator import START_FACTOR, StartWorker
from rehearsal_room.harness.fleet.engine import share_of
from rehearsal_room.harness.fleet.worker import WorkerSpec
from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.scenarios import distribution


@contextmanager
def ray_engine(spec: WorkerSpec, *, policy: OpenPolicy | None) -> Iterator[StartWorker]:
    """A function that starts the actor of a number, for the time of the block. `policy` None: each
    actor opens the one that the settings name. Raises SettingsError."""
    settings, folder = spec.settings, spec.folder
    assert folder is not None, "the coordinator has the run's folder"
    ray.cloudpickle.register_pickle_by_value(actor)  # it also runs where the project is missing
    actor_class = ray.remote(actor.RolloutActor)
    version = distribution.version()
    install = f"{distribution.install_command('ray')} (version {version})"

    def start(number: int) -> RayWorker:
        mine = msgspec.structs.replace(
            spec, settings=actor_share(settings, number), names_trusted=False
        )
        return RayWorker(
            actor_class,
            (distribution.NAME, version, install),
            payload_of(mine, policy, os.environ),
            number,
            cluster=settings.cluster,
            patience=settings.process_timeout * START_FACTOR,
            folder=folder,
            plans=spec.plans,
        )

    with connected(settings.cluster, settings.processes):
        yield start


def actor_share(settings: Settings, number: int) -> Settings:
    """An actor's share of the settings. It has as many sandbox workers as CPUs, unless their number
    is set."""
    share = share_of(settings, number)
    if settings.worlds.workers is not None:
        return share
    workers = max(1, int(settings.cluster.actor_cpus))
    worlds = msgspec.structs.replace(share.worlds, workers=workers)
    return msgspec.structs.replace(share, worlds=worlds)
