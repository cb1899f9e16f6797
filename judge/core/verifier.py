"""The verifiers of a trusted package, run in this process."""

from rehearsal_room.envpool.inprocess.verifiers import VerifierFault, Verifiers
from rehearsal_room.judge.core.errors import VerifierError
from rehearsal_room.scenarios.api import State
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task


class Verifier:
    """The loaded verify.py of one scenario. `source` is its text; None: the file is read.

    Raises PackageError, naming file and task, when verify.py cannot be loaded or a task has no
    function there.
    """

    def __init__(self, scenario: Scenario, source: str | None = None) -> None:
        self._verifiers = Verifiers(scenario, source)

    def run(self, task: Task, before: State, after: State, answer: str) -> tuple[Finding, ...]:
        """The task's findings on a state and an answer.

        Raises VerifierError when the function raises or returns no list of findings. The states
        are read-only, so a verifier that writes fails.
        """
        try:
            return self._verifiers.run(task, before, after, answer)
        except VerifierFault as exc:
            raise VerifierError(str(exc)) from exc
