"""Settings of the process for runs with many live episodes."""

import gc


def tune_memory() -> None:
    """Spare the garbage collector what it cannot free."""
    gc.collect()
