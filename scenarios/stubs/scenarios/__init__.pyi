"""Names for type checkers: world packages write `scenarios` for `rehearsal_room.scenarios`."""
