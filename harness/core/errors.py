"""What can go wrong in a run.

HarnessError
├── SettingsError   a flag or a settings file asks for what cannot be; names the field
├── LogError        a run folder or its log is not what it should be; names the file
├── BusError        the broker cannot be reached or refuses; never contains a password
├── BudgetExhausted the next request to a model does not fit into the budget; its client handles it
└── PolicyError     the model could not answer (after its retries): ends one episode, not the run
    └── ContextLengthError   the window is too long for the model: ends it with `token_limit`

A bug is none of these and stops the run with its traceback.
"""


class HarnessError(Exception):
    """Something outside of the program's own logic went wrong; the message is for the user."""


class SettingsError(HarnessError):
    """A setting cannot be used; the message names the field or flag."""


class LogError(HarnessError):
    """A run folder or its log cannot be used; the message names the file."""


class BusError(HarnessError):
    """The message broker cannot be used."""


class BudgetExhausted(HarnessError):
    """The request does not fit into what is left; the message begins with `budget`."""


class PolicyError(HarnessError):
    """The policy could not give a reply; the episode ends with `policy_error`."""


class ContextLengthError(PolicyError):
    """The window no longer fits into the model's context; the episode ends with `token_limit`."""
