"""The judge of Agent World Model's released code (awm/core/verify.py at 91a9578, mode sql), beside
our own: profile `awm-release`.

Its model decides, and the task's `sql` verifier is evidence. It is asked once; an answer that
cannot be read, an unknown class and a server that fails are `judge_error`, as is a verifier that
raises, without a question. The released code gives classes and no numbers; the rewards are those of
its authors' OpenEnv environment (server/config.py at 685de411).
"""

import json
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.chat.metered import replace_surrogates
from rehearsal_room.harness.chat.preflight import Preflight
from rehearsal_room.harness.core.errors import BudgetExhausted
from rehearsal_room.harness.core.events import (
    Judged,
    Label,
    ModelJudgement,
    ProfileVerdict,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Answer
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.awm import CALL_TOOL
from rehearsal_room.harness.dialects.awm_release import (
    NAME,
    ReleasedAgentStops,
    content_of,
    first_call,
    response_text,
    tool_call,
)
from rehearsal_room.judge.code.runners import VerifierPool
from rehearsal_room.judge.core import live_judging
from rehearsal_room.judge.core.evidence import ended_of
from rehearsal_room.judge.core.live_judging import EpisodeJudge
from rehearsal_room.judge.llm.verdict_cache import VerdictCache
from rehearsal_room.scenarios.format import Scenario

_LABELS = {
    "complete": Label.COMPLETED,
    "incomplete": Label.PARTIALLY_COMPLETED,
    "server_error": Label.ENVIRONMENT_ERROR,
    "agent_error": Label.AGENT_ERROR,
}
CLASSES = (*_LABELS, "judge_error")
_CLASS_OF = {label: name for name, label in _LABELS.items()}
_REWARDS = {"complete": 1.0, "incomplete": 0.1}  # all others 0
_OBJECT = re.compile(r"\{[\s\S]*\}")
_LEAST_CODE = 10  # characters of a verifier
ChatMessages = list[dict[str, str]]


class AskedModel(Protocol):
    """A model that is asked what the released code asks it."""

    @property
    def name(self) -> str:
        """The model's name."""

    async def ask_released(self, messages: ChatMessages) -> tuple[str | None, ModelJudgement]:
        """Its answer, and what that cost; None: it gave none, and the judgement's fault says why.
        Raises BudgetExhausted."""


class ReleasedJudge:
    """An EpisodeJudge: the verdicts of another one, each with the released judge's beside it.

    `pool` hosts the scenarios already; `prompt` is the system prompt. Its judgements are kept in
    the cache by episode, so that judging again asks nothing twice.
    """

    def __init__(
        self,
        own: EpisodeJudge,
        model: AskedModel,
        *,
        pool: VerifierPool,
        scenarios: Sequence[Scenario],
        prompt: str,
        cache: VerdictCache,
        name: str,
        concurrency: int,
        backlog: int,
    ) -> None:
        self.name = name
        self._own = own
        self._model = model
        self._pool = pool
        self._scenarios = {scenario.digest: scenario for scenario in scenarios}
        self._prompt = prompt
        self._cache = cache
        self._concurrency = concurrency
        self._backlog = backlog

    async def preflight(self) -> None:
        """Check that the model can be asked. Raises ModelServerError."""
        if isinstance(self._model, Preflight):
            await self._model.preflight()

    async def serve(self, subscription: Subscription, record: live_judging.RecordJudged) -> None:
        """Judge every episode that ends, until the bus is closed (see judge.core.live_judging)."""
        await live_judging.serve(
            subscription, self, record, concurrency=self._concurrency, backlog=self._backlog
        )

    def suspends(self, trajectory: Trajectory) -> bool:
        """True: a model is waited for."""
        return True

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The other judge's verdict, with this one's in `profile`; ValueError for an episode that
        is not over."""
        judged = await self._own.verdict(trajectory)
        theirs = await self._classified(trajectory)
        cost = 0.0 if theirs.judgement is None else theirs.judgement.cost_usd or 0.0
        return msgspec.structs.replace(judged, profile=theirs, cost_usd=judged.cost_usd + cost)

    async def _classified(self, trajectory: Trajectory) -> ProfileVerdict:
        ended = ended_of(trajectory)
        if not trajectory.started.dialect.startswith(NAME):
            return _without("the episode was not played with the profile")
        try:
            steps = released_trajectory(trajectory.steps)
        except ReleasedAgentStops as exc:
            return _without(f"the released agent stops with an error: {exc}")
        if ended.ending.lacks_reply or ended.state is None:
            why = ended.error or "the world's final state is not known"
            return _without(f"the released agent would have no result: {why}")
        try:
            evidence = await self._evidence(trajectory)
        except _JudgeError as exc:
            return _verdict("judge_error", str(exc))
        except PoolError as exc:
            return _without(f"the verifier could not run: {exc}")
        question = question_of(trajectory.started.instruction, steps, evidence)
        messages = [
            {"role": "system", "content": self._prompt},
            {"role": "user", "content": replace_surrogates(question)},
        ]
        return await self._asked(trajectory, messages)

    async def _evidence(self, trajectory: Trajectory) -> Any:
        """What the task's verifier returns. Raises _JudgeError where no model is asked."""
        started, ended = trajectory.started, ended_of(trajectory)
        scenario = self._scenarios.get(started.scenario_digest)
        verifiers = {} if scenario is None or scenario.awm is None else scenario.awm.verifiers
        verifier = verifiers.get(started.task)
        code = "" if verifier is None else verifier.sql or ""
        if scenario is None or len(code.strip()) < _LEAST_CODE:
            raise _JudgeError("no valid verifier was found")
        task, state = scenario.task(started.task), ended.state
        assert state is not None
        verified = await self._pool.verify(scenario, task, state, "", "sql")
        if fault := verified.violation or verified.fault:
            raise _JudgeError(f"the verifier failed: {fault}")
        return verified.detail

    async def _asked(self, trajectory: Trajectory, messages: ChatMessages) -> ProfileVerdict:
        digest = blake2b(digest_size=16)
        digest.update(f"{trajectory.episode}/{trajectory.attempt}/".encode())
        for message in messages:
            digest.update(message["content"].encode())
        key = (digest.hexdigest(), NAME, self._model.name, NAME)
        if (known := await self._cache.get(*key)) is not None and known.label is not None:
            return _verdict(_CLASS_OF[known.label], known.fault, known)
        try:
            text, judgement = await self._model.ask_released(messages)
        except BudgetExhausted as exc:
            return _without(str(exc))
        if text is None:
            return _verdict("judge_error", judgement.fault, judgement)
        classification, reasoning, fault = read_answer(text)
        judgement = msgspec.structs.replace(
            judgement, label=_LABELS.get(classification), reasoning=reasoning, fault=fault
        )
        await self._cache.put(*key, judgement)
        return _verdict(classification, fault, judgement)


class _JudgeError(Exception):
    """The released judge gives `judge_error` and asks no model."""


def _verdict(
    classification: str, reason: str, judgement: ModelJudgement | None = None
) -> ProfileVerdict:
    reward = _REWARDS.get(classification, 0.0)
    return ProfileVerdict(NAME, classification, reward, reason, judgement)


def _without(reason: str) -> ProfileVerdict:
    return ProfileVerdict(NAME, "", None, reason)


def released_trajectory(steps: Sequence[StepTaken]) -> list[dict[str, Any]]:
    """The steps as the released agent writes them into its trajectory. Ids of calls have the number
    of the step, where the released ones have the time. Raises ReleasedAgentStops."""
    return [_entry(number, step) for number, step in enumerate(steps, 1)]


def _entry(number: int, step: StepTaken) -> dict[str, Any]:
    content = content_of(step.reply)
    entry = {"iteration": number, "role": "assistant", "content": content}
    call = first_call(content)
    if call is None or isinstance(step.decision, Answer):
        return {**entry, "tool_calls": [], "is_final": True}
    if call.name == CALL_TOOL:
        tool_call(call)  # raises where the released agent does
    id = f"call_{number}_{call.index}"
    return {
        **entry,
        "tool_calls": [{"id": id, "name": call.name, "arguments": call.arguments}],
        "tool_response": {"tool_call_id": id, "content": response_text(step)},
    }


def question_of(task: str, steps: Sequence[dict[str, Any]], evidence: Any) -> str:
    """The user's message of the question."""
    payload = {"user_task": task, "actual_execution_steps": len(steps), "trajectory": steps}
    return (
        f"task_json:\n{_json(payload)}\n\n"
        f"verification_json:\n{_json({'code_execution_result': evidence})}"
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def read_answer(text: str) -> tuple[str, str, str]:
    """The class in an answer, its reasoning, and what is wrong with it (empty: nothing).

    Example: '{"classification": " Complete", "reasoning": "both rows"}' -> complete, both rows
    """
    try:
        value = _first_object(text)
        name = value.get("classification", "judge_error").lower().strip()
    except (ValueError, AttributeError, RecursionError):
        return "judge_error", "", "the answer cannot be read"
    reasoning = value.get("reasoning", "")
    reasoning = replace_surrogates(reasoning) if isinstance(reasoning, str) else ""
    if name not in CLASSES:
        return "judge_error", reasoning, "the answer names no class"
    return name, reasoning, "the judge gave none" if name == "judge_error" else ""


def _first_object(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        found = _OBJECT.search(text)
        if found is None:
            raise
        return json.loads(found.group())
