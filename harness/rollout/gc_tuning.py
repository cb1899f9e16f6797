"""Settings of the process for runs with many live episodes."""

import gc

# How many new objects, collections of them, and collections of these lie between two collections.
# A full one walks all live episodes and holds the loop for 157 ms at 10,000 of them, so there is
# hardly ever one; with the default of (700, 10, 10) there are ten while so many start and end.
_THRESHOLDS = (2_000, 10, 5_000)


def tune_memory() -> None:
    """Let the garbage collector leave alone what lives long; call it when all is set up.

    Facts, windows and overlays hold no cycles, and reference counts free them. What was loaded and
    built so far is never looked at again; young cycles (exceptions, tasks) still go at once, old
    ones every hundred million objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
