"""Model cards of checkpoints, and the warnings when a checkpoint is run in another way."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.policy_card import (
    PolicyCard,
    card_mismatches,
    read_card,
    write_card,
)
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.settings.policy import PolicySettings
from rehearsal_room.harness.settings.run import Settings, resolve_table
from rehearsal_room.harness.setup.parts import warn_of_mismatches

CARD = PolicyCard("v7", "last:3", parse_history("last:3").fingerprint, "hermes", step=7)


def test_a_card_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The card that is read equals the one that was written; without a card the result is None."""
    assert read_card(tmp_path) is None
    write_card(tmp_path, CARD)
    assert read_card(tmp_path) == CARD


@pytest.mark.parametrize(
    "text", ["{", '{"version": "v7"}', '{"version": "v7", "history": "full", "color": 1}']
)
def test_a_broken_card_names_its_file(tmp_path: Path, text: str) -> None:
    """The message about a card that cannot be read names the file."""
    (tmp_path / "rehearsal.json").write_text(text)
    with pytest.raises(SettingsError, match=r"rehearsal\.json: the checkpoint's model card cannot"):
        read_card(tmp_path)


@pytest.mark.parametrize(
    ("history", "dialect", "expected"),
    [
        ("last:3", "hermes", []),
        (
            "full",
            "hermes",
            ["it was trained under the history window last:3 and is run under full"],
        ),
        (
            "last:4",
            "native",
            [
                "it was trained under the history window last:3 and is run under last:4",
                "it was trained in the dialect hermes and is run in native",
            ],
        ),
    ],
)
def test_other_windows_and_dialects_are_reported(
    tmp_path: Path, history: str, dialect: str, expected: list[str]
) -> None:
    """Each difference is one sentence, and one warning line when the checkpoint is run."""
    policy = parse_history(history)
    found = card_mismatches(CARD, history=history, fingerprint=policy.fingerprint, dialect=dialect)
    assert found == expected

    write_card(tmp_path, CARD)
    lines = StringIO()
    table = {"policy": "local", "model": str(tmp_path), "dialect": dialect}
    settings = resolve_table(table, {})
    warn_of_mismatches(settings, policy, Console(file=lines, width=500))
    assert lines.getvalue() == "".join(f"WARNING {tmp_path}: {line}\n" for line in expected)


def test_a_model_without_a_card_is_run_without_a_warning(tmp_path: Path) -> None:
    """Without a card there is nothing to compare; policies without weights have no card."""
    lines = StringIO()
    write_card(tmp_path, CARD)
    for settings in (
        Settings(policy=PolicySettings("local"), model=ModelSettings(str(tmp_path / "other"))),
        Settings(policy=PolicySettings("openai"), model=ModelSettings(str(tmp_path))),
    ):
        warn_of_mismatches(settings, parse_history("full"), Console(file=lines))
    assert lines.getvalue() == ""
