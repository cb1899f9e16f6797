"""The gate's findings under the check ids of OpenEnv's RFC 008 (environment auto-validation), as a
report in its schema 2 under severity policy v2.

The policy names 46 ids on four levels. The package openenv 0.10 ships checks for a handful of them,
and for none of the semantic and statistical levels. The gate computes twelve, among them:

    id                                 check of the gate      measured
    semantic.oracle_max                oracle                 oracles that complete their task
    semantic.floor_gap                 noop                   reward of doing nothing, of a claim
    statistical.adversarial_floor      mutants                oracles with a mistake that are caught

Every other id is in the report as skipped, with the reason. As the RFC demands, the semantic and
statistical checks depend on determinism: where it fails they are skipped.

A package has no openenv.yaml, so the report has no manifest, and the signature is that of
the wire over which `rehearse serve` shows the world.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from rehearsal_room.judge.gate.checks.tasks import OTHER_FINDINGS
from rehearsal_room.judge.gate.core.report import GateFailure, WorldGateReport
from rehearsal_room.judge.gate.job_pool import CheckOutcome

CheckStatus = Literal["pass", "fail", "skip", "error"]
CheckSeverity = Literal["fail", "warn", "advisory"]
GateVerdict = Literal["pass", "warn", "fail"]
_MAX_EVIDENCE = 20  # failures that are quoted for a check
_STARTUP = ("package", "seed", "tools", "crash")


class OpenEnvResult(msgspec.Struct, frozen=True):
    """The result of one check id."""

    check_id: str
    status: CheckStatus
    measured: dict[str, Any]
    evidence: tuple[str, ...]
    remediation: str | None
    duration_s: float


class OpenEnvReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report on one world, as OpenEnv's report schema 2 has it."""

    report_schema_version: Literal["2"] = "2"
    target: str  # the world
    source_digest: str  # of its package
    signature: Literal["openenv.yaml"] = "openenv.yaml"
    manifest: None = None
    policy_version: Literal["v2"] = "v2"
    lane: Literal["hub"] = "hub"  # the statistical ids are in no other
    levels_run: tuple[int, ...]
    results: tuple[OpenEnvResult, ...]
    verdict: GateVerdict


class _Computed(msgspec.Struct, frozen=True):
    """An id that the gate computes."""

    checks: tuple[str, ...]  # of the gate
    measure: Callable[[WorldGateReport, int], dict[str, Any]]  # of a report with so many bad tasks
    remediation: str
    # What must be there for the check to mean something; else the check is skipped.
    needs: Callable[[WorldGateReport], str] = lambda report: ""


def openenv_report(outcome: CheckOutcome) -> OpenEnvReport:
    """The report on one world."""
    results = tuple(_results(outcome.report))
    levels = sorted({_LEVELS[one.check_id] for one in results if one.status != "skip"})
    return OpenEnvReport(
        target=outcome.name,
        source_digest=outcome.digest,
        levels_run=tuple(levels),
        results=results,
        verdict=_verdict(results),
    )


def _results(report: WorldGateReport) -> Iterator[OpenEnvResult]:
    """A result for every id of the policy, in its order."""
    found: dict[str, OpenEnvResult] = {}
    for check_id, computed in _COMPUTED.items():
        found[check_id] = _computed(report, check_id, computed, found)
    for check_id in _POLICY:
        yield found.get(check_id) or _skipped(check_id, _NOT_RUN[check_id])


