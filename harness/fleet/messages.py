"""What the coordinator of a run and its rollout processes say to each other.

A message is one frame: its length in four bytes, then MessagePack. Records travel encoded, as the
rows that the log stores, so the coordinator neither decodes nor encodes them.
"""

import struct
from array import array

import msgspec

from rehearsal_room.harness.log.schema import EncodedRecord

_LENGTH = struct.Struct("<I")


class EpisodeAssignment(msgspec.Struct, frozen=True, array_like=True):
    """An episode that a process is to play, or only to judge."""

    index: int  # in the plan of the run
    attempt: int
    judge_from: int | None = None  # sequence number of the verdict, if it is only to be judged
    # The records of its attempts so far, for a worker that cannot read the log (else empty).
    logged: list[EncodedRecord] = []


class EpisodeAssignments(msgspec.Struct, frozen=True, tag="leases"):
    """Further episodes for a process."""

    leases: list[EpisodeAssignment]


class Stored(msgspec.Struct, frozen=True, tag="stored"):
    """Every batch up to this number is on disk."""

    batch: int


class SendWorlds(msgspec.Struct, frozen=True, tag="send_worlds"):
    """The process shall send the snapshots of the run's scenarios."""


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """The process shall end: when its episodes are over, or by cancelling them."""

    cancel: bool = False


class AdmissionShare(msgspec.Struct, frozen=True, tag="share"):
    """The process may run so many episodes at once, where admission adapts."""

    limit: int


ToWorker = EpisodeAssignments | Stored | SendWorlds | AdmissionShare | Stop


class ProcessReady(msgspec.Struct, frozen=True, tag="ready"):
    """The worlds are hosted; episodes may come. `level` is the sandbox of untrusted code, `version`
    that of this project there; messages of another version may mean something else."""

    level: str
    version: str = ""  # empty: an older one, which does not say


class WorldSnapshots(msgspec.Struct, frozen=True, tag="worlds"):
    """The snapshots of the run's scenarios, each as MessagePack."""

    snapshots: list[bytes]


class RecordBatch(msgspec.Struct, frozen=True, tag="batch"):
    """Records in their order. Batches are numbered from 1."""

    number: int
    records: list[EncodedRecord]


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """The event loop of the process runs. `lag_s` is the longest time that it was blocked since the
    last heartbeat, `culprit` what blocked it (empty: nothing did, for long)."""

    lag_s: float = 0.0
    culprit: str = ""


class Requests(msgspec.Struct, frozen=True, tag="requests"):
    """What happened to the process's requests to the model server, where admission adapts: seconds
    before this message was sent, kind and value (harness.admission.adaptive)."""

    events: list[tuple[float, int, float]]
    has_free: bool  # whether it has slots that no episode wants


class Measured(msgspec.Struct, frozen=True, tag="measured"):
    """The last message of a process that ends in order: what it measured."""

    leases: bytes  # arrays of float64 seconds, see harness.rollout.meters
    calls: bytes
    steps: bytes
    lags: bytes
    rss_start: int  # bytes
    rss_max: int
    live_max: int
    cpu_s: float
    policy: dict[str, float]  # the policy's own statistics
    room_s: float = 0.0  # time that episodes waited until records were stored, summed
    worst_lag_s: float = 0.0  # the longest time for which the loop was blocked
    culprit: str = ""  # what blocked it then
    held_back_s: float = 0.0  # time that live episodes were paused by admission, summed


class ProcessFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The last message of a process in which something failed that ends the run."""

    module: str  # of the exception's type
    name: str
    message: str
    traceback: str


FromWorker = (
    ProcessReady | WorldSnapshots | RecordBatch | Heartbeat | Requests | Measured | ProcessFailed
)

_encoder = msgspec.msgpack.Encoder()
to_worker = msgspec.msgpack.Decoder(ToWorker).decode
from_worker = msgspec.msgpack.Decoder(FromWorker).decode


def content_of(message: ToWorker | FromWorker) -> bytes:
    """The message as MessagePack."""
    return _encoder.encode(message)


def frame_of(message: ToWorker | FromWorker) -> bytes:
    """The message as a frame."""
    data = content_of(message)
    return _LENGTH.pack(len(data)) + data


class FleetFrames:
    """Cuts a stream of bytes into the contents of frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the contents of the frames that are complete now."""
        buffer, found, start = self._buffer, [], 0
        buffer += data
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            end = start + _LENGTH.size + length
            if end > len(buffer):
                break
            found.append(bytes(buffer[start + _LENGTH.size : end]))
            start = end
        del buffer[:start]
        return found


def floats_in(data: bytes) -> "array[float]":
    """The numbers in the bytes of an array of float64."""
    values = array("d")
    values.frombytes(data)
    return values
