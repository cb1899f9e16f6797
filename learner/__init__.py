if __name__ != "rehearsal_room.learner":
    raise ImportError(f"import rehearsal_room.learner instead of {__name__}")
