"""Importing AWM records: a package for each valid scenario, a reason for each refused one."""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.awm.folder import CLOCK, AwmFolder
from rehearsal_room.scenarios.awm.join import ENVS, Duplicate
from rehearsal_room.scenarios.awm.package import Occupied, RecordSource, write
from rehearsal_room.scenarios.errors import PackageError, RecordError
from rehearsal_room.scenarios.format import Scenario, Seeding

Examine = Callable[[Scenario], str | None]  # why to refuse a scenario; None: accept it
ImportProgress = Callable[[int, int, str], None]  # number done, total, the next scenario


class Written(msgspec.Struct, frozen=True):
    """A scenario that was imported."""

    name: str
    path: Path
    tasks: int


class Refusal(msgspec.Struct, frozen=True):
    """A scenario that was not imported, or a broken line whose scenario is not known."""

    scenario: str | None  # None: not known
    file: str
    line: int | None  # None: the file has no row of the scenario
    reason: str


class ImportReport(msgspec.Struct, frozen=True):
    """The result of an import."""

    written: tuple[Written, ...]
    refused: tuple[Refusal, ...]
    duplicates: tuple[Duplicate, ...]  # of all chosen scenarios, including refused ones
    tasks_without_sql: int  # tasks of written scenarios that have no SQL verifier
    tasks_without_code: int  # tasks of written scenarios that have no code verifier
    stray_verifiers: int  # verifiers for tasks that their scenario does not have


def import_awm(
    folder: Path,
    out: Path,
    *,
    names: Iterable[str] | None = None,
    seeding: Seeding = "awm",
    clock: str = CLOCK,
    examine: Examine | None = None,
    progress: ImportProgress | None = None,
) -> ImportReport:
    """Write the scenarios of a folder as packages below `out`; `names` None: all of them.

    No package is left half-written. `seeding` and `clock` are written into every package.
    `examine` may refuse a scenario that is valid on disk, for example by hosting it. Raises
    PackageError for a folder that lacks a file and UnknownScenario for an unknown name, both
    before anything is written.
    """
    records = AwmFolder(folder, seeding=seeding, clock=clock)
    chosen = records.names()
    if names is not None:
        chosen = list(dict.fromkeys(map(records.name_of, names)))
    tally = _Tally([], [], [])
    for done, name in enumerate(chosen):
        if progress is not None:
            progress(done, len(chosen), name)
        _import_one(records, name, out, examine, tally)
    if progress is not None:
        progress(len(chosen), len(chosen), "")
    lost = (_refusal(None, fault) for fault in records.join.faults(None))
    return ImportReport(
        written=tuple(tally.written),
        refused=(*tally.refused, *lost),
        duplicates=tuple(tally.duplicates),
        tasks_without_sql=tally.without_sql,
        tasks_without_code=tally.without_code,
        stray_verifiers=tally.stray,
    )


class _Tally(msgspec.Struct):
    written: list[Written]
    refused: list[Refusal]
    duplicates: list[Duplicate]
    without_sql: int = 0
    without_code: int = 0
    stray: int = 0


def _import_one(
    records: AwmFolder, name: str, out: Path, examine: Examine | None, tally: _Tally
) -> None:
    duplicates = tuple(records.join.duplicates(name))
    tally.duplicates += duplicates
    try:
        scenario = records.find(name)
        if examine is not None and (reason := examine(scenario)):
            line = records.join.required_row(ENVS, name).line
            raise RecordError(records.path, ENVS, line, reason)
        source = RecordSource(records.path, tuple(records.join.used_rows(name)), duplicates)
        path = _write(scenario, out, source)
    except RecordError as exc:
        tally.refused.append(_refusal(name, exc))
        return
    except Occupied as exc:
        tally.refused.append(Refusal(name, str(out / name), None, str(exc)))
        return
    assert scenario.awm is not None
    verifiers = scenario.awm.verifiers.values()
    tally.written.append(Written(name, path, len(scenario.tasks)))
    tally.without_sql += sum(verifier.sql is None for verifier in verifiers)
    tally.without_code += sum(verifier.code is None for verifier in verifiers)
    tally.stray += records.num_stray(scenario)


def _write(scenario: Scenario, out: Path, source: RecordSource) -> Path:
    try:
        return write(scenario, out, source)
    except OSError as exc:  # such as a full disk: the next package would fail as well
        raise PackageError(f"{out}: packages cannot be written there: {exc}") from exc


def _refusal(name: str | None, exc: RecordError) -> Refusal:
    return Refusal(name, exc.file, exc.line, exc.reason)
