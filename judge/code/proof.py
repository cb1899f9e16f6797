"""What the code has to say in a case: its own label, what it proved, and what it leaves open.

A model reasons about what is open and cannot change what is proved. So only what a verifier or the
log has seen counts as proof:

    all findings pass, and not all for doing nothing   completed
    the world or one of its tools broke                environment_error
    the agent's message could not be read              agent_error
    a guard failed                                     agent_error
    a goal is not met, or a limit cut the episode off  anything but completed

Who wrote the verifier says how far it is believed:
- An AWM verifier is certain of `complete` alone ("only if 100 % sure", arXiv:2602.10090). Its
  `others` means that it does not know, so it proves nothing.
- The checks of a foreign world see what they ask for and no more: harm elsewhere escapes them, and
  nobody knows which of them doing nothing meets. That all of them pass proves nothing. One that
  fails is what the task's author called undone, unless its own call failed: then it saw nothing.
- A verifier that did not run proves nothing.
"""

from collections import Counter
from collections.abc import Sequence

from harness.core.events import Ending, Label
from judge.code.code_judge import met_goals
from judge.core.case import Case, Ruling
from judge.core.evidence import Evidence
from scenarios.checks import Finding, failed

_ALL = frozenset(Label)
_NOT_COMPLETED = _ALL - {Label.COMPLETED}
_NOBODYS_DOING = (Ending.POLICY_ERROR, Ending.CANCELLED)
_SHOWN = 3  # findings that a proof names
_LONGEST = 160  # characters of what a finding says


def ruling_of(case: Case) -> Ruling:
    """What the code has to say; its label is always one that it leaves open."""
    evidence = case.evidence
    if evidence.ending is Ending.ANSWERED and evidence.findings and not failed(evidence.findings):
        return _on_success(case)
    if evidence.world_failed:
        return _proved(Label.ENVIRONMENT_ERROR, _world_fault(evidence))
    if evidence.ending is Ending.FORMAT_ERROR:
        why = f": {_short(evidence.error)}" if evidence.error else ""
        return _proved(Label.AGENT_ERROR, f"the agent's last message broke the format{why}")
    if evidence.ending in _NOBODYS_DOING:
        return Ruling(None, _ALL, "")
    return _on_failure(case)


def _on_success(case: Case) -> Ruling:
    findings = case.evidence.findings
    label = case.code.label
    if case.author == "foreign" or not met_goals(findings) - Counter(case.idle):
        return Ruling(label, _ALL, "")
    if case.author == "awm":
        return _proved(Label.COMPLETED, "the verifier is sure: complete, as doing nothing is not")
    return _proved(Label.COMPLETED, f"the verifier's findings all passed: {_names(findings)}")


def _on_failure(case: Case) -> Ruling:
    """A working world, an episode that was not completed as far as the code can tell."""
    evidence, label = case.evidence, case.code.label
    seen = [] if case.author == "awm" else failed(evidence.findings)
    if case.author == "foreign":
        seen = [finding for finding in seen if not _call_failed(finding)]
    guards = [finding for finding in seen if finding.kind == "guard"]
    if guards:
        return _proved(Label.AGENT_ERROR, _failures(guards))
    if seen:
        return Ruling(label, _NOT_COMPLETED, _failures(seen))
    if evidence.ending.is_truncation:
        limit = evidence.ending.replace("_", " ")
        return Ruling(label, _NOT_COMPLETED, f"the {limit} cut the episode off before an answer")
    return Ruling(label, _ALL, "")


def _proved(label: Label, proof: str) -> Ruling:
    return Ruling(label, frozenset((label,)), proof)


def _call_failed(finding: Finding) -> bool:
    """Whether a foreign check saw nothing, as its own call failed (see scenarios.call_checks). A
    record that begins with these words passes for such a call: then too much is left open, never
    too little. What an answer says was seen, whatever it begins with."""
    return finding.found.startswith("error: ") and not finding.name.startswith("answer says ")


def _world_fault(evidence: Evidence) -> str:
    """What broke, in a sentence."""
    if evidence.ending is Ending.WORLD_ERROR:
        return f"the world failed: {_short(evidence.error or 'no reason was logged')}"
    for turn in evidence.turns:
        for call in turn.calls:
            if call.error in ("internal", "timeout"):
                return f"a call of {call.name!r} broke ({call.error}): {_short(call.text)}"
    return "the world could not tell its state"


def _failures(findings: Sequence[Finding]) -> str:
    """Example: guard 'nothing else changed' failed: expected no other change, found 1 new orders"""
    told = [
        f"{finding.kind} '{_short(finding.name)}' failed: "
        f"expected {_short(finding.expected)}, found {_short(finding.found)}"
        for finding in findings[:_SHOWN]
    ]
    return "; ".join(told) + _more(findings)


def _names(findings: Sequence[Finding]) -> str:
    return ", ".join(f"'{_short(finding.name)}'" for finding in findings[:_SHOWN]) + _more(findings)


def _more(findings: Sequence[Finding]) -> str:
    return f" and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else ""


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST] + "…"
