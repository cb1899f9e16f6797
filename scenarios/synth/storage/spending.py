"""The ledger of a synthesis: one line per request, written at once, so that a kill loses none."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.errors import SynthesisError
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.synth.core.protocols import RequestPurpose


class LedgerEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tokens and cost of one request. `cost_usd` None: the model has no price."""

    stage: str
    about: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0

    @property
    def purpose(self) -> RequestPurpose:
        """The purpose of the request."""
        return RequestPurpose(self.stage, self.about)


class SpendingLedger:
    """The ledger file. A last line that a kill cut off is dropped. Raises SynthesisError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries: list[LedgerEntry] = list(_read(path))

    @property
    def usd(self) -> float:
        """The total cost, as far as prices are known."""
        return sum(entry.cost_usd or 0.0 for entry in self.entries)

    def add(self, entry: LedgerEntry) -> None:
        """Book a request."""
        self.entries.append(entry)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(entry) + b"\n")
        except OSError as exc:
            raise SynthesisError(f"{self._path}: it cannot be written: {exc}") from exc


def _read(path: Path) -> Iterator[LedgerEntry]:
    try:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            os.truncate(path, len(whole))
    except FileNotFoundError:
        return
    except OSError as exc:
        raise SynthesisError(f"{path}: it cannot be read: {exc}") from exc
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            yield msgspec.json.decode(line, type=LedgerEntry)
        except UNREADABLE as exc:
            raise SynthesisError(f"{path}: line {number}: {exc}") from exc
