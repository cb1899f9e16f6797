"""What a judging model was asked about an episode, written again from the log by the code that
wrote it (judge.llm)."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from rehearsal_room.harness.chat.server_features import ServerFeatures
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Judged
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
from rehearsal_room.judge.llm.llm_judge import LLMJudge, judge_name
from rehearsal_room.judge.llm.rubric import Rubric, read_rubric
from rehearsal_room.judge.llm.voting import OPEN
from rehearsal_room.viewer.sent.shown import SentAtTurn, curl_of, shown_body
from rehearsal_room.viewer.sent.turns import Began

_VERIFIERS: tuple[VerifierSource, ...] = ("package", "awm", "suite", "tool_calls")
_FIRST_FORM = (
    "The request is shown in the form in which a server is asked first; a server that refuses a "
    "field (the format of the answer, the seed) is asked without it, which is not logged. The "
    "messages are the same."
)


def sent_to_judge(
    trajectory: Trajectory,
    world: ScenarioSnapshot | None,
    verdict: Judged,
    folder: Path,
    began: Began,
) -> SentAtTurn:
    """What each model of a verdict was asked; `folder` is the run's."""
    if verdict.asked and not verdict.judgements:
        return SentAtTurn(missing=f"Judge {verdict.judge!r} asked about single criteria.")
    if not verdict.judgements:
        return SentAtTurn(missing=f"Judge {verdict.judge!r} asked no model about this episode.")
    if world is None:
        return SentAtTurn(missing="The log does not have the episode's scenario.")
    try:
        settings = _settings_of(verdict, folder, began)
        rubric = read_rubric(Path(settings.rubric) if settings.rubric else None)
        if f"{rubric.version}/{settings.evidence_tokens}" != verdict.rubric:
            raise SettingsError(
                f"the verdict was made with rubric {verdict.rubric!r}, and this version has "
                f"{rubric.version!r}"
            )
        return _requests(_case(trajectory, world, verdict, settings), settings, rubric, began)
    except (SettingsError, JudgeError) as exc:
        return SentAtTurn(missing=f"The prompt cannot be written again: {exc}.")


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


def _requests(
    made: tuple[Case, bool], settings: JudgeSettings, rubric: Rubric, began: Began
) -> SentAtTurn:
    case, is_decided = made
    judge = LLMJudge(_NoCases(), (), settings, rubric=rubric, profile=PROFILES[settings.rewards])
    prompt = judge.prompt(case, is_decided)
    form: Literal["json_schema"] = "json_schema"
    requests = []
    for model in model_settings(settings):
        env = os.environ.get("OPENAI_BASE_URL") if began.is_own else None
        url = model.base_url or env or OPENAI_URL
        question = JudgeQuestion(model, url, prompt, settings.seed or 0)
        body = question.request(ServerFeatures(format=form)).body
        requests.append(
            shown_body(
                model.model,
                body,
                head=1,
                body=body.decode(),
                url=url,
                curl=curl_of(url, body.decode(), sends_key=began.is_own),
                notes=[_FIRST_FORM],
            )
        )
    return SentAtTurn(requests)


class _NoCases:
    """A judge that writes prompts needs no source of cases."""

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """See judge.llm.llm_judge.Cases."""
        raise JudgeError("this judge only writes prompts")
