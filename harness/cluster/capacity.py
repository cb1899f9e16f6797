"""Whether a cluster has room for the actors of a run. No I/O."""

from collections.abc import Mapping, Sequence

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.cluster import ClusterSettings

MB = 2**20
_EPSILON = 1e-6  # Ray counts in ten thousandths of a CPU


def resources_of(cluster: ClusterSettings) -> dict[str, float]:
    """What each actor reserves, by Ray's names of resources; memory in bytes."""
    wanted = {"CPU": cluster.actor_cpus}
    if cluster.actor_memory_mb:
        wanted["memory"] = cluster.actor_memory_mb * MB
    return wanted


def room_in(nodes: Sequence[Mapping[str, float]], wanted: Mapping[str, float]) -> int:
    """How many actors with these resources the nodes can have, each node's own resources given.

    Example: [{"CPU": 4}, {"CPU": 3}], {"CPU": 2} -> 3
    """
    return sum(
        min(int(node.get(name, 0.0) / amount + _EPSILON) for name, amount in wanted.items())
        for node in nodes
    )


def require_room(
    nodes: Sequence[Mapping[str, float]], cluster: ClusterSettings, num_actors: int
) -> None:
    """Raise SettingsError where the cluster could not have so many actors even if nothing else ran
    on it: they would wait for ever."""
    wanted = resources_of(cluster)
    if (room := room_in(nodes, wanted)) >= num_actors:
        return
    found = "; ".join(map(_described, nodes)) or "it has no nodes"
    raise SettingsError(
        f"engine: the cluster has resources for {room} of {num_actors} actors with "
        f"{_described(wanted)} each (its nodes: {found}); lower --processes, --actor-cpus or "
        "--actor-memory-mb, or add nodes"
    )


def _described(resources: Mapping[str, float]) -> str:
    """Example: {"CPU": 2.0, "memory": 1048576.0} -> "CPU 2, memory 1 MB" """
    memory = f", memory {resources['memory'] / MB:,.0f} MB" if "memory" in resources else ""
    return f"CPU {resources.get('CPU', 0.0):g}{memory}"
