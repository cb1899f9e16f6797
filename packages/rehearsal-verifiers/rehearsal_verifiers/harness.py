"""The harness: one of our episodes in this process, whose model is verifiers' own endpoint.

verifiers records each request at its endpoint, with its tokens, so that a history window is a
branch of the trace. No program is installed or started, and no tool server.
"""

import verifiers.v1 as vf

from rehearsal_room.bridges.trainers.play import play_episode
from rehearsal_verifiers.runs import run_of
from rehearsal_verifiers.taskset import RehearsalData
from rehearsal_verifiers.verdict import KEY, verdict_of


class RehearsalHarnessConfig(vf.HarnessConfig):
    """Settings of the harness; it has none of its own."""

    id: vf.ID = "rehearsal-verifiers"


class RehearsalHarness(vf.Harness[RehearsalHarnessConfig]):
    """Plays tasks of the taskset rehearsal-verifiers."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
        tool_interception_url: str | None = None,
    ) -> vf.ProgramResult:
        """Play the episode, and leave our verdict in the trace. Exit status 1: the model failed."""
        if not isinstance(data, RehearsalData):
            raise vf.HarnessError(
                "harness rehearsal-verifiers plays tasks of the taskset rehearsal-verifiers,"
                f" not {type(data).__name__}"
            )
        run = run_of(data.settings)
        # verifiers repeats and limits requests itself.
        played = await play_episode(data.task, endpoint, secret, ctx.model, run=run, max_attempts=1)
        verdict = trace.info[KEY] = verdict_of(played)
        failed = verdict["ending"] == "policy_error"
        return vf.ProgramResult(int(failed), "", verdict["why"])
