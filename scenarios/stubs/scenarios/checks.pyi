from rehearsal_room.scenarios.checks import *
