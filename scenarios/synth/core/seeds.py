"""The scenarios that a synthesis begins with: a jsonl file of names and descriptions.

{"name": "City Bike Hire", "description": "A city rents out bicycles at forty stations …"}
"""

from pathlib import Path

import msgspec

from scenarios.awm.names import name_fault
from scenarios.decode_errors import field_sentence
from scenarios.errors import SynthesisError
from scenarios.synth.core.world_drafts import Idea, Seed


def read_seeds(path: Path) -> tuple[Seed, ...]:
    """The seeds of a file. Raises SynthesisError naming file, line and field."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise SynthesisError(f"{path}: the seeds cannot be read: {exc}") from exc
    seeds: dict[str, Seed] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{path}: line {number}"
        try:
            seed = msgspec.json.decode(line, type=Seed)
        except msgspec.ValidationError as exc:
            raise SynthesisError(f"{place}: {field_sentence(str(exc))}") from exc
        except msgspec.DecodeError as exc:
            raise SynthesisError(f"{place}: {exc}") from exc
        if fault := name_fault(seed.name):
            raise SynthesisError(f"{place}: name: {fault}")
        if not seed.description.strip():
            raise SynthesisError(f"{place}: description: must not be empty")
        key = Idea(seed.name, seed.description).key
        if key in seeds:
            raise SynthesisError(f"{place}: name: {seed.name!r} is there already")
        seeds[key] = seed
    if not seeds:
        raise SynthesisError(f"{path}: there is no seed in it")
    return tuple(seeds.values())
