"""The settings of `rehearse serve-policy`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rehearsal_room.scenarios.validation import MAX_FLOAT


class ServePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which checkpoint is served, by which backend, and how it samples."""

    folder: Annotated[
        str, Meta(description="Hugging Face folder of the checkpoint.", extra={"flag": ""})
    ]
    backend: Annotated[
        Literal["local", "vllm"],
        Meta(description="Sampling backend: this process, or a vLLM server."),
    ] = "local"
    name: Annotated[
        str | None,
        Meta(
            description="Model name that clients use.",
            extra={"default": "the name of the folder"},
        ),
    ] = None
    history: Annotated[
        str,
        Meta(
            description="History window, if not the one of the training (prints a warning).",
            extra={"metavar": "POLICY", "default": "that of the model card"},
        ),
    ] = ""
    dialect: Annotated[
        str,
        Meta(
            description="Dialect, if not the one of the training (prints a warning).",
            extra={"default": "that of the model card"},
        ),
    ] = ""
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_FLOAT)] | None,
        Meta(
            description="Sampling temperature of requests that state none.",
            extra={"default": "that of the model card"},
        ),
    ] = None
    top_p: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="Nucleus sampling mass of requests that state none.",
            extra={"default": "1"},
        ),
    ] = None
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Maximum number of tokens in a reply, for requests that state none.",
            extra={"default": "that of the model card"},
        ),
    ] = None
    base_url: Annotated[
        str | None,
        Meta(
            description="URL of a vLLM server that runs already.",
            extra={"metavar": "URL", "default": "a server is started"},
        ),
    ] = None
    vllm_python: Annotated[
        str | None,
        Meta(
            description="Python interpreter with which the vLLM server is started.",
            extra={"metavar": "FILE", "default": "the one of this process"},
        ),
    ] = None
    vllm_args: Annotated[
        tuple[str, ...],
        Meta(
            description="Argument of the vLLM server that is started; may be repeated.",
            extra={"flag": "vllm-arg", "metavar": "TEXT"},
        ),
    ] = ()
