"""What a judging model was asked about an episode, written again from the log by the code that
wrote it (judge.llm)."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rehearsal_room.harness.chat.server_features import ServerFeatures
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Judged, ModelJudgement
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.harness.policies.openai import OPENAI_URL
from rehearsal_room.harness.settings.judge import (
    FILE_NAME,
    JudgeSettings,
    asks_models,
    read_judge,
)
from rehearsal_room.harness.settings.run import judge_settings
from rehearsal_room.harness.setup.run_trust import counts
from rehearsal_room.judge.code.proof import code_verdict_of
from rehearsal_room.judge.core.case import Case, VerifierSource
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.evidence import Verification, gather, scenario_info
from rehearsal_room.judge.core.rewards import PROFILES
from rehearsal_room.judge.llm.client import JudgeQuestion, model_settings
from rehearsal_room.judge.llm.criteria import asked_case, asked_criteria
from rehearsal_room.judge.llm.llm_judge import LLMJudge, judge_name
from rehearsal_room.judge.llm.rubric import Rubric, read_rubric
from rehearsal_room.judge.llm.voting import OPEN
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.viewer.sent.shown import SentAtTurn, SentRequest, curl_of, shown_body
from rehearsal_room.viewer.sent.turns import Began

_VERIFIERS: tuple[VerifierSource, ...] = ("package", "awm", "suite", "tool_calls")
_FIRST_FORM = (
    "The request is shown in the form in which a server is asked first; a server that refuses a "
    "field (the format of the answer, the seed) is asked without it, which is not logged. The "
    "messages are the same."
)

_CACHED = "The answer was kept from an earlier judging, so the request was not sent again."
_AGAIN = (
    "After an answer that cannot be read, it is sent again with another seed and some temperature; "
    "the first request is shown."
)
_BENCHMARKS = (
    "The benchmark's own score asked the model; its program writes these questions, and it does "
    "not run here."
)


def sent_to_judge(
    trajectory: Trajectory,
    world: ScenarioSnapshot | None,
    verdict: Judged,
    folder: Path,
    began: Began,
) -> SentAtTurn:
    """What each model of a verdict was asked; `folder` is the run's."""
    if not verdict.judgements and not verdict.asked:
        return SentAtTurn(missing=f"Judge {verdict.judge!r} asked no model about this episode.")
    has_criteria = any(one.kind == "criterion" for one in verdict.findings)
    if verdict.asked and not has_criteria and not verdict.judgements:
        return SentAtTurn(missing=_BENCHMARKS)
    if world is None:
        return SentAtTurn(missing="The log does not have the episode's scenario.")
    requests: list[SentRequest] = []
    try:
        settings = _settings_of(verdict, folder, began)
        asking = _Asking(settings, _rubric_of(verdict, settings), began)
        if verdict.asked and has_criteria:
            requests += _about_criteria(asking, trajectory, world, verdict)
        if verdict.judgements:
            case, is_decided = _case(trajectory, world, verdict, settings)
            requests += asking.requests(verdict.judgements, case, is_decided)
    except (SettingsError, JudgeError) as exc:
        return SentAtTurn(requests, f"The prompt cannot be written again: {exc}.")
    return SentAtTurn(requests)


def _rubric_of(verdict: Judged, settings: JudgeSettings) -> Rubric:
    """The rubric of a verdict. Raises SettingsError where this version has another; a verdict
    without a label does not say which it was."""
    rubric = read_rubric(Path(settings.rubric) if settings.rubric else None)
    if verdict.rubric and f"{rubric.version}/{settings.evidence_tokens}" != verdict.rubric:
        raise SettingsError(
            f"the verdict was made with rubric {verdict.rubric!r}, and this version has "
            f"{rubric.version!r}"
        )
    return rubric


def _settings_of(verdict: Judged, folder: Path, began: Began) -> JudgeSettings:
    """The settings of the judge that gave a verdict. Raises SettingsError."""
    for settings, is_own in _known_settings(folder, began):
        if asks_models(settings.mode):
            names = [model.model for model in model_settings(settings)]
            if judge_name(settings.mode, names) == verdict.judge:
                if settings.rubric and not is_own:
                    raise SettingsError(
                        "its rubric is a file that the run's folder names, and you did not begin "
                        "the run on this machine"
                    )
                return settings
    raise SettingsError(f"the settings of judge {verdict.judge!r} are not in the run's folder")


