"""The output folder of `rehearse generate`: packages, with a manifest of how they were made.

    worlds/
      generated.json                the order, and each world's digest and measures
      outdoor_shop_0001/            a package (see scenarios.format)
        generated.json              its plan, digest and measures

A package is written into a temporary folder and then moved, so a killed run leaves no partial
package that looks complete. A rerun of the same order makes the packages that are missing or were
edited. An order may be extended (more worlds), but two orders cannot share a folder.
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

from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import FILES
from rehearsal_room.scenarios.generate.compose import GeneratedWorld
from rehearsal_room.scenarios.generate.core.errors import GenerateError
from rehearsal_room.scenarios.generate.core.package import digest_of
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.splits import Split
from rehearsal_room.scenarios.generate.plan.world_plans import VERSION, WorldPlan
from rehearsal_room.scenarios.generate.tasks.features import TaskFeatures

MANIFEST = "generated.json"
_PART = ".part"  # the suffix of files and folders that are being written


@cache
def generator_version() -> str:
    """The generator's version, a digest of its sources, and Faker's version.

    Only an equal text promises equal bytes for an equal order.
    """
    folder = Path(__file__).parent
    total = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".toml", ".sql", ".md") and path.name != "README.md":
            total.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return f"{VERSION}, sources {total.hexdigest()}, Faker {version('faker')}"


class GenerationOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a generation, without the number of worlds."""

    seed: int
    knobs: Knobs = Knobs()
    trades: tuple[str, ...] = ()  # empty: all of the split
    modules: tuple[str, ...] = ()  # in every world
    split: Split | None = None
    paraphrase: str = ""  # the model that rewords the instructions; empty: none
    generator: str = msgspec.field(default_factory=generator_version)


class WorldRecord(msgspec.Struct, frozen=True):
    """The plan, digest and measures of one world that was made."""

    plan: WorldPlan
    digest: str  # of its files
    tables: int
    rows: int
    tools: int
    tasks: tuple[TaskFeatures, ...]
    dropped: dict[str, int]  # unusable drafts: "situation: why" -> how often
    words: dict[str, str] = {}  # the trade's words -> the modules' own


class Manifest(msgspec.Struct, frozen=True):
    """The content of a folder of generated worlds."""

    order: GenerationOrder
    worlds: dict[str, WorldRecord] = {}  # in the order of their plans


@contextmanager
def lock_folder(folder: Path, order: GenerationOrder) -> Iterator[None]:
    """Prepare a new or existing folder for an order, and lock it for the block.

    Raises GenerateError when it contains something else, cannot be used, or is locked by another
    process.
    """
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
        if not folder.is_dir():
            raise GenerateError(f"{folder}: it is not a folder; choose another one")
        lock = os.open(folder, os.O_RDONLY)
    except OSError as exc:
        raise GenerateError(f"{folder}: the folder cannot be used: {exc}") from exc
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise GenerateError(f"{folder}: another process is making worlds there") from None
        _begin(folder, order)
        yield
    finally:
        os.close(lock)


def _begin(folder: Path, order: GenerationOrder) -> None:
    """Write or compare the manifest, and remove the partial files of a killed run."""
    path = folder / MANIFEST
    if path.exists():
        found = read_manifest(folder).order
        if found != order:
            raise GenerateError(f"{folder}: {_difference(found, order)}; choose another folder")
    elif any(not _is_part(path) for path in folder.iterdir()):
        raise GenerateError(
            f"{folder}: it is not empty and has no {MANIFEST}; choose another folder"
        )
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


def _difference(found: GenerationOrder, order: GenerationOrder) -> str:
    for name in GenerationOrder.__struct_fields__:
        old, new = getattr(found, name), getattr(order, name)
        if old != new:
            shown = msgspec.json.encode(old).decode(), msgspec.json.encode(new).decode()
            return f"its worlds were made with {name} {shown[0]}, not {shown[1]}"
    return "its worlds were made with other settings"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder. Raises GenerateError when it is not a valid manifest."""
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, ValueError, *UNREADABLE) as exc:
        raise GenerateError(f"{path}: not a manifest of generated worlds: {exc}") from exc


def record_of(package: Path) -> WorldRecord | None:
    """The record of a package that was generated. None: it has none, or was edited since."""
    try:
        record = msgspec.json.decode((package / MANIFEST).read_bytes(), type=WorldRecord)
        texts = {name: (package / name).read_text(encoding="utf-8") for name in FILES}
    except (OSError, ValueError, *UNREADABLE):
        return None
    return record if record.digest == digest_of(texts) else None


def read_record(folder: Path, plan: WorldPlan) -> WorldRecord | None:
    """The record of a world. None: it is missing, edited, or made from another plan."""
    record = record_of(folder / plan.name)
    return record if record is not None and record.plan == plan else None


def write_world(folder: Path, plan: WorldPlan, world: GeneratedWorld) -> WorldRecord:
    """Write a world and its record, replacing an earlier folder of its name; return the record."""
    texts = world.package.texts()
    record = WorldRecord(
        plan=plan,
        digest=digest_of(texts),
        tables=world.tables,
        rows=world.rows,
        tools=world.tools,
        tasks=world.tasks,
        dropped=world.dropped,
        words=world.words,
    )
    part = folder / f".{plan.name}{_PART}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for name, text in texts.items():
        (part / name).write_text(text, encoding="utf-8", newline="\n")
    (part / MANIFEST).write_bytes(msgspec.json.encode(record))
    package = folder / plan.name
    if package.exists():
        shutil.rmtree(package)
    part.rename(package)
    return record


def replace_tasks(
    package: Path, record: WorldRecord, tasks_toml: str, tasks: tuple[TaskFeatures, ...]
) -> WorldRecord:
    """Give a written package another tasks.toml and its tasks other measures; return the record."""
    texts = {name: (package / name).read_text(encoding="utf-8") for name in FILES}
    texts["tasks.toml"] = tasks_toml
    new = msgspec.structs.replace(record, tasks=tasks, digest=digest_of(texts))
    part = package.parent / f".{package.name}{_PART}"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(package, part)
    (part / "tasks.toml").write_text(tasks_toml, encoding="utf-8", newline="\n")
    (part / MANIFEST).write_bytes(msgspec.json.encode(new))
    shutil.rmtree(package)
    part.rename(package)
    return new


def write_manifest(
    folder: Path, order: GenerationOrder, records: Iterable[WorldRecord]
) -> Manifest:
    """Write the manifest of a folder; return it."""
    manifest = Manifest(order, {record.plan.name: record for record in records})
    _write(folder / MANIFEST, msgspec.json.encode(manifest))
    return manifest


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}{_PART}")
    part.write_bytes(content)
    os.replace(part, path)


def find_missing(
    folder: Path, plans: Sequence[WorldPlan]
) -> tuple[list[WorldRecord], list[WorldPlan]]:
    """The records of the worlds that exist, and the plans of those that are missing."""
    records = [read_record(folder, plan) for plan in plans]
    missing = [plan for plan, found in zip(plans, records, strict=True) if found is None]
    return [found for found in records if found is not None], missing
