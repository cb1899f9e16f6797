"""The code verdict of a case: code's own label, what code proves, and what it leaves open.

A model decides what is open and cannot change what is proved. So only what a verifier or the log
has observed counts as proof:

    all findings pass, and doing nothing does not pass all   completed
    the only findings that failed are left open              nothing of the world's fault
    the world or one of its tools failed                     environment_error, unless a guard of
                                                             the package failed: agent_error
    the agent's message could not be read                    agent_error
    the user's own program failed                            agent_error
    a guard failed                                           agent_error
    a goal is not met, or a limit cut the episode off        anything but completed
    no call was refused, and no check's own call failed      nothing of the world's fault

How much a finding proves depends on the kind of its verifier:
- An AWM verifier is certain of `complete` alone ("only if 100 % sure", arXiv:2602.10090). Its
  `others` means that it does not know, so it proves nothing.
- The checks of a foreign world see what they ask for and no more: they miss harm elsewhere, and it
  is not known which of them doing nothing meets. That all of them pass proves nothing. One that
  fails proves that work is undone, as the task's author defined it, unless its own call failed:
  then it saw nothing.
- A benchmark's checks are its score: where all pass, it is completed, whatever doing nothing meets.
- A verifier that did not run proves nothing.
"""

from collections import Counter
from collections.abc import Sequence

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.judge.code.code_judge import call_failed, harm_in, met_goals
from rehearsal_room.judge.core.case import Case, CodeVerdict
from rehearsal_room.judge.core.evidence import Evidence
from rehearsal_room.scenarios.checks import OPEN, Finding, failed, proved_wrong
from rehearsal_room.scenarios.core.short_text import one_line

_ALL = frozenset(Label)
_NOT_COMPLETED = _ALL - {Label.COMPLETED}
_NOT_THE_AGENTS = (Ending.POLICY_ERROR, Ending.MODEL_REFUSED, Ending.CANCELLED)
_NUM_SHOWN = 3  # findings that a proof names
_MAX_CHARACTERS = 160  # of each text of a finding


def code_verdict_of(case: Case) -> CodeVerdict:
    """The code verdict of a case. Its label is always one that it leaves open."""
    evidence = case.evidence
    if evidence.ending is Ending.ANSWERED and evidence.findings and not failed(evidence.findings):
        return _on_success(case)
    harm = harm_in(evidence.findings)
    if evidence.world_failed and harm:
        return _proved(Label.AGENT_ERROR, _failures(harm))
    if evidence.world_failed:
        return _proved(Label.ENVIRONMENT_ERROR, _world_fault(evidence))
    if evidence.ending is Ending.FORMAT_ERROR:
        why = f": {_short(evidence.error)}" if evidence.error else ""
        return _proved(Label.AGENT_ERROR, f"the agent's last message broke the format{why}")
    if evidence.ending is Ending.AGENT_FAILED:
        why = _short(evidence.error or "no reason was logged")
        return _proved(Label.AGENT_ERROR, f"the agent's own program failed: {why}")
    if evidence.ending in _NOT_THE_AGENTS:
        return CodeVerdict(None, _ALL, "")
    return _on_failure(case)


def _on_success(case: Case) -> CodeVerdict:
    findings = case.evidence.findings
    label = case.code.label
    if any(finding.name.endswith(OPEN) for finding in findings):
        return _unfailed(label)
    if case.verifier == "suite":  # its score is what its checks say, also where silence is right
        return _proved(Label.COMPLETED, f"the benchmark's checks all passed: {_names(findings)}")
    if case.verifier == "tool_calls" or not met_goals(findings) - Counter(case.idle):
        return _unproved(label, case.evidence)
    if case.verifier == "awm":
        why = "the verifier is certain that it is complete, and doing nothing is not complete"
        return _proved(Label.COMPLETED, why)
    return _proved(Label.COMPLETED, f"the verifier's findings all passed: {_names(findings)}")


def _on_failure(case: Case) -> CodeVerdict:
    """A working world, an episode that was not completed as far as the code can tell."""
    evidence, label = case.evidence, case.code.label
    proved = [] if case.verifier == "awm" else proved_wrong(evidence.findings)
    if case.verifier == "tool_calls":
        proved = [finding for finding in proved if not call_failed(finding)]
    guards = [finding for finding in proved if finding.kind == "guard"]
    if guards:
        return _proved(Label.AGENT_ERROR, _failures(guards))
    if proved:
        return CodeVerdict(label, _NOT_COMPLETED & _open(evidence), _failures(proved))
    if any(finding.is_open for finding in evidence.findings):
        return _unfailed(label)
    if evidence.ending.is_truncation:
        limit = evidence.ending.replace("_", " ")
        why = f"the {limit} cut the episode off before an answer"
        return CodeVerdict(label, _NOT_COMPLETED & _open(evidence), why)
    return _unproved(label, evidence)


def _open(evidence: Evidence) -> frozenset[Label]:
    """The labels that a model may give where code proves nothing. That the world failed it may say
    only where a tool refused a call or a check's own call failed, or it could take any failure out
    of the rate."""
    refused = any(call.error == "refused" for turn in evidence.turns for call in turn.calls)
    if refused or any(map(call_failed, evidence.findings)):
        return _ALL
    return _ALL - {Label.ENVIRONMENT_ERROR}


def _unproved(label: Label | None, evidence: Evidence) -> CodeVerdict:
    """Code proves nothing of the agent's work."""
    return _unfailed(label) if _open(evidence) != _ALL else CodeVerdict(label, _ALL, "")


def _unfailed(label: Label | None) -> CodeVerdict:
    return CodeVerdict(label, _ALL - {Label.ENVIRONMENT_ERROR}, "the world did not fail")


def _proved(label: Label, proof: str) -> CodeVerdict:
    return CodeVerdict(label, frozenset((label,)), proof)


def _world_fault(evidence: Evidence) -> str:
    """What failed in the world, in a sentence."""
    if evidence.ending is Ending.WORLD_ERROR:
        return f"the world failed: {_short(evidence.error or 'no reason was logged')}"
    for turn in evidence.turns:
        for call in turn.calls:
            if call.error in ("internal", "timeout"):
                return f"a call of {call.name!r} broke ({call.error}): {_short(call.text)}"
    return "the world's final state is not known"


def _failures(findings: Sequence[Finding]) -> str:
    """Example: guard 'nothing else changed' failed: expected no other change, found 1 new orders"""
    sentences = [
        f"{finding.kind} '{_short(finding.name)}' failed: "
        f"expected {_short(finding.expected)}, found {_short(finding.found)}"
        for finding in findings[:_NUM_SHOWN]
    ]
    return "; ".join(sentences) + _more(findings)


def _names(findings: Sequence[Finding]) -> str:
    names = ", ".join(f"'{_short(finding.name)}'" for finding in findings[:_NUM_SHOWN])
    return names + _more(findings)


def _more(findings: Sequence[Finding]) -> str:
    return f" and {len(findings) - _NUM_SHOWN} more" if len(findings) > _NUM_SHOWN else ""


def _short(text: str) -> str:
    return one_line(text, _MAX_CHARACTERS)