def _computed(
    report: WorldGateReport, check_id: str, computed: _Computed, before: dict[str, OpenEnvResult]
) -> OpenEnvResult:
    if unmet := _unmet(check_id, before):
        return _skipped(check_id, f"unmet dependency: {unmet}")
    if reason := computed.needs(report):
        return _skipped(check_id, reason)
    if check_id == "semantic.oracle_max" and _oracle_missing(report):
        why = "no task has an oracle, so nothing shows that its verifier can be satisfied"
        measured = {"tasks": report.tasks, "oracles_completed": 0}
        return OpenEnvResult(check_id, "fail", measured, (why,), "Write an oracle.", 0.0)
    failures = [one for one in report.failures if _concerns(check_id, computed, one)]
    bad = len({task for one in failures for task in one.tasks})
    lines = tuple(f"{one.task or one.world}: {one.why}" for one in failures[:_MAX_EVIDENCE])
    return OpenEnvResult(
        check_id,
        "fail" if failures else "pass",
        computed.measure(report, bad),
        lines,
        computed.remediation if failures else None,
        0.0,
    )


def _concerns(check_id: str, computed: _Computed, failure: GateFailure) -> bool:
    """Whether a failure of the gate is one of this id. The gate's `verifier` has two ids: that it
    gives the same findings again, and that it gives any."""
    if failure.check not in computed.checks:
        return False
    if failure.check == "verifier":
        is_other = failure.why.startswith(OTHER_FINDINGS)
        return is_other == (check_id == "semantic.verifier_determinism")
    return True


def _unmet(check_id: str, before: dict[str, OpenEnvResult]) -> str:
    """The check that must pass before this one; empty: none is missing."""
    needed = ["runtime.startup"] if check_id != "runtime.startup" else []
    if check_id.startswith(("semantic.", "statistical.")):
        needed.append("runtime.episode_determinism")
    return next((one for one in needed if before[one].status != "pass"), "")


def _skipped(check_id: str, reason: str) -> OpenEnvResult:
    return OpenEnvResult(check_id, "skip", {}, (reason,), None, 0.0)


def _verdict(results: tuple[OpenEnvResult, ...]) -> GateVerdict:
    """The verdict under the policy: `warn` where something was skipped."""
    failed = {_POLICY[one.check_id][1] for one in results if one.status == "fail"}
    if "fail" in failed:
        return "fail"
    return "warn" if failed or any(one.status == "skip" for one in results) else "pass"


# What the gate computes -------------------------------------------------------------------------


def _oracles(report: WorldGateReport, bad: int) -> dict[str, Any]:
    return {
        "tasks": report.tasks,
        "oracles_completed": report.tasks - bad,
        "oracle_reward": 0.0 if bad else 1.0,  # the least one
    }


def _floor(report: WorldGateReport, bad: int) -> dict[str, Any]:
    floor = 1.0 if bad else 0.0  # goals that doing nothing meets count for nothing
    return {
        "tasks": report.tasks,
        "tasks_above_floor": bad,
        "oracle_reward": 1.0,
        "measured_floor": floor,
        "gap": 1.0 - floor,
    }


def _mutants(report: WorldGateReport, bad: int) -> dict[str, Any]:
    share = report.mutants_caught / report.mutants
    return {
        "mutants": report.mutants,
        "mutants_caught": report.mutants_caught,
        "caught_share": round(share, 6),
        "equivalent": report.equivalent,
        "tasks_failed": bad,
    }


def _gap(report: WorldGateReport, bad: int) -> dict[str, Any]:
    rewarded = 1.0 - report.mutants_caught / report.mutants
    return {
        "oracle_reward": 1.0,
        "mean_reward_of_mutants": round(rewarded, 6),
        "gap": round(1.0 - rewarded, 6),
        "tasks_failed": bad,
    }


def _canaries(report: WorldGateReport, bad: int) -> dict[str, Any]:
    return {"canaries": report.near_misses, "tasks_failed": bad}


def _tasks(report: WorldGateReport, bad: int) -> dict[str, Any]:
    return {"tasks": report.tasks, "tasks_failed": bad}


def _tools(report: WorldGateReport, bad: int) -> dict[str, Any]:
    return {"tools": report.tools, "probes": report.probes, "unreached": len(report.unreached)}


def _worlds(report: WorldGateReport, bad: int) -> dict[str, Any]:
    return {"tools": report.tools, "tasks": report.tasks}


