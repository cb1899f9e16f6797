if __name__ != "rehearsal_room.envpool":
    raise ImportError(f"import rehearsal_room.envpool instead of {__name__}")
