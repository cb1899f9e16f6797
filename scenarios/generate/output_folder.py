"""Worlds on disk: a folder of packages, with a manifest that says how they came about.

    worlds/
      generated.json                what was ordered, and each world's digest and measures
      outdoor_shop_0001/            a package (see scenarios.format)
        generated.json              its plan, digest and measures

A package is written beside its place and moved there at once, so a killed run leaves no half one
that looks whole; a rerun of the same order makes what is missing or was altered. One order may be
extended (more worlds), but two orders do not share a folder.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

import msgspec

from scenarios.format import FILES
from scenarios.generate.compose import Made
from scenarios.generate.core.errors import GenerateError
from scenarios.generate.core.package import digest_of
from scenarios.generate.plan.knobs import Knobs
from scenarios.generate.plan.plan import VERSION, WorldPlan
from scenarios.generate.plan.splits import Split
from scenarios.generate.tasks.features import Features

MANIFEST = "generated.json"
_PART = ".part"  # how the name of a folder ends that is being written


@cache
def generator() -> str:
    """What makes the worlds: our version, a digest of our sources, and Faker's version. Another
    one gives other bytes."""
    folder = Path(__file__).parent
    total = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".toml", ".sql", ".md") and path.name != "README.md":
            total.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return f"{VERSION}, sources {total.hexdigest()}, Faker {version('faker')}"


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was asked for, without how many."""

    seed: int
    knobs: Knobs = Knobs()
    trades: tuple[str, ...] = ()  # empty: all of the split
    modules: tuple[str, ...] = ()  # in every world
    split: Split | None = None
    generator: str = msgspec.field(default_factory=generator)


class Record(msgspec.Struct, frozen=True):
    """One world that was made."""

    plan: WorldPlan
    digest: str  # of its files
    tables: int
    rows: int
    tools: int
    tasks: tuple[Features, ...]
    dropped: dict[str, int]  # drafts in vain -> how often


class Manifest(msgspec.Struct, frozen=True):
    """A folder of worlds that were made."""

    order: Order
    worlds: dict[str, Record] = {}  # in the order of their plans


@contextmanager
def opened(folder: Path, order: Order) -> Iterator[None]:
    """A block in which an order's folder, new or gone on with, is this process's alone. Raises
    GenerateError when it holds something else, cannot be used, or another process works there."""
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
        if not folder.is_dir():
            raise GenerateError(f"{folder}: it is no folder; take another one")
        place = os.open(folder, os.O_RDONLY)
    except OSError as exc:
        raise GenerateError(f"{folder}: the folder cannot be used: {exc}") from exc
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise GenerateError(f"{folder}: another process makes worlds there") from None
        _begin(folder, order)
        yield
    finally:
        os.close(place)


def _begin(folder: Path, order: Order) -> None:
    """Make or compare the manifest, and remove what a killed run was about to write."""
    path = folder / MANIFEST
    if path.exists():
        found = read_manifest(folder).order
        if found != order:
            raise GenerateError(f"{folder}: {_difference(found, order)}; take another folder")
    elif any(not _is_part(path) for path in folder.iterdir()):
        raise GenerateError(f"{folder}: it is there and has no {MANIFEST}; take another folder")
    for part in filter(_is_part, list(folder.iterdir())):
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink()
    if not path.exists():
        try:
            _write(path, msgspec.json.encode(Manifest(order)))
        except OSError as exc:
            raise GenerateError(f"{folder}: the folder cannot be used: {exc}") from exc


def _is_part(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(_PART)


def _difference(found: Order, wanted: Order) -> str:
    for name in Order.__struct_fields__:
        there, here = getattr(found, name), getattr(wanted, name)
        if there != here:
            shown = msgspec.json.encode(there).decode(), msgspec.json.encode(here).decode()
            return f"its worlds were made with {name} {shown[0]}, not {shown[1]}"
    return "its worlds were made otherwise"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder. Raises GenerateError when it is no manifest of ours."""
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError, ValueError) as exc:
        raise GenerateError(f"{path}: not a manifest of generated worlds: {exc}") from exc


def read_record(folder: Path, plan: WorldPlan) -> Record | None:
    """The record of a world that is there, whole and made after this plan; None: it is not."""
    place = folder / plan.name
    try:
        record = msgspec.json.decode((place / MANIFEST).read_bytes(), type=Record)
        texts = {name: (place / name).read_text(encoding="utf-8") for name in FILES}
    except (OSError, msgspec.DecodeError, ValueError):
        return None
    return record if record.plan == plan and record.digest == digest_of(texts) else None


def write_world(folder: Path, plan: WorldPlan, made: Made) -> Record:
    """Write a world and its record; what stood in its place is replaced."""
    texts = made.package.texts()
    record = Record(
        plan=plan,
        digest=digest_of(texts),
        tables=made.tables,
        rows=made.rows,
        tools=made.tools,
        tasks=made.tasks,
        dropped=made.dropped,
    )
    part = folder / f".{plan.name}{_PART}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for name, text in texts.items():
        (part / name).write_text(text, encoding="utf-8", newline="\n")
    (part / MANIFEST).write_bytes(msgspec.json.encode(record))
    place = folder / plan.name
    if place.exists():
        shutil.rmtree(place)
    part.rename(place)
    return record


def write_manifest(folder: Path, order: Order, records: Iterable[Record]) -> Manifest:
    """Write what a folder holds."""
    manifest = Manifest(order, {record.plan.name: record for record in records})
    _write(folder / MANIFEST, msgspec.json.encode(manifest))
    return manifest


def _write(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}{_PART}")
    beside.write_bytes(content)
    os.replace(beside, path)


def left_of(folder: Path, plans: Sequence[WorldPlan]) -> tuple[list[Record], list[WorldPlan]]:
    """The worlds that are there, and the plans of those that are not."""
    records = [read_record(folder, plan) for plan in plans]
    left = [plan for plan, found in zip(plans, records, strict=True) if found is None]
    return [found for found in records if found is not None], left
