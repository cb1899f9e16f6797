"""The model card of a checkpoint: the history window and the dialect that it was trained under.

The card is the file `rehearsal.json` beside the weights. A run of the checkpoint under another
history window or dialect prints a warning: a model that was trained on truncated histories
collapses on full ones, and the other way round (AWM, arXiv:2602.10090).
"""

from pathlib import Path
from typing import Literal

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.files import UNREADABLE

CARD_NAME = "rehearsal.json"
ADAPTER = "adapter"  # the folder beside the card with the adapter that was trained, if one was


class PolicyCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a checkpoint was trained."""

    version: str  # of the weights; `Reply.weights` has the same text
    history: str  # the history window, as in `last:3`
    fingerprint: str  # of the history window
    dialect: str
    step: int = 0  # optimiser steps
    temperature: float = 1.0  # sampling temperature during training
    max_tokens: int | None = None  # limit of a reply during training; None: there was no limit
    format: Literal[1] = 1


def read_card(folder: Path) -> PolicyCard | None:
    """The card of a checkpoint; None: it has none. Raises SettingsError naming the file."""
    path = folder / CARD_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=PolicyCard)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, *UNREADABLE) as exc:
        raise SettingsError(f"{path}: the checkpoint's model card cannot be read: {exc}") from exc


def write_card(folder: Path, card: PolicyCard) -> None:
    """Write the card beside the weights. Raises OSError."""
    data = msgspec.json.format(msgspec.json.encode(card), indent=2)
    (folder / CARD_NAME).write_bytes(data + b"\n")


def card_mismatches(card: PolicyCard, *, history: str, fingerprint: str, dialect: str) -> list[str]:
    """One sentence for each way in which a use of the checkpoint differs from its training.

    Example: trained under last:3, run under full ->
        ["it was trained under the history window last:3 and is run under full"]
    """
    found = []
    if card.fingerprint != fingerprint:
        found.append(
            f"it was trained under the history window {card.history} and is run under {history}"
        )
    if card.dialect != dialect:
        found.append(f"it was trained in the dialect {card.dialect} and is run in {dialect}")
    return found
