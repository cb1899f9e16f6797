"""The warm process of the learner's tests, for commands that train."""

from tests.learner.conftest import warm_process

__all__ = ["warm_process"]