def _oracle_missing(report: WorldGateReport) -> bool:
    """Whether no oracle was played: an AWM record has none."""
    return not report.mutants and not any(one.check == "oracle" for one in report.failures)


def _needs_mutants(report: WorldGateReport) -> str:
    return "" if report.mutants else "no oracle completes its task, so there are no mutants of one"


def _needs_canaries(report: WorldGateReport) -> str:
    return "" if report.near_misses else "the package has no near_misses.toml"


_COMPUTED: dict[str, _Computed] = {
    "runtime.startup": _Computed(
        _STARTUP, _worlds, "Make the package readable: `rehearse worlds check` names the file."
    ),
    "runtime.episode_determinism": _Computed(
        ("determinism",), _tasks, "Remove what depends on time, chance, or the order of sets."
    ),
    "runtime.reward_well_formed": _Computed(
        ("verifier",), _tasks, "Let the verifier return findings for every state and answer."
    ),
    "runtime.tool_declaration_accuracy": _Computed(
        ("tool", "constraint", "interface"),
        _tools,
        "Let each tool do what its schema and description say, and refuse every other call.",
    ),
    "runtime.task_declaration_accuracy": _Computed(
        ("kind", "difficulty", "texts", "rules", "purposes", "dialogue"),
        _tasks,
        "Let instruction, kind and difficulty of the task agree with its solution.",
    ),
    "semantic.oracle_max": _Computed(
        ("oracle",), _oracles, "Correct the oracle's calls or answer, or the verifier."
    ),
    "semantic.floor_gap": _Computed(
        ("noop",), _floor, "Let the verifier demand what the task asks for."
    ),
    "semantic.canary_floor": _Computed(
        ("near_miss",),
        _canaries,
        "Let the verifier give the wrong turn the label that near_misses.toml names.",
        _needs_canaries,
    ),
    "semantic.verifier_determinism": _Computed(
        ("verifier",), _tasks, "Let the verifier depend on state and answer alone."
    ),
    "semantic.replayability": _Computed(
        ("determinism",), _tasks, "Remove what depends on time, chance, or the order of sets."
    ),
    "statistical.adversarial_floor": _Computed(
        ("mutants",), _mutants, "Let the verifier notice the surviving mistakes.", _needs_mutants
    ),
    "statistical.gameability_gap": _Computed(
        ("mutants",), _gap, "Let the verifier notice the surviving mistakes.", _needs_mutants
    ),
}

# The policy -------------------------------------------------------------------------------------

# Severity policy v2: the level of each id, and what a failure of it makes of the verdict.
_POLICY: dict[str, tuple[int, CheckSeverity]] = {
    "static.manifest": (1, "fail"),
    "static.reproducible_build": (1, "fail"),
    "static.image_hygiene": (1, "warn"),
    "static.layout": (1, "warn"),
    "static.sbom": (1, "fail"),
    "static.oci_labels": (1, "fail"),
    "static.resource_declaration": (1, "fail"),
    "static.timeout_ceiling": (1, "fail"),
    "static.dependency_pinning": (1, "fail"),
    "static.task_distribution_pinning": (1, "fail"),
    "runtime.startup": (2, "fail"),
    "runtime.reward_well_formed": (2, "fail"),
    "runtime.rubric_introspectable": (2, "warn"),
    "runtime.observation_schema": (2, "fail"),
    "runtime.state_contract": (2, "fail"),
    "runtime.trajectory_record": (2, "warn"),
    "runtime.reward_attribution": (2, "warn"),
    "runtime.tool_declaration_accuracy": (2, "fail"),
    "runtime.task_declaration_accuracy": (2, "fail"),
    "runtime.seed_control": (2, "fail"),
    "runtime.episode_determinism": (2, "fail"),
    "runtime.network_policy": (2, "fail"),
    "runtime.host_containment": (2, "fail"),
    "runtime.resource_bounds": (2, "fail"),
    "runtime.episode_isolation": (2, "fail"),
    "runtime.oracle_containment": (2, "fail"),
    "semantic.oracle_max": (3, "fail"),
    "semantic.floor_gap": (3, "fail"),
    "semantic.canary_floor": (3, "fail"),
    "semantic.no_solution_leakage": (3, "fail"),
    "semantic.verifier_determinism": (3, "fail"),
    "semantic.verifier_portability": (3, "fail"),
    "semantic.resource_envelope": (3, "fail"),
    "semantic.replayability": (3, "fail"),
    "hub.layer_isolation": (1, "warn"),
    "hub.time_to_first_work": (2, "warn"),
    "hub.cosign_signature": (1, "warn"),
    "hub.cross_host_determinism": (2, "fail"),
    "hub.immutable_versioning": (1, "fail"),
    "statistical.reward_reachability": (4, "fail"),
    "statistical.difficulty_separation": (4, "fail"),
    "statistical.headroom": (4, "warn"),
    "statistical.variance_bound": (4, "fail"),
    "statistical.training_signal": (4, "advisory"),
    "statistical.adversarial_floor": (4, "fail"),
    "statistical.gameability_gap": (4, "warn"),
}
_LEVELS = {check_id: level for check_id, (level, _) in _POLICY.items()}

