"""Which model is asked, at which server, and how it samples."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rehearsal_room.harness.chat.answer_limits import MAX_ANSWER, MAX_ANSWERS, AnswerLimits
from rehearsal_room.harness.chat.client import ClientName
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.validation import MAX_FLOAT


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model of policies `openai`, `vllm` and `local`. None: the server's default."""

    name: Annotated[
        str,
        Meta(
            description="Name of the model at its server; for policies 'local' and 'vllm' the "
            "model's Hugging Face folder.",
            extra={"short": "-m"},
        ),
    ] = ""
    base_url: Annotated[
        str,
        Meta(
            description="URL of the model server, for example http://localhost:8000/v1.",
            extra={
                "metavar": "URL",
                "default": "OPENAI_BASE_URL of the environment, else OpenAI; for policy 'vllm' "
                "http://127.0.0.1:8000/v1",
                "may_change": True,
            },
        ),
    ] = ""
    client: Annotated[
        ClientName,
        Meta(
            description="HTTP client that sends the requests: the built-in one (lean), or the one "
            "of the openai package.",
            extra={"may_change": True},
        ),
    ] = "lean"
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_FLOAT)] | None,
        Meta(description="Sampling temperature.", extra={"default": "the server's own"}),
    ] = None
    top_p: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="Nucleus sampling mass.", extra={"default": "the server's own"}),
    ] = None
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Maximum number of tokens in one reply of the model.",
            extra={"default": "the server's own"},
        ),
    ] = None
    request_timeout: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds to wait for one request to the model.",
            extra={"may_change": True},
        ),
    ] = 120.0
    extra_body: Annotated[
        str,
        Meta(
            description="More fields of each request of policy 'openai', as a JSON object; they "
            "replace ours.",
            extra={"metavar": "JSON"},
        ),
    ] = ""
    adapt: Annotated[
        tuple[str, ...],
        Meta(
            description="What is known of the server: 'without:NAME' (a parameter or field that it "
            "refuses), 'max_completion_tokens' (its name for max_tokens), 'thoughts' or "
            "'thoughts:FIELD' (it wants thoughts back), 'short_ids', 'stream', 'text_content', "
            "'no_system', 'single_calls', 'result_names'. A run finds these out, and adds them to "
            "its run.toml.",
            extra={"metavar": "WORD", "may_change": True},
        ),
    ] = ()
    prices: Annotated[
        str,
        Meta(
            description="File of the models' prices, from which the cost of a run is computed.",
            extra={"metavar": "FILE", "default": "no prices", "may_change": True},
        ),
    ] = ""
    stream: Annotated[
        bool,
        Meta(
            description="Whether replies of policy 'openai' are asked for as streams, for servers "
            "and gateways that end a request in which nothing arrives for long.",
            extra={"may_change": True},
        ),
    ] = False
    stall_timeout: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds without a sign of life in the middle of a streamed reply after "
            "which the request fails.",
            extra={"may_change": True},
        ),
    ] = 60.0
    max_attempts: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of requests for one reply, retries included.",
            extra={"may_change": True},
        ),
    ] = 8
    max_connection_failures: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of connection failures in a row after which the run stops, to be "
            "resumed later; failures within half a second count as one.",
            extra={"may_change": True},
        ),
    ] = 20
    max_answer_mb: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum size of one answer of the model server, in MiB.",
            extra={"may_change": True},
        ),
    ] = MAX_ANSWER // 2**20
    max_answers_mb: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum size of all answers that are arriving at the same time, in MiB.",
            extra={"may_change": True},
        ),
    ] = MAX_ANSWERS // 2**20
    preflight: Annotated[
        bool,
        Meta(
            description="Whether one request checks server, key and model before the run.",
            extra={"may_change": True},
        ),
    ] = True

    @property
    def extra_fields(self) -> dict[str, Any]:
        """The fields of `extra_body`. Raises SettingsError."""
        if not self.extra_body:
            return {}
        try:
            return msgspec.json.decode(self.extra_body, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as exc:
            raise SettingsError(
                f"extra_body: expected a JSON object such as '{{\"top_k\": 20}}': {exc}"
            ) from exc

    @property
    def answers(self) -> AnswerLimits:
        """The limits of answers, in bytes."""
        return AnswerLimits(self.max_answer_mb * 2**20, self.max_answers_mb * 2**20)
