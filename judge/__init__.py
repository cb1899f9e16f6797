if __name__ != "rehearsal_room.judge":
    raise ImportError(f"import rehearsal_room.judge instead of {__name__}")
