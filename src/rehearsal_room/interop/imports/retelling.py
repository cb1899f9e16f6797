"""Playing a conversation again as an episode: its replies are taken as they are, its calls are made
in the episode's world.

`Retelling` is the episode driver, and `RetoldUsers` makes the users that say what the file has. In
a world that the conversation did not happen in, results differ: `mismatches` says where, by
episode.
"""

from collections.abc import Mapping, Sequence

import msgspec

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.continuation.outcomes import EpisodeOutcome
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import Ending, HistorySummarized, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, UserTurn
from rehearsal_room.harness.core.terminal_text import shorten
from rehearsal_room.harness.dialects.base import result_text
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.rollout.deadlines import Watch
from rehearsal_room.harness.rollout.episode import Episode, answer_of_steps
from rehearsal_room.harness.users.base import EpisodeUser, UserWorld
from rehearsal_room.interop.imports.conversations import ImportedConversation, ImportedTurn
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Scenario, Task


class Retelling:
    """Takes the steps of imported episodes, by the name of the episode."""

    def __init__(self, conversations: Mapping[str, ImportedConversation]) -> None:
        self._conversations = conversations
        self.mismatches: dict[str, str] = {}
        self.steps: dict[str, list[StepTaken]] = {}  # of the latest playing

    async def drive(self, run: Episode, watch: Watch) -> EpisodeOutcome:
        """Take the steps of an episode, and end it as the conversation ended."""
        watch.got_reply()
        name = run.plan.episode
        conversation = self._conversations[name]
        self.steps[name] = run.steps
        replies = conversation.turns[self._num_kept(run) :]
        for turn in replies:
            if turn.decision is None:
                summary = HistorySummarized(turn.reply, len(run.steps), turn.first_turn)
                run.context.recorder.stamp(name, run.plan.attempt, summary)
                continue
            await run.record_step(await self._step(run, turn))
        if conversation.ending is Ending.ANSWERED:
            run.answer = answer_of_steps(run.steps)
        return conversation.ending, conversation.error

    def _num_kept(self, run: Episode) -> int:
        return 0 if run.beginning is None else len(run.beginning.kept)

    async def _step(self, run: Episode, turn: ImportedTurn) -> StepTaken:
        decision = turn.decision
        assert decision is not None
        results: list[ToolResult] = []
        user: UserTurn | None = None
        if isinstance(decision, Act):
            decision, results = await self._act(run, decision, turn)
        elif isinstance(decision, Answer) and turn.user is not None and run.user is not None:
            user, _ = await run.hear_user(run.user, decision.text, len(run.steps))
        return StepTaken(
            turn.reply,
            decision,
            tuple(results),
            turn.first_turn,
            turn.reward,
            recalled=turn.recalled,
            user=user,
        )

    async def _act(
        self, run: Episode, decision: Act, turn: ImportedTurn
    ) -> tuple[Act, list[ToolResult]]:
        """Make the calls and compare each result with the file's."""
        results: list[ToolResult] = []
        recorded = [*turn.results, *[None] * (len(decision.calls) - len(turn.results))]
        for call, known in zip(decision.calls, recorded, strict=False):
            if known is not None and known.injected:  # no tool was executed
                digest = run.env.digest
                results.append(msgspec.structs.replace(known, digest=digest))
                continue
            await run.execute(Act((call,)), results)
            if known is not None and not _is_same(results[-1], known):
                self._report(run.plan.episode, call, results[-1], known)
        return decision, results

    def _report(self, episode: str, call: AgentCall, made: ToolResult, known: ToolResult) -> None:
        self.mismatches.setdefault(
            episode,
            f"call {call.id} ({call.name}) gives {_quoted(made)}, and the file has"
            f" {_quoted(known)}",
        )


class RetoldUsers:
    """The users of imported episodes (harness.users.base.UserSource)."""

    def __init__(self, conversations: Mapping[tuple[str, str, int], ImportedConversation]) -> None:
        """`conversations`: by scenario digest, task and seed."""
        self._conversations = conversations

    def user(
        self, scenario: Scenario, task: Task, tools: Sequence[ToolSpec], *, seed: int
    ) -> EpisodeUser | None:
        """The user of an episode; None: nobody answers in its conversation."""
        conversation = self._conversations[scenario.digest, task.id, seed]
        if not conversation.has_user and not task.is_dialogue:
            return None
        return RetoldUser(conversation)


class RetoldUser:
    """Says what the file has, one text for each answer of the agent."""

    def __init__(self, conversation: ImportedConversation) -> None:
        self._turns = [turn.user for turn in conversation.turns if turn.user is not None]
        self._num_turns = 0
        self.hidden = conversation.hidden

    def __repr__(self) -> str:
        return f"<RetoldUser [{self._num_turns} of {len(self._turns)} turns said]>"

    def keep(self, text: str, turn: UserTurn) -> None:
        """Go on after a turn that is logged already."""
        self._num_turns += 1

    async def reply(self, text: str, world: UserWorld) -> UserTurn:
        """Make the calls of the next turn and return its text."""
        turn = self._turns[self._num_turns]
        self._num_turns += 1
        for call in turn.calls:
            await world.call(call.name, call.arguments)
        return UserTurn(turn.text, turn.ended, tools=turn.tools)


class ImportedPolicy:
    """Names whose replies were imported; the driver takes the steps."""

    def __init__(self, agent: str) -> None:
        self.name = agent if agent.startswith("imported") else f"imported:{agent or 'agent'}"

    def agent(self, assignment: Assignment) -> Agent:
        """Raises PolicyError: there is no agent to ask."""
        raise PolicyError("the replies of an imported episode are in its file")


def _is_same(made: ToolResult, known: ToolResult) -> bool:
    """Whether a result is the file's: as the agent reads it, or the same JSON."""
    text, other = result_text(made), result_text(known)
    if known.error is None and text != other and made.error is not None:
        other = known.text  # the file does not say that it failed
    if text.strip() == other.strip() or made.text.strip() == known.text.strip():
        return True
    try:
        return bool(msgspec.json.decode(text) == msgspec.json.decode(other))
    except UNREADABLE:
        return False


def _quoted(result: ToolResult) -> str:
    return repr(shorten(result_text(result), 80))
