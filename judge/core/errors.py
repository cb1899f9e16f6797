"""The errors of judging.

JudgeError          also for bad input: a rubric, labels or a cache that cannot be used
└── VerifierError   a task's verifier raised, or returned no list of findings: the episode cannot
                    be judged and is left unjudged with the reason (it is not a zero)

A verify.py that cannot be loaded is a broken package: scenarios.errors.PackageError.
"""


class JudgeError(Exception):
    """An episode cannot be judged."""


class VerifierError(JudgeError):
    """A verifier failed. The message names the scenario, the function and the fault."""
