"""Whether a cluster has room for a run's actors."""

from collections.abc import Mapping

import pytest

from rehearsal_room.harness.cluster.capacity import MB, require_room, resources_of, room_in
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.cluster import ClusterSettings


@pytest.mark.parametrize(
    ("nodes", "wanted", "room"),
    [
        ([{"CPU": 4.0}, {"CPU": 3.0}], {"CPU": 2.0}, 3),
        ([{"CPU": 4.0, "memory": 3.0}], {"CPU": 1.0, "memory": 2.0}, 1),
        ([{"CPU": 0.3}], {"CPU": 0.1}, 3),
        ([{"GPU": 8.0}], {"CPU": 1.0}, 0),
        ([], {"CPU": 1.0}, 0),
    ],
)
def test_an_actor_needs_one_node_with_all_that_it_reserves(
    nodes: list[Mapping[str, float]], wanted: Mapping[str, float], room: int
) -> None:
    """Rests of two nodes do not add up, and the scarcest resource counts."""
    assert room_in(nodes, wanted) == room


def test_too_little_room_is_one_sentence() -> None:
    """The message has what was asked for, what was found, and what to do."""
    cluster = ClusterSettings(actor_cpus=2, actor_memory_mb=512)
    assert resources_of(cluster) == {"CPU": 2, "memory": 512 * MB}
    nodes: list[Mapping[str, float]] = [{"CPU": 4.0, "memory": 600.0 * MB}]
    require_room(nodes, cluster, 1)
    with pytest.raises(SettingsError) as caught:
        require_room(nodes, cluster, 2)
    assert str(caught.value) == (
        "engine: the cluster has resources for 1 of 2 actors with CPU 2, memory 512 MB each (its "
        "nodes: CPU 4, memory 600 MB); lower --processes, --actor-cpus or --actor-memory-mb, or "
        "add nodes"
    )
    with pytest.raises(SettingsError, match="it has no nodes"):
        require_room([], cluster, 1)
