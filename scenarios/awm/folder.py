"""A folder of AgentWorldModel-1K's files, as scenarios. None of their code is executed."""

from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import msgspec

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.awm.join import CODE, DB, ENVS, SAMPLE, SCENARIO, SQL, TASKS, Join
from rehearsal_room.scenarios.awm.names import normalize_name, package_name
from rehearsal_room.scenarios.awm.row_index import RowPosition, read_row
from rehearsal_room.scenarios.awm.row_types import (
    DbRow,
    EnvRow,
    InvalidRow,
    SampleRow,
    ScenarioRow,
    TasksRow,
    VerifierRow,
)
from rehearsal_room.scenarios.errors import RecordError, UnknownScenario
from rehearsal_room.scenarios.files import python_fault
from rehearsal_room.scenarios.format import (
    AwmHead,
    AwmRecord,
    AwmSample,
    AwmVerifier,
    Scenario,
    Seeding,
    awm_scenario,
    instructions_fault,
)
from rehearsal_room.scenarios.nearest import did_you_mean
from rehearsal_room.scenarios.value_checks import NOT_A_CLOCK, is_clock

CLOCK = "2026-02-10T09:00:00Z"  # a record contains no time, so its world starts at this moment
USER = User("1", "the current user", "user")  # in AWM's worlds the agent acts for user 1


class AwmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a record does not define; part of every scenario that is made from it."""

    seeding: Seeding = "awm"
    clock: str = CLOCK  # ISO 8601 in UTC


DEFAULTS = AwmSettings()


class AwmFolder:
    """The scenarios of a folder, each read when it is requested by name.

    A scenario's path is its address, `<folder>/<name>`, followed by settings that are not the
    defaults, as in a URL; the catalogue finds it by this address. Raises PackageError for a folder
    that lacks a file, ValueError for a clock that is not a moment.
    """

    def __init__(self, path: Path, *, seeding: Seeding = "awm", clock: str = CLOCK) -> None:
        if not is_clock(clock):
            raise ValueError(f"clock: {clock!r} {NOT_A_CLOCK}")
        self.path = path
        self.settings = AwmSettings(seeding, clock)
        self.join = Join(path)

    def __repr__(self) -> str:
        return f"<AwmFolder {self.path} [{len(self.join.keys)} scenarios]>"

    def names(self) -> list[str]:
        """The package names of all scenarios in any of the files, valid or broken."""
        return sorted(self.join.keys)

    def name_of(self, written: str) -> str:
        """The package name for a package name, or for a scenario's name in any spelling.

        Raises UnknownScenario.
        """
        name = package_name(normalize_name(written))
        for known in (written, name):
            if known in self.join.keys:
                return known
        hint = did_you_mean(name, self.join.keys)
        raise UnknownScenario(
            f"{self.path}: scenario {written!r} not found among {len(self.join.keys)}{hint}"
        )

    def find(self, written: str) -> Scenario:
        """The scenario of a name. Raises UnknownScenario; RecordError if it is broken."""
        name = self.name_of(written)
        for fault in self.join.faults(name):
            raise fault
        tasks = self._tasks(name)
        title, description = self._title(name)
        head = AwmHead(
            name=name,
            title=title,
            version="awm",
            description=description,
            clock=self.settings.clock,
            user=USER,
            seeding=self.settings.seeding,
        )
        record = AwmRecord(
            code=self._code(name),
            tables=read_row(self.path, DB, self.join.required_row(DB, name), DbRow).tables,
            samples=self._samples(name),
            seeding=head.seeding,
            verifiers=self._verifiers(name, len(tasks)),
        )
        return awm_scenario(head, tasks, record, self.path / _address(name, self.settings))

    def num_stray(self, scenario: Scenario) -> int:
        """The number of verifiers for tasks that the scenario does not have."""
        num_tasks = len(scenario.tasks)
        return sum(
            row.task is not None and row.task >= num_tasks
            for _, row in self.join.used_rows(scenario.name)
        )

    def _fault(self, file: str, row: RowPosition, reason: str) -> RecordError:
        return RecordError(self.path, file, row.line, reason)

    def _code(self, name: str) -> str:
        row = self.join.required_row(ENVS, name)
        code = read_row(self.path, ENVS, row, EnvRow).full_code
        if code is None or not code.strip():
            raise self._fault(ENVS, row, "full_code: there is no code")
        if fault := python_fault(code):
            raise self._fault(ENVS, row, f"full_code: {fault}")
        return code

    def _tasks(self, name: str) -> tuple[str, ...]:
        row = self.join.required_row(TASKS, name)
        tasks = read_row(self.path, TASKS, row, TasksRow).tasks
        if fault := instructions_fault(tasks):
            raise self._fault(TASKS, row, f"tasks: {fault}")
        return tasks

    def _samples(self, name: str) -> tuple[AwmSample, ...]:
        row = self.join.required_row(SAMPLE, name)
        try:
            return read_row(self.path, SAMPLE, row, SampleRow).samples
        except InvalidRow as exc:
            raise self._fault(SAMPLE, row, str(exc)) from exc

    def _verifiers(self, name: str, num_tasks: int) -> dict[str, AwmVerifier]:
        sql, code = (self._verifier_codes(file, name) for file in (SQL, CODE))
        return {
            str(task): AwmVerifier(sql=sql.get(task), code=code.get(task))
            for task in range(num_tasks)
        }

    def _verifier_codes(self, file: str, name: str) -> dict[int | None, str | None]:
        return {
            task: read_row(self.path, file, row, VerifierRow).code
            for task, row in self.join.rows_by_task(file, name).items()
        }

    def _title(self, name: str) -> tuple[str, str]:
        """The title and the description; without a description, the title twice."""
        row = self.join.row(SCENARIO, name)
        if row is None:
            env = read_row(self.path, ENVS, self.join.required_row(ENVS, name), EnvRow)
            return (env.scenario.strip(), env.scenario.strip())
        about = read_row(self.path, SCENARIO, row, ScenarioRow)
        title = about.name.strip()
        return title, (about.description or "").strip() or title


def _address(name: str, settings: AwmSettings) -> str:
    """Example: ("gaming_1", AwmSettings(seeding="openenv")) -> "gaming_1?seeding=openenv" """
    fields = msgspec.structs.asdict(settings)
    other = {key: value for key, value in fields.items() if value != getattr(DEFAULTS, key)}
    return f"{name}?{urlencode(other)}" if other else name


def parse_address(address: str) -> tuple[str, AwmSettings]:
    """The name and the settings in the last part of an address.

    Raises msgspec.ValidationError.

    Example: "gaming_1?seeding=openenv" -> ("gaming_1", AwmSettings(seeding="openenv"))
    """
    name, _, query = address.partition("?")
    return name, msgspec.convert(dict(parse_qsl(query)), AwmSettings)
