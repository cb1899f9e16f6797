"""The driver of an agent function: it lets the function take an episode's steps, and decides how
the episode ended."""

from pathlib import Path
from traceback import walk_tb

import anyio
import structlog

from rehearsal_room.harness.agents.agent_env import AgentEnv, AgentFunction, TaskView
from rehearsal_room.harness.continuation.outcomes import EpisodeOutcome
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.rollout.deadlines import Watch
from rehearsal_room.harness.rollout.episode import Episode, EpisodeDriver
from rehearsal_room.harness.rollout.session import sole_exception

_log = structlog.get_logger(__name__)


def driver_of(agent: AgentFunction) -> EpisodeDriver:
    """The episode driver that lets this function take the steps."""

    async def drive(run: Episode, watch: Watch) -> EpisodeOutcome:
        failure: BaseException | None = None
        answer: object = None
        scope = anyio.CancelScope()
        env = AgentEnv(run, watch, scope)
        try:
            with scope:
                answer = await agent(_view_of(run), env)
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as exc:  # a program may end with sys.exit
            if isinstance(exc, BaseExceptionGroup) and exc.subgroup(KeyboardInterrupt):
                raise
            failure = exc
        finally:
            env.close()
        if env.failure is not None:
            raise env.failure
        if env.stopped is not None:
            return env.stopped
        if failure is None and not env.has_step:
            return Ending.STEP_LIMIT, None
        if failure is None and not isinstance(answer, str):
            failure = TypeError(f"the agent returned {type(answer).__name__}, not its answer")
        if failure is not None:
            cause = sole_exception(failure)
            error = f"{type(cause).__name__}: {_words_of(cause)}{_origin(cause)}"
            _log.warning("agent_failed", episode=run.plan.episode, error=error)
            is_outage = isinstance(cause, PolicyError)
            return Ending.POLICY_ERROR if is_outage else Ending.AGENT_FAILED, error
        assert isinstance(answer, str)
        await env.finish(answer)
        return Ending.ANSWERED, None

    return drive


def _view_of(run: Episode) -> TaskView:
    briefing = run.briefing
    return TaskView(
        episode=run.plan.episode,
        seed=run.plan.seed,
        instruction=briefing.instruction,
        rules=briefing.rules,
        user=briefing.user,
        now=briefing.now,
        is_dialogue=briefing.is_dialogue,
    )


def _words_of(exc: BaseException) -> str:
    """What an exception of the agent says of itself; nothing where that raises, too."""
    try:
        return str(exc)
    except Exception:
        return ""


def _origin(exc: BaseException) -> str:
    """The file and line that raised an exception, in parentheses; empty without a traceback.

    Example: an exception from the third line of agent.py -> " (agent.py, line 3)"
    """
    frames = list(walk_tb(exc.__traceback__))
    if not frames:
        return ""
    frame, line = frames[-1]
    return f" ({Path(frame.f_code.co_filename).name}, line {line})"
