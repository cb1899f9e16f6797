"""The exceptions of the learner.

LearnerError
├── ConfigError       a training file has a setting that cannot be used; names file and field
├── SampleError       an episode cannot be trained on; names the log, the episode and the field
│   └── AlignmentError   it was run under another history window or dialect than the trained one
├── ModelError        a model or its tokenizer cannot be used; names the folder
├── CheckpointError   a checkpoint cannot be written or read; names the folder
│   └── DamagedError     its files are not as they were written; names the file
├── MetricsError      the metrics of a run cannot be written or read; names the file
├── TrainingError     a loss or gradient is not finite; names the batch
└── TimeIsUpError     the run's time is over, and its checkpoint is written

Bugs raise other exceptions.
"""


class LearnerError(Exception):
    """A failure whose cause lies outside the learner's own logic; the message is for the user."""


class ConfigError(LearnerError):
    """A setting cannot be used."""


class SampleError(LearnerError):
    """An episode cannot be trained on."""


class AlignmentError(SampleError):
    """The agent was shown other windows than the ones that are trained."""


class ModelError(LearnerError):
    """A model cannot be used."""


class CheckpointError(LearnerError):
    """A checkpoint cannot be written or read."""


class DamagedError(CheckpointError):
    """A checkpoint's files are not as they were written."""


class MetricsError(LearnerError):
    """The metrics of a run cannot be written or read."""


class TrainingError(LearnerError):
    """A training step did not give usable numbers."""


class TimeIsUpError(LearnerError):
    """A run ends with a checkpoint because its time is over."""
