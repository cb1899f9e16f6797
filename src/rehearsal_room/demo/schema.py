"""The JSON Schema of a recipe of the demonstration, for editors."""

from rehearsal_room.demo.recipe import Recipe
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.settings.schema import Schema, embed, schema_of
from rehearsal_room.learner.config.schema import train_schema


def recipe_schema() -> Schema:
    """The schema of a recipe: what its runs share, and what is in its training files."""
    schema = schema_of(Recipe, title="Recipe of the learning demonstration")
    run = schema_of(Settings, title="Settings of a run", flat=True)
    train = train_schema() | {"required": []}  # the demonstration fills in the model
    schema["properties"]["run"] = embed(schema, run, "Run")
    for stage in ("clone", "learn"):
        schema["properties"][stage] = embed(schema, train, "Train")
    return schema
