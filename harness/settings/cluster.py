"""What runs the processes of a run: this machine, or Ray, here or on many machines."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class ClusterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What runs the processes that play the episodes."""

    engine: Annotated[
        Literal["local", "ray"],
        Meta(
            description="Run the processes that play the episodes on this machine (local), or as "
            "actors of a Ray cluster (ray), --processes of them.",
            extra={"may_change": True},
        ),
    ] = "local"
    address: Annotated[
        str,
        Meta(
            description="Address of the Ray cluster: HOST:PORT, or auto for the one of this "
            "machine.",
            extra={
                "metavar": "ADDR",
                "default": "RAY_ADDRESS of the environment, else a local cluster for this run",
                "may_change": True,
            },
        ),
    ] = ""
    actor_cpus: Annotated[
        float,
        Meta(
            gt=0,
            description="CPUs that Ray reserves for each actor.",
            extra={"may_change": True},
        ),
    ] = 1.0
    actor_memory_mb: Annotated[
        int,
        Meta(
            ge=0,
            description="Memory that Ray reserves for each actor, in MB; 0: none is reserved.",
            extra={"may_change": True},
        ),
    ] = 0
