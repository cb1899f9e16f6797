"""What a checkpoint says of itself: under which windows and which dialect it was trained.

The card lies beside the weights as `rehearsal.json`. Whoever runs the checkpoint under another
history policy or dialect is warned: a model that was trained on truncated histories collapses on
full ones, and the other way round (AWM, arXiv:2602.10090).
"""

from pathlib import Path
from typing import Literal

import msgspec

from harness.core.errors import SettingsError

CARD_NAME = "rehearsal.json"


class PolicyCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a checkpoint was trained."""

    version: str  # of the weights, as replies are stamped with it
    history: str  # the history policy, as in `last:3`
    fingerprint: str  # the history policy's
    dialect: str
    step: int = 0  # optimiser steps
    temperature: float = 1.0  # that it sampled with while it learned
    max_tokens: int | None = None  # of a reply while it learned; None: not limited
    format: Literal[1] = 1


def read_card(folder: Path) -> PolicyCard | None:
    """The card of a checkpoint; None: it has none. Raises SettingsError naming the file."""
    path = folder / CARD_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=PolicyCard)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as exc:
        raise SettingsError(f"{path}: the checkpoint's card cannot be read: {exc}") from exc


def write_card(folder: Path, card: PolicyCard) -> None:
    """Put the card beside the weights. Raises OSError."""
    data = msgspec.json.format(msgspec.json.encode(card), indent=2)
    (folder / CARD_NAME).write_bytes(data + b"\n")


def card_mismatches(card: PolicyCard, *, history: str, fingerprint: str, dialect: str) -> list[str]:
    """In what a use of the checkpoint differs from its training, a sentence each.

    Example: trained under last:3, run under full ->
        ["it was trained under the history policy last:3 and is run under full"]
    """
    found = []
    if card.fingerprint != fingerprint:
        found.append(
            f"it was trained under the history policy {card.history} and is run under {history}"
        )
    if card.dialect != dialect:
        found.append(f"it was trained in the dialect {card.dialect} and is run in {dialect}")
    return found
