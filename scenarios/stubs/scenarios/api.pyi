from rehearsal_room.scenarios.api import *
