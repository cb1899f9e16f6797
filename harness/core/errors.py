"""The errors that the harness raises.

HarnessError
├── SettingsError    a flag or a settings file has a value that cannot be used; names the field
│   └── NoModelError        a policy asks a model, and none is named
├── ConversationError  a file to import cannot be read; names the file, the line and the field
├── LogError         a run folder or its log cannot be used; names the file
├── ProcessError     the processes that play the episodes die again and again
├── BusError         the broker cannot be reached, or it refuses; never contains a password
├── CollectorError   the OTLP collector cannot be used; names its URL
├── ModelServerError the model server cannot be used: no episode can be played
│   └── ModelOutageError    it went away in the middle of a run, which stops and can be resumed
├── BudgetExhausted  the next request to a model does not fit into the budget; its client handles it
└── PolicyError      the model could not answer, retries included: ends one episode, not the run
    ├── ContextLengthError  the window is too long for the model: it ends with `token_limit`
    └── ModelRefusedError   the provider withholds its replies: it ends with `model_refused`

A bug is not one of these: it stops the run with its traceback.
"""


class HarnessError(Exception):
    """Base of all expected failures of a run; the message is written for the user."""


class SettingsError(HarnessError):
    """A setting cannot be used; the message names the field or flag."""


class NoModelError(SettingsError):
    """A policy asks a model, and none is named."""


class ConversationError(HarnessError):
    """A file of conversations cannot be imported; the message names the file, the line and the
    field."""


class LogError(HarnessError):
    """A run folder or its log cannot be used; the message names the file."""


class ProcessError(HarnessError):
    """The processes that play the episodes cannot be kept alive; the message says how they end."""


class BusError(HarnessError):
    """The message broker cannot be used; the message never contains a password."""


class CollectorError(HarnessError):
    """The collector of OpenTelemetry spans cannot be used; the message names its URL."""


class ModelServerError(HarnessError):
    """A model server cannot be used, so no episode can be played; the message names model and URL,
    the cause and what to do."""


class ModelOutageError(ModelServerError):
    """The model server went away in the middle of a run, which stops and can be resumed."""


class BudgetExhausted(HarnessError):
    """The next request does not fit into the budget; the message begins with `budget`."""


class PolicyError(HarnessError):
    """The policy could not give a reply; the episode ends with `policy_error`."""

    http_status: int | None = None  # of the server's last answer; None: there was none


class ContextLengthError(PolicyError):
    """The window no longer fits into the model's context; the episode ends with `token_limit`."""


class ModelRefusedError(PolicyError):
    """The provider withheld the reply, as a filter does; the episode ends with `model_refused`."""
