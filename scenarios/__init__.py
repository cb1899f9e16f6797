if __name__ != "rehearsal_room.scenarios":
    raise ImportError(f"import rehearsal_room.scenarios instead of {__name__}")
