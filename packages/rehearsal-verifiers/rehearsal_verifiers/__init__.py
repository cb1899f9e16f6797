"""Rehearsal's worlds for verifiers: its plug-in id is `rehearsal-verifiers`."""

from rehearsal_verifiers.harness import RehearsalHarness
from rehearsal_verifiers.taskset import RehearsalTaskset

__all__ = ["RehearsalHarness", "RehearsalTaskset"]