def _known_settings(folder: Path, began: Began) -> Iterator[tuple[JudgeSettings, bool]]:
    """Each with whether this user wrote it."""
    if (later := read_judge(folder)) is not None:
        yield later, counts(folder / FILE_NAME)
    if began.settings is not None and asks_models(began.settings.judge.mode):
        yield judge_settings(began.settings), began.is_own


def _case(
    trajectory: Trajectory, world: ScenarioSnapshot, verdict: Judged, settings: JudgeSettings
) -> tuple[Case, bool]:
    """The case of a logged verdict, and whether code left one label open. Raises SettingsError
    where the log lacks a part of it."""
    if settings.mode == "llm":
        verification = Verification((), "no verifier was asked")
        code = msgspec.structs.replace(verdict, label=None, judge="code", judgements=())
        evidence = gather(trajectory, verification, scenario_info(world))
        return Case(trajectory, evidence, (), code, "package"), len(OPEN.allowed) == 1
    if not verdict.findings:
        raise SettingsError("the log does not say why the verifier had no findings")
    code = msgspec.structs.replace(verdict, label=verdict.code, judge="code", judgements=())
    evidence = gather(trajectory, Verification(verdict.findings), scenario_info(world))
    for verifier in _VERIFIERS:
        case = Case(trajectory, evidence, verdict.idle, code, verifier)
        if (found := code_verdict_of(case)).proof == verdict.proof:
            return case, len(found.allowed) == 1
    raise SettingsError("this version of the code judge proves something else about the episode")


def _about_criteria(
    asking: "_Asking", trajectory: Trajectory, world: ScenarioSnapshot, verdict: Judged
) -> Iterator[SentRequest]:
    """The questions about single criteria, which only verifiers of packages have. Raises
    SettingsError where the log does not say which questions the remaining answers belong to."""
    num = len(asking.models)
    evidence = gather(trajectory, Verification(verdict.findings), scenario_info(world))
    code = msgspec.structs.replace(verdict, label=verdict.code, judge="code", judgements=())
    case = asked_case(Case(trajectory, evidence, verdict.idle, code, "package"))
    criteria = asked_criteria(verdict, num)
    for at, criterion in enumerate(criteria):
        judgements = verdict.asked[at * num : (at + 1) * num]
        yield from asking.requests(judgements, case, True, criterion)
    if len(criteria) * num != len(verdict.asked):
        raise SettingsError("the log does not say about which criteria models were asked")


class _Asking:
    """How a judge asks its models."""

    def __init__(self, settings: JudgeSettings, rubric: Rubric, began: Began) -> None:
        profile = PROFILES[settings.rewards]
        self._judge = LLMJudge(_NoCases(), (), settings, rubric=rubric, profile=profile)
        self._began = began
        self._seed = settings.seed or 0
        self.models = model_settings(settings)

    def requests(
        self,
        judgements: Sequence[ModelJudgement],
        case: Case,
        is_decided: bool,
        criterion: Finding | None = None,
    ) -> Iterator[SentRequest]:
        """The question to each model, whose judgement is beside it. Raises JudgeError."""
        prompt = self._judge.prompt(case, is_decided, criterion)
        form: Literal["json_schema"] = "json_schema"
        about = "" if criterion is None else f" about criterion {criterion.name!r}"
        env = os.environ.get("OPENAI_BASE_URL") if self._began.is_own else None
        for model, judgement in zip(self.models, judgements, strict=False):
            url = model.base_url or env or OPENAI_URL
            question = JudgeQuestion(model, url, prompt, self._seed)
            body = question.request(ServerFeatures(format=form)).body
            yield shown_body(
                f"{model.model}{about}",
                body,
                head=1,
                body=body.decode(),
                url=url,
                curl=curl_of(url, body.decode(), sends_key=self._began.is_own),
                attempts=max(1, judgement.requests),
                notes=list(_notes(judgement)),
            )


def _notes(judgement: ModelJudgement) -> Iterator[str]:
    yield _FIRST_FORM
    if judgement.is_cached:
        yield _CACHED
    if judgement.requests > 1:
        yield _AGAIN


class _NoCases:
    """A judge that writes prompts needs no source of cases."""

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """See judge.llm.llm_judge.Cases."""
        raise JudgeError("this judge only writes prompts")
