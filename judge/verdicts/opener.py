"""The judge of a run, from the run's settings."""

from functools import partial

from rehearsal_room.harness.bus.mqtt_settings import mqtt_settings
from rehearsal_room.harness.following.external_judge import OpenExternalJudge
from rehearsal_room.harness.settings.run import Settings, judge_settings
from rehearsal_room.harness.setup.parts import OpenJudge
from rehearsal_room.judge.verdicts.factory import open_judge


def judge_opener(settings: Settings) -> OpenJudge | None:
    """A function that opens the judge of a run of these settings; None: it has no judge. It can be
    pickled, for processes that play parts of the run."""
    if settings.judge.mode == "none":
        return None
    if settings.judge.mode == "elsewhere":
        return OpenExternalJudge(mqtt_settings(settings.bus))
    return partial(open_judge, judge_settings(settings))
