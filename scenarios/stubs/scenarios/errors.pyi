from rehearsal_room.scenarios.errors import *
