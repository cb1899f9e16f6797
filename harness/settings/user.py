"""Which model plays the users of dialogues, at which server."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rehearsal_room.scenarios.validation import MAX_FLOAT


class UserSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model that plays the user where a task asks for one. None: the server's default."""

    name: Annotated[
        str,
        Meta(description="Model that plays the user, in tasks whose user is played by a model."),
    ] = ""
    base_url: Annotated[
        str,
        Meta(
            description="URL of the server of that model.",
            extra={
                "metavar": "URL",
                "default": "OPENAI_BASE_URL of the environment, else OpenAI",
                "may_change": True,
            },
        ),
    ] = ""
    reword: Annotated[
        bool,
        Meta(
            description="Let that model put the lines of users into other words, too, whose tasks "
            "describe them as automata; what they say and when does not change."
        ),
    ] = False
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_FLOAT)] | None,
        Meta(
            description="Sampling temperature of that model.", extra={"default": "the server's own"}
        ),
    ] = None
