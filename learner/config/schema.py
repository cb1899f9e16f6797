"""The JSON Schema of a training file, for editors."""

from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.settings.schema import Schema, embed, schema_of
from rehearsal_room.learner.config.loader import RUNS
from rehearsal_room.learner.config.settings import TrainSettings


def train_schema() -> Schema:
    """The schema of a training file, whose runs have the settings of `rehearse run`."""
    schema = schema_of(TrainSettings, title="Settings of a training run (rehearse train)")
    run = embed(schema, schema_of(Settings, title="Settings of a run", flat=True), "Run")
    for name in RUNS:
        description = schema["properties"][name]["description"]
        schema["properties"][name] = {"description": description, **run}
    return schema
