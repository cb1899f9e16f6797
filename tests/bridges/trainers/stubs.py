"""Stand-ins of trainers' engines: a sampler that solves a task of the mini world, and the names of
each trainer that bridges use, with the checks that the trainer itself makes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.run_options import RunOptions
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from tests.support.paths import LIBRARY
from tests.support.scripted_tokens import ScriptedTokens

TASK = "library:pay-fine"
VERSION = "7"


def run_in(folder: Path, history: str = "full", agent: str = "") -> BackgroundRun:
    """A run of the mini world with its judge."""
    options = RunOptions(judge=ScenarioJudges, history=parse_history(history), agent=agent)
    return BackgroundRun(folder / "run", [str(LIBRARY)], options)


class Solver:
    """Samples what solves the task: the reply that follows the last one in the prompt.

    Its ids are not those that a tokenizer gives for the text. `fails`: it raises instead.
    """

    def __init__(self, run: BackgroundRun, model: Path, *, fails: bool = False) -> None:
        _, task = run.tasks[TASK]
        self.chat = ChatTokenizer.open(model)
        self.prompts: list[list[int]] = []
        self.sampled: list[list[int]] = []
        self._fails = fails
        self._odd = ScriptedTokens(self.chat, [])
        self._texts = [
            "<tool_call>\n"
            + json.dumps({"name": call.name, "arguments": call.arguments})
            + "\n</tool_call>"
            for call in task.oracle
        ] + [task.answer or "Done."]

    @property
    def num_replies(self) -> int:
        return len(self._texts)

    def sample(self, prompt_ids: Sequence[int]) -> tuple[list[int], list[float]]:
        if self._fails:
            raise ConnectionError("the engine is gone")
        shown = self.chat.decode(prompt_ids)
        shown_before = [number for number, text in enumerate(self._texts) if text in shown]
        ids = self._odd.ids(self._texts[max(shown_before, default=-1) + 1])
        self.prompts.append(list(prompt_ids))
        self.sampled.append(ids)
        return ids, [-0.25] * len(ids)


@dataclass
class SlimeSample:
    """The fields of slime's Sample that are used."""

    prompt: str = ""
    index: int = 5
    group_index: int | None = 1
    rollout_id: int | None = None
    tokens: list[int] = field(default_factory=list)
    response_length: int = 0
    reward: float | None = None
    loss_mask: list[int] | None = None
    rollout_log_probs: list[float] | None = None
    weight_versions: list[str] = field(default_factory=list)
    remove_sample: bool = False
    session_id: str | None = "s1"
    metadata: dict[str, Any] = field(default_factory=dict)

    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"

    status: Status = Status.PENDING


def slime_post(solver: Solver) -> Any:
    """slime's `post`, answering as SGLang does."""

    async def post(url: str, body: dict[str, Any], headers: Any = None) -> dict[str, Any]:
        assert url == "http://router:30000/generate" and body["return_logprob"]
        assert isinstance(body["sampling_params"]["max_new_tokens"], int)
        ids, logprobs = solver.sample(body["input_ids"])
        pairs = [[logprob, id, None] for id, logprob in zip(ids, logprobs, strict=True)]
        meta = {"finish_reason": {"type": "stop"}, "weight_version": VERSION}
        return {"text": "", "meta_info": {**meta, "output_token_logprobs": pairs}}

    return post


class SkyClient:
    """SkyRL's inference engine client."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver

    async def generate(self, request: dict[str, Any]) -> dict[str, Any]:
        (prompt,) = request["prompt_token_ids"]
        ids, logprobs = self._solver.sample(prompt)
        return {"response_ids": [ids], "response_logprobs": [logprobs], "stop_reasons": ["stop"]}


@dataclass
class VerlOutput:
    """verl's AgentLoopOutput: it accepts these fields and no other."""

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    metrics: Any
    response_logprobs: list[float] | None = None
    reward_score: float | None = None
    num_turns: int = 0
    extra_fields: dict[str, Any] = field(default_factory=dict)


class VerlBase:
    """verl's AgentLoopBase, as far as a loop uses it."""

    def __init__(
        self, server_manager: Any, *, prompt_length: int, response_length: int, use_v1: bool = True
    ) -> None:
        self.config = SimpleNamespace(trainer=SimpleNamespace(use_v1=use_v1))
        self.server_manager = server_manager
        self.rollout_config = SimpleNamespace(
            prompt_length=prompt_length, response_length=response_length
        )


VERL = SimpleNamespace(
    AgentLoopBase=VerlBase,
    AgentLoopOutput=VerlOutput,
    AgentLoopMetrics=dict,
    register=lambda name: lambda kind: kind,
)


class VerlServers:
    """verl's LLMServerClient."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self.requests: set[str] = set()

    async def generate(
        self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]
    ) -> Any:
        assert sampling_params["logprobs"] is True
        self.requests.add(request_id)
        ids, logprobs = self._solver.sample(prompt_ids)
        return SimpleNamespace(token_ids=ids, log_probs=logprobs)


@dataclass
class ArealConfig:
    """AReaL's GenerationHyperparameters."""

    n_samples: int = 1
    max_new_tokens: int = 256
    max_tokens: int = 20_000
    stop_token_ids: list[int] = field(default_factory=list)

    def new(self, **fields: Any) -> "ArealConfig":
        return ArealConfig(**{**vars(self), **fields})


@dataclass
class ArealRequest:
    """AReaL's ModelRequest."""

    rid: str
    input_ids: list[int]
    gconfig: ArealConfig


class ArealEngine:
    """AReaL's inference engine."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver

    async def agenerate(self, request: ArealRequest) -> Any:
        assert request.gconfig.stop_token_ids
        ids, logprobs = self._solver.sample(request.input_ids)
        return SimpleNamespace(
            output_tokens=ids,
            output_logprobs=logprobs,
            output_versions=[int(VERSION)] * len(ids),
            stop_reason="stop",
        )


class TinkerInput:
    """tinker's ModelInput."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids

    @classmethod
    def from_ints(cls, ids: list[int]) -> "TinkerInput":
        return cls(ids)


@dataclass
class TinkerStep:
    """The cookbook's StepResult."""

    reward: float
    episode_done: bool
    next_observation: TinkerInput
    next_stop_condition: list[int]
    metrics: dict[str, float] = field(default_factory=dict)


TINKER = SimpleNamespace(ModelInput=TinkerInput, StepResult=TinkerStep)
