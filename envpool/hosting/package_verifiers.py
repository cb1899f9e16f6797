"""Run a verifier of a package in a process of its own: nothing of the package's tools runs there.

The states come from the pool as pages. AWM's verifiers: envpool.hosting.awm_verifiers.
"""

from rehearsal_room.envpool.hosting.determinism.clock import frozen_clock, seed_random
from rehearsal_room.envpool.hosting.determinism.threads import Threads
from rehearsal_room.envpool.inprocess.verifiers import VerifierFault, Verifiers
from rehearsal_room.envpool.store.overlay import Overlay
from rehearsal_room.envpool.store.states import states_of_image
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Scenario


def verify_package(
    scenario: Scenario, source: str, image: bytes, end: Overlay, task_id: str, answer: str
) -> tuple[Finding, ...]:
    """The findings of a task's verifier on the end of an episode and an answer.

    `source` is the text of verify.py, `image` has the template's pages. Raises VerifierFault,
    PackageError for a verify.py that cannot be loaded, and UnknownScenario for an unknown task.
    """
    task = scenario.task(task_id)
    states = states_of_image(scenario, image)
    threads = Threads()
    try:
        before, after = states.states(states.stored(end))
        with frozen_clock(scenario.clock):
            seed_random(scenario.digest, -1)
            try:
                return Verifiers(scenario, source).run(task, before, after, answer)
            except (VerifierFault, PackageError):
                raise
            except BaseException as exc:  # SystemExit and the like, which its code can raise
                raise VerifierFault(
                    f"the verifier of task {task_id!r} raised {_builtin_name(exc)}"
                ) from exc
            finally:
                threads.check()
    finally:
        states.close()


def _builtin_name(exc: BaseException) -> str:
    """The name of the exception's first built-in class, which the package's code cannot choose."""
    return next(base.__name__ for base in type(exc).__mro__ if base.__module__ == "builtins")
