"""What can go wrong while learning.

LearnerError
├── ConfigError       a training file asks for what cannot be; names the file and the field
├── SampleError       an episode cannot be trained on; names the log, the episode and the field
│   └── AlignmentError   it was run under another history policy or dialect than is trained
├── ModelError        a model or its tokenizer cannot be used; names the folder
├── CheckpointError   a checkpoint cannot be written or read; names the folder
├── MetricsError      the figures of a run cannot be written or read; names the file
└── TrainingError     the numbers broke (a loss that is not finite); names the step

A bug is none of these.
"""


class LearnerError(Exception):
    """Something outside of the learner's own logic went wrong; the message is for the user."""


class ConfigError(LearnerError):
    """A setting cannot be used."""


class SampleError(LearnerError):
    """An episode cannot be trained on."""


class AlignmentError(SampleError):
    """The agent saw other windows than the ones that are trained."""


class ModelError(LearnerError):
    """A model cannot be used."""


class CheckpointError(LearnerError):
    """A checkpoint cannot be written or read."""


class MetricsError(LearnerError):
    """The figures of a run cannot be kept."""


class TrainingError(LearnerError):
    """A training step gave no usable numbers."""
