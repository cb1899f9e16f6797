if __name__ != "rehearsal_room.harness":
    raise ImportError(f"import rehearsal_room.harness instead of {__name__}")
