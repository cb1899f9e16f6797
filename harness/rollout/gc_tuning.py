"""Garbage collector settings for processes with many live episodes."""

import gc

# New objects, young collections and middle collections between two collections of the next
# generation (see gc.set_threshold). A full collection walks all live episodes and blocks the event
# loop for 157 ms at 10,000 of them, so full ones are made very rare; with the default of
# (700, 10, 10) there are ten while 10,000 episodes start and end.
_THRESHOLDS = (2_000, 10, 5_000)


def tune_garbage_collector() -> None:
    """Make the garbage collector skip long-lived objects; call it when everything is set up.

    Events, windows and overlays hold no cycles: reference counts free them. Objects that exist now
    are never scanned again. Young cycles (exceptions, tasks) are still freed at once, old ones
    every hundred million objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
