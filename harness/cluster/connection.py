"""Connecting to a Ray cluster, or starting one on this machine for the time of a run."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import ceil

import ray
from ray.exceptions import RayError

from rehearsal_room.harness.cluster.address import address_of
from rehearsal_room.harness.cluster.capacity import require_room
from rehearsal_room.harness.cluster.ray_worker import reason_of
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.cluster import ClusterSettings

_STORE_BYTES = 80 * 2**20  # of a local cluster's object store: only records pass through it
# Of a local cluster, which ends with the run and which nobody watches: without metrics, events of
# tasks and reports of resources that do not change. An actor's batch of records travels as one
# message, not through the object store.
_SYSTEM_CONFIG = {
    "enable_metrics_collection": False,
    "enable_timeline": False,
    "event_stats": False,
    "event_stats_print_interval_ms": 0,
    "task_events_report_interval_ms": 0,
    "debug_dump_period_milliseconds": 0,
    "memory_monitor_refresh_ms": 0,  # it would kill actors; chaos and the user's limits may
    "raylet_report_resources_period_milliseconds": 1000,
    "gcs_pull_resource_loads_period_milliseconds": 5000,
    "report_worker_backlog_interval_ms": 5000,
    "kill_idle_workers_interval_ms": 5000,
    "max_direct_call_object_size": 2**20,
}
_TOKEN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")  # variables that Ray reads and sets


@contextmanager
def connected(cluster: ClusterSettings, num_actors: int) -> Iterator[None]:
    """A block in which this process is a driver of the cluster, which has room for so many actors.
    A cluster that was started here ends with the block, and its temporary folder is removed. Where
    this process is a driver already, its cluster is used. Raises SettingsError."""
    if ray.is_initialized():
        require_room(_nodes(), cluster, num_actors)
        yield
        return
    address = address_of(cluster, os.environ)
    connecting = _joined(address) if address else _started(ceil(cluster.actor_cpus * num_actors))
    with connecting:
        require_room(_nodes(), cluster, num_actors)
        yield


def _nodes() -> list[Mapping[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


@contextmanager
def _joined(address: str) -> Iterator[None]:
    try:
        ray.init(address=address, logging_level="error", namespace="rehearse")
    except (RayError, ConnectionError, RuntimeError, ValueError) as exc:
        raise SettingsError(
            f"address: the Ray cluster at {address} cannot be used: {reason_of(exc)} (a cluster "
            "with token authentication needs RAY_AUTH_MODE=token and its token)"
        ) from exc
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _started(num_cpus: int) -> Iterator[None]:
    """A cluster of this machine alone. Its CPUs are a number that Ray counts with, so there is room
    for as many actors as the run has processes."""
    folder = tempfile.mkdtemp(prefix="rehearse-ray-")
    before = {name: os.environ.get(name) for name in _TOKEN}
    # The cluster listens on the network, so Ray makes it ask for a token. The one that Ray would
    # make is kept in the home folder, where it changes what other clusters ask for.
    if before["RAY_AUTH_MODE"] is None:
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    try:
        try:
            ray.init(
                address="local",
                num_cpus=max(num_cpus, os.cpu_count() or 1),
                object_store_memory=_STORE_BYTES,
                include_dashboard=False,
                logging_level="error",
                _temp_dir=folder,
                _system_config=_SYSTEM_CONFIG,
            )
        except (RayError, OSError, RuntimeError, ValueError) as exc:
            raise SettingsError(
                f"engine: a local Ray cluster cannot be started: {reason_of(exc)}"
            ) from exc
        yield
    finally:
        ray.shutdown()
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)
