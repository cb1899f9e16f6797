"""What can go wrong in judging.

JudgeError          also for bad input: a rubric, labels or a cache that cannot be used
└── VerifierError   a task's verifier raised, or gave no list of findings: nothing can be said of
                    the episode, which is left unjudged with the reason (it is not a zero)

A verify.py that cannot be loaded is a broken package: scenarios.errors.PackageError.
"""


class JudgeError(Exception):
    """An episode cannot be judged."""


class VerifierError(JudgeError):
    """A verifier failed; the message names the scenario, the function and the fault."""
