"""The driver of an agent function: it lets the function take an episode's steps, and decides how
the episode ended."""

from contextlib import ExitStack
from pathlib import Path
from traceback import walk_tb

import anyio
import msgspec

from rehearsal_room.harness.agents.agent_env import AgentEnv, AgentFunction, TaskView
from rehearsal_room.harness.agents.gateway import Addresses, AgentGateway
from rehearsal_room.harness.continuation.outcomes import EpisodeOutcome
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.rollout.deadlines import Watch
from rehearsal_room.harness.rollout.episode import Episode, EpisodeDriver
from rehearsal_room.harness.rollout.session import sole_exception


class AgentFailed(Exception):
    """The agent has failed; the message is a sentence for the log."""


def driver_of(agent: AgentFunction, gateway: AgentGateway | None = None) -> EpisodeDriver:
    """The episode driver that lets this function take the steps. `gateway` is where it finds its
    world and a model over HTTP (None: it has neither)."""

    async def drive(run: Episode, watch: Watch) -> EpisodeOutcome:
        scope = anyio.CancelScope()
        env = AgentEnv(run, watch, scope)
        with ExitStack() as stack:
            view, episode_gateway = _view_of(run), None
            if gateway is not None:
                episode_gateway, addresses = stack.enter_context(gateway.episode(run, env))
                view = _with_addresses(view, addresses, gateway.model)
            stack.callback(env.close)
            answer, failure = await _result_of(agent, view, env, scope)
            await env.settle()
        if episode_gateway is not None and episode_gateway.num_lost:
            run.context.notices.say(
                "replies_after_the_end",
                episode=run.plan.episode,
                replies=episode_gateway.num_lost,
                why="the agent had ended; they are neither logged nor trained",
            )
        if env.failure is not None:
            raise env.failure
        if env.stopped is not None:
            return env.stopped
        if failure is None and not env.has_step:
            return Ending.STEP_LIMIT, None
        if episode_gateway is not None and episode_gateway.failure is not None:
            if not await episode_gateway.model_answers():
                raise episode_gateway.failure  # the model's last word: the agent is not to blame
            failure = failure and AgentFailed(f"its last request failed: {episode_gateway.failure}")
        if failure is None and not isinstance(answer, str):
            failure = TypeError(f"the agent returned {type(answer).__name__}, not its answer")
        if failure is not None:
            return _failed(failure, run)
        assert isinstance(answer, str)
        await env.finish(answer)
        return Ending.ANSWERED, None

    return drive


async def _result_of(
    agent: AgentFunction, view: TaskView, env: AgentEnv, scope: anyio.CancelScope
) -> tuple[object, BaseException | None]:
    """What the agent returned, and what it raised (None: it raised nothing)."""
    answer: object = None
    own_task = anyio.get_current_task()
    try:
        with scope:
            answer = await agent(view, env)
    except (anyio.get_cancelled_exc_class(), KeyboardInterrupt):
        raise
    except BaseException as exc:  # a program may end with sys.exit
        if isinstance(exc, BaseExceptionGroup) and exc.subgroup(KeyboardInterrupt):
            raise
        if not _is_running(own_task):  # somebody closes this coroutine, by GeneratorExit
            raise
        return None, exc
    return answer, None


def _is_running(task: anyio.TaskInfo) -> bool:
    """Whether the code that asks runs in this task."""
    try:
        return anyio.get_current_task() == task
    except RuntimeError:  # it runs in no task, or no event loop runs
        return False


def _failed(failure: BaseException, run: Episode) -> EpisodeOutcome:
    """How an episode ends whose agent raised this."""
    cause = sole_exception(failure)
    if isinstance(cause, AgentFailed):
        error = str(cause)
    else:
        error = f"{type(cause).__name__}: {_words_of(cause)}{_origin(cause)}"
    run.context.notices.say(
        "agent_failed", about=error[:200], episode=run.plan.episode, error=error
    )
    return Ending.POLICY_ERROR if isinstance(cause, PolicyError) else Ending.AGENT_FAILED, error


def _with_addresses(view: TaskView, addresses: Addresses, model: str) -> TaskView:
    return msgspec.structs.replace(
        view,
        mcp_url=addresses.mcp_url,
        model_url=addresses.openai_url if model else "",
        anthropic_url=addresses.anthropic_url if model else "",
        model=model,
        key=addresses.key,
        otlp_url=addresses.otlp_url,
    )


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
