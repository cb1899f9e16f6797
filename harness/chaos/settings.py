"""The file of `--chaos`: which faults a run injects on purpose, how often, and for how long.

    seed = 7

    [policy.cut]
    share = 0.01              # of the requests; or every = 10, or at = [5, 30] (seconds)

    [workers.kill]
    every = 10

Each fault has a table and says when it comes: in a `share` of what it can hit, `every` so many
seconds, or `at` some. A share is drawn from the seed and from what is hit (episode, attempt, turn,
call), not from the order of events: the same file hits the same calls again.
"""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.scenarios.files import convert_toml, read_toml
from rehearsal_room.scenarios.validation import MAX_FLOAT

_Seconds = Annotated[float, Meta(gt=0, le=MAX_FLOAT)]


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a fault comes: exactly one of `share`, `every` and `at` is set."""

    share: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(description="Share of what the fault can hit."),
    ] = None
    every: Annotated[_Seconds | None, Meta(description="Seconds between two of these faults.")] = (
        None
    )
    at: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=MAX_FLOAT)], ...],
        Meta(description="Seconds after the start of the run at which the fault comes."),
    ] = ()
    most: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Largest number of these faults, with `every`."),
    ] = None


class Timed(Fault, frozen=True, kw_only=True):
    """A fault that comes by the clock only."""


class Storm(Fault, frozen=True, kw_only=True):
    """`policy.rate_limit`: the server refuses requests with status 429."""

    lasts: Annotated[
        float,
        Meta(ge=0, description="With `every` and `at`: seconds for which all requests are hit."),
    ] = 1.0
    retry_after: Annotated[
        float, Meta(ge=0, description="Seconds that the server asks to wait (Retry-After).")
    ] = 0.5


class Stall(Fault, frozen=True, kw_only=True):
    """`policy.stall`: an answer takes longer, or does not come within the request's time limit."""

    seconds: _Seconds = 5.0


class Delay(Fault, frozen=True, kw_only=True):
    """`tools.delay`, `disk.slow`, `bus.slow`: something takes longer."""

    seconds: _Seconds = 0.1


class Hang(Fault, frozen=True, kw_only=True):
    """`workers.hang`: a process stands still, then goes on."""

    seconds: _Seconds = 1.0


class TimedHang(Timed, frozen=True, kw_only=True):
    """`processes.hang`: a rollout process stands still, then goes on if it still lives."""

    seconds: _Seconds = 5.0


class Ballast(Timed, frozen=True, kw_only=True):
    """`processes.memory`: every rollout process takes that much memory for a while."""

    seconds: _Seconds = 1.0
    megabytes: Annotated[int, Meta(ge=1, le=1 << 20)] = 256


class Restart(Timed, frozen=True, kw_only=True):
    """`bus.restart`: the broker is restarted. Without a command its connections are cut and new
    ones refused for `seconds`."""

    seconds: _Seconds = 1.0
    command: Annotated[str, Meta(description="Shell command that restarts the broker.")] = ""


class Partition(Timed, frozen=True, kw_only=True):
    """`bus.partition`: for `seconds` nothing gets through to the broker or back."""

    seconds: _Seconds = 5.0


class DiskFull(Fault, frozen=True, kw_only=True):
    """`disk.full`: for `seconds` nothing can be written."""

    seconds: _Seconds = 1.0


class PolicyFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of the model server; a policy without a server gets them as if it had one."""

    rate_limit: Storm | None = None
    stall: Stall | None = None
    cut: Fault | None = None  # the connection ends before the answer has arrived
    garbage: Fault | None = None  # the answer cannot be read


class ToolFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of tool calls."""

    delay: Delay | None = None
    error: Fault | None = None  # the tool fails with an internal error, and was not executed
    lost_reply: Fault | None = None  # the tool was executed, and its reply is lost


class WorkerFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of sandbox workers; a share is one of the calls that they execute."""

    kill: Fault | None = None
    hang: Hang | None = None
    memory: Timed | None = None  # the worker counts as full


class ProcessFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of rollout processes (`--processes`)."""

    kill: Timed | None = None
    hang: TimedHang | None = None
    memory: Ballast | None = None


class BusFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of the way to the broker (`--bus`); a share is one of the messages."""

    restart: Restart | None = None
    partition: Partition | None = None
    duplicate: Fault | None = None
    reorder: Fault | None = None
    slow: Delay | None = None  # who listens takes longer


class DiskFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of the disk under the log; a share is one of the commits."""

    full: DiskFull | None = None
    slow: Delay | None = None


class ChaosFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a chaos file."""

    seed: int = 0
    policy: PolicyFaults = PolicyFaults()
    tools: ToolFaults = ToolFaults()
    workers: WorkerFaults = WorkerFaults()
    processes: ProcessFaults = ProcessFaults()
    bus: BusFaults = BusFaults()
    disk: DiskFaults = DiskFaults()

    def faults(self) -> dict[str, Fault]:
        """The faults that the file has, by table and key.

        Example: a file with the table [policy.cut] alone -> {"policy.cut": Fault(share=0.01)}
        """
        return {
            f"{table}.{key}": fault
            for table in self.__struct_fields__
            if table != "seed"
            for key in getattr(self, table).__struct_fields__
            if (fault := getattr(getattr(self, table), key)) is not None
        }


def read_chaos(settings: Settings) -> ChaosFile | None:
    """The chaos file that the settings name, checked against them; None: they name none. Raises
    SettingsError, which names file and key."""
    if not settings.chaos:
        return None
    path = Path(settings.chaos)
    table = read_toml(path, error=SettingsError)
    file: ChaosFile = convert_toml(path, table, ChaosFile, error=SettingsError)
    faults = file.faults()
    if not faults:
        raise SettingsError(
            f"{path}: no fault is set; add a table, for example [tools.delay] with share = 0.01"
        )
    for name, fault in faults.items():
        if wrong := _fault_in(fault) or _missing_for(name, settings):
            raise SettingsError(f"{path}: {name}: {wrong}")
    return file


def _fault_in(fault: Fault) -> str:
    """What is wrong with a fault's times; empty: nothing."""
    times = {"share": fault.share, "every": fault.every, "at": fault.at or None}
    given = [name for name, value in times.items() if value is not None]
    if isinstance(fault, Timed):
        if fault.share is not None:
            return "share: this fault comes by the clock; set every = SECONDS or at = [SECONDS]"
        times.pop("share")
    if len(given) != 1:
        found = " and ".join(given) or "none"
        return f"set exactly one of {', '.join(times)}; found {found}"
    if fault.most is not None and fault.every is None:
        return "most: it limits `every`, which is not set; leave it out"
    return ""


def _missing_for(name: str, settings: Settings) -> str:
    """What a run of these settings lacks for a fault; empty: nothing."""
    if name.startswith("processes.") and settings.processes == 1:
        return "the run has one process; add --processes 2 or more, or leave the table out"
    if name in ("processes.kill", "processes.hang") and settings.cluster.engine == "ray":
        return "the run's processes are actors on other machines; leave the table out"
    if not name.startswith("bus."):
        return ""
    if not settings.bus.url:
        return "the run has no broker; add --bus mqtt://HOST, or leave the table out"
    if name != "bus.slow" and not settings.bus.url.startswith("mqtt://"):
        return "the way to the broker is encrypted; use mqtt:// instead of mqtts://"
    return ""
