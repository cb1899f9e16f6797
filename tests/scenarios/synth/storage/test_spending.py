"""The ledger of a synthesis."""

from pathlib import Path

from rehearsal_room.scenarios.synth.storage.spending import LedgerEntry, SpendingLedger


def test_a_ledger_survives_a_kill(tmp_path: Path) -> None:
    """A last line that was cut off is dropped, and the next line is not joined to it."""
    path = tmp_path / "ledger.jsonl"
    SpendingLedger(path).add(LedgerEntry("tasks", "w", 10, 0, 5, 0.25))
    with path.open("ab") as file:
        file.write(b'{"stage": "sch')
    ledger = SpendingLedger(path)
    ledger.add(LedgerEntry("code", cost_usd=None))
    entries = [LedgerEntry("tasks", "w", 10, 0, 5, 0.25), LedgerEntry("code", cost_usd=None)]
    assert SpendingLedger(path).entries == entries
    assert ledger.usd == 0.25
