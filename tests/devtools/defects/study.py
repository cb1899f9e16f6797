"""How many injected defects the gate catches, by kind, and its false alarms on sound worlds."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from rehearsal_room.judge.gate.job_pool import CheckOutcome, JobSettings, check_worlds
from rehearsal_room.judge.gate.package import CheckResult
from rehearsal_room.scenarios.format import Scenario, read
from tests.devtools.defects.catalogue import DEFECTS, Injection, inject_all
from tests.devtools.defects.target import Defect


class Missed(msgspec.Struct, frozen=True):
    """An injected defect that the gate did not report."""

    world: str
    where: str


class Kind(msgspec.Struct, frozen=True):
    """The results for one kind of defect."""

    kind: str
    summary: str
    injected: int
    caught: int
    missed: tuple[Missed, ...]
    beyond: str  # why the package alone cannot show it; empty: it can


class Study(msgspec.Struct, frozen=True):
    """The measured gate."""

    worlds: int  # sound ones
    false_alarms: tuple[str, ...]  # of those, the ones that failed
    kinds: tuple[Kind, ...]

    def counts(self, *, beyond: bool) -> tuple[int, int]:
        """Injected and caught defects; without `beyond`, those that the package alone can show."""
        kinds = [kind for kind in self.kinds if beyond or not kind.beyond]
        return sum(kind.injected for kind in kinds), sum(kind.caught for kind in kinds)


def study(
    folders: Sequence[Path],
    into: Path,
    *,
    defects: Sequence[Defect] = DEFECTS,
    seed: int = 0,
    jobs: int = 1,
) -> Study:
    """Check sound packages, inject every kind of defect into each of them that passes, and check
    the copies, which are written below `into`."""
    found = _checked(folders, jobs)
    sound = [folder for folder in folders if found[folder].report.ok]
    injections = inject_all(sound, into, defects=defects, seed=seed)
    after = _checked([injection.folder for injection in injections], jobs)
    kinds = []
    for defect in defects:
        injected = [one for one in injections if one.kind == defect.kind]
        missed = [
            Missed(one.world, one.where)
            for one in injected
            if not _is_reported(one, after[one.folder], listed=defect.listed)
        ]
        caught = len(injected) - len(missed)
        kinds.append(
            Kind(defect.kind, defect.summary, len(injected), caught, tuple(missed), defect.beyond)
        )
    alarms = [folder.name for folder in folders if not found[folder].report.ok]
    return Study(len(folders), tuple(alarms), tuple(kinds))


def render(study: Study, console: Console) -> None:
    """Print a row for each kind, the totals, and the missed defects."""
    table = Table("defect", "what is wrong", "injected", "caught", box=None, pad_edge=False)
    for kind in sorted(study.kinds, key=lambda kind: bool(kind.beyond)):
        style = "dim" if not kind.injected else "yellow" if kind.caught < kind.injected else ""
        name = f"{kind.kind} *" if kind.beyond else kind.kind
        table.add_row(name, kind.summary, str(kind.injected), str(kind.caught), style=style)
    console.print(table)
    for beyond, what in ((True, "all"), (False, "without *, which a package alone cannot show")):
        injected, caught = study.counts(beyond=beyond)
        console.print(f"{what}: {caught} of {injected}, {_share(caught, injected)}")
    false = len(study.false_alarms)
    console.print(f"false alarms: {false} of {study.worlds}, {_share(false, study.worlds)}")
    for kind in study.kinds:
        for one in kind.missed:
            console.print(f"missed: {kind.kind} in {one.world} {one.where}", highlight=False)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"


def _is_reported(injection: Injection, after: CheckOutcome, *, listed: bool) -> bool:
    """Whether the gate fails the world, or lists the tool where it should do no more."""
    unreached = f"{after.name}.{injection.where}" in after.report.unreached
    return not after.report.ok or (listed and unreached)


def _checked(folders: Sequence[Path], jobs: int) -> dict[Path, CheckOutcome]:
    """The outcomes by folder."""
    by_name = {folder.name: folder for folder in folders}
    assert len(by_name) == len(folders), "an outcome is found by the name of its folder"
    outcomes = check_worlds(list(map(str, folders)), _found, JobSettings(jobs=jobs), _record)
    return {by_name[outcome.name]: outcome for outcome in outcomes}


def _found(path: str) -> Scenario:
    """A package under the name of its folder: there are many copies of one world."""
    return msgspec.structs.replace(read(Path(path)), name=Path(path).name)


def _record(scenario: Scenario) -> CheckResult:
    raise AssertionError(f"{scenario.name} is not a package")
