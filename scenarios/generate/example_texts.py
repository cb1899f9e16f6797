"""Instructions of generated tasks as examples, for a model that writes tasks itself."""

from collections.abc import Iterator
from functools import lru_cache
from random import Random
from zlib import crc32

from rehearsal_room.scenarios.generate.content.drawn_world import draw_world
from rehearsal_room.scenarios.generate.plan.world_plans import plan_worlds
from rehearsal_room.scenarios.generate.tasks.dressed_drafts import instruction_of


@lru_cache(maxsize=256)
def example_instructions(name: str, count: int) -> tuple[str, ...]:
    """Instructions of different trades and situations, each in one voice; the same for the
    same name."""
    return tuple(_drawn(name, count))


def _drawn(name: str, count: int) -> Iterator[str]:
    rng = Random(name)
    for plan in plan_worlds(count, crc32(name.encode())):
        world = draw_world(plan)
        draft = rng.choice(world.staged).draft
        text = getattr(draft.ask, rng.choice(draft.ask.__struct_fields__))
        drawn = text if isinstance(text, str) else rng.choice(text)
        yield instruction_of(world, draft, drawn)
