"""`python -m rehearsal_room` runs the command `rehearse`."""

from rehearsal_room.cli.entry import main

if __name__ == "__main__":
    main()