_NO_IMAGE = "not run: a package of Rehearsal is not a container image"
_NO_MANIFEST = "not run: a package of Rehearsal has no openenv.yaml that could declare it"
_NO_SERVER = "not run: the gate plays worlds without a server; `openenv validate --url` asks one"
_NO_MODEL = "not run: it needs episodes of models (`rehearse run`, then `compare` or `promote`)"
_SANDBOX = "not run by the gate: the sandbox of untrusted code is tested with Rehearsal itself"
_NOT_RUN = {
    "static.manifest": _NO_MANIFEST,
    "static.reproducible_build": _NO_IMAGE,
    "static.image_hygiene": _NO_IMAGE,
    "static.layout": _NO_IMAGE,
    "static.sbom": _NO_IMAGE,
    "static.oci_labels": _NO_IMAGE,
    "static.resource_declaration": _NO_MANIFEST,
    "static.timeout_ceiling": _NO_MANIFEST,
    "static.dependency_pinning": "not run: a package has no dependencies of its own",
    "static.task_distribution_pinning": _NO_MANIFEST,
    "runtime.rubric_introspectable": "not applicable: the reward is not a tree of rubrics",
    "runtime.observation_schema": _NO_SERVER,
    "runtime.state_contract": _NO_SERVER,
    "runtime.trajectory_record": "not run: the gate keeps no log; every run has one",
    "runtime.reward_attribution": "not applicable: the reward is not a tree of rubrics",
    "runtime.seed_control": "not run: the start of a world does not depend on a seed",
    "runtime.network_policy": _SANDBOX,
    "runtime.host_containment": _SANDBOX,
    "runtime.resource_bounds": _SANDBOX,
    "runtime.episode_isolation": "not run by the gate: the world store is tested with Rehearsal",
    "runtime.oracle_containment": _NO_SERVER,
    "semantic.no_solution_leakage": "not run: results are not searched for solutions",
    "semantic.verifier_portability": "not run: the verifier runs on one machine",
    "semantic.resource_envelope": _NO_MANIFEST,
    "hub.layer_isolation": _NO_IMAGE,
    "hub.time_to_first_work": _NO_IMAGE,
    "hub.cosign_signature": _NO_IMAGE,
    "hub.cross_host_determinism": "not run: the gate compares processes of one machine",
    "hub.immutable_versioning": "not run: where the package is published decides it",
    "statistical.reward_reachability": _NO_MODEL,
    "statistical.difficulty_separation": _NO_MODEL,
    "statistical.headroom": _NO_MODEL,
    "statistical.variance_bound": _NO_MODEL,
    "statistical.training_signal": _NO_MODEL,
}
