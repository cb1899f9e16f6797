"""The seeds of a synthesis: a jsonl file with names and descriptions of scenarios.

{"name": "City Bike Hire", "description": "A city rents out bicycles at forty stations …"}
"""

from pathlib import Path

import msgspec

from rehearsal_room.scenarios.awm.names import name_fault
from rehearsal_room.scenarios.decode_errors import field_sentence
from rehearsal_room.scenarios.errors import SynthesisError
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.synth.core.world_drafts import ScenarioIdea, SeedScenario


def read_seeds(path: Path) -> tuple[SeedScenario, ...]:
    """The seeds of a file. Raises SynthesisError naming file, line and field."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise SynthesisError(f"{path}: the seeds cannot be read: {exc}") from exc
    seeds: dict[str, SeedScenario] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        location = f"{path}: line {number}"
        try:
            seed = msgspec.json.decode(line, type=SeedScenario)
        except msgspec.ValidationError as exc:
            raise SynthesisError(f"{location}: {field_sentence(str(exc))}") from exc
        except UNREADABLE as exc:
            raise SynthesisError(f"{location}: {exc}") from exc
        if fault := name_fault(seed.name):
            raise SynthesisError(f"{location}: name: {fault}")
        if not seed.description.strip():
            raise SynthesisError(f"{location}: description: must not be empty")
        key = ScenarioIdea(seed.name, seed.description).key
        if key in seeds:
            raise SynthesisError(f"{location}: name: {seed.name!r} occurs twice")
        seeds[key] = seed
    if not seeds:
        raise SynthesisError(f"{path}: the file has no seed")
    return tuple(seeds.values())
