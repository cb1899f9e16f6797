"""The pool that runs trusted worlds in the event loop's process."""

from pathlib import Path

import pytest

from rehearsal_room.envpool.inprocess.pool import LocalPool
from tests.support.ledger_world import ledger


async def test_a_package_is_hosted_once(tmp_path: Path) -> None:
    """Leases of one package share a world, whatever its folder; another package has its own."""
    first, copy = ledger(tmp_path / "a"), ledger(tmp_path / "b")
    other = ledger(tmp_path / "c", policy_md="Be kind.")
    pool = LocalPool()
    assert pool.world(first) is pool.world(copy)
    assert pool.world(other) is not pool.world(first)
    async with pool.lease(first), pool.lease(copy), pool.lease(other):
        pass
    assert pool.statistics() == {"worlds": 2, "live": 0, "max_live": 3, "leases": 3, "calls": 0}
    pool.close()


async def test_repr_and_statistics(tmp_path: Path) -> None:
    """`repr` and `statistics` count live worlds, leases and calls."""
    pool = LocalPool()
    assert repr(pool) == "<LocalPool [0 live of 0 leased | 0 worlds, 0 calls]>"
    async with pool.lease(ledger(tmp_path)) as env:
        fresh = env.digest[:8]
        assert repr(env) == f"<LocalEnv <Lease of 'ledger' [0 changed pages, digest {fresh}]>>"
        await env.call("wipe", {}, "c0-0")
        await env.call("wipe", {}, "c0-0")
        assert repr(pool) == "<LocalPool [1 live of 1 leased | 1 worlds, 1 calls]>"
    assert pool.statistics() == {"worlds": 1, "live": 0, "max_live": 1, "leases": 1, "calls": 1}
    pool.close()


async def test_closing_closes_every_world(tmp_path: Path) -> None:
    """A closed pool hosts nothing, may be closed again, and may host again."""
    scenario = ledger(tmp_path)
    pool = LocalPool()
    world = pool.world(scenario)
    world.dump(world.template.overlay())
    pool.close()
    pool.close()
    assert pool.statistics()["worlds"] == 0
    with pytest.raises(Exception, match="closed"):
        world.lease().call("wipe", {})
    assert pool.world(scenario).lease().call("wipe", {}).text == "1"
    pool.close()
