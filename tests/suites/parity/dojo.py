"""AgentDojo's own runner and `rehearse eval agentdojo`, played by one fake model and compared."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rehearsal_room.harness.core.events import Ending, Judged, Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.format import Call, Scenario
from rehearsal_room.scenarios.suites.agentdojo import ATTACKS, GOALS, SUITES, AgentDojoData
from rehearsal_room.scenarios.suites.catalogue import suite
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags
from tests.suites.parity.behaviours import (
    BEHAVIOURS,
    KNOWN,
    Behaviours,
    Entry,
    Message,
    Plan,
    drawn,
    first,
    look,
    malformed,
    message,
    reply_of,
    says,
)
from tests.suites.parity.fake_model import FakeModel

MODEL = "gpt-4o-mini-2024-07-18"  # a name that the package's attacks know
_ADAPTER = Path(__file__).parents[3] / "envpool" / "objects" / "adapters" / "dojo.py"
_REPLIES = 16  # of an attempt
# The worlds take the time of what they write from the clock, with its microseconds.
_NOW = re.compile(r"20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{6}")
_RUN = 1_000  # entries of one `rehearse eval`, which keeps the start of each world


_FULL = {
    "message": "This model's maximum context length is 8192 tokens.",
    "type": "invalid_request_error",
    "code": "context_length_exceeded",
}


class Played(NamedTuple):
    """What one side made of an entry."""

    utility: bool | None  # None: upstream's runner ended with an exception
    obeyed: bool | None  # whether the attack succeeded; None: there was none, or as above
    texts: list[str]  # what the calls returned
    state: dict[str, str | None]  # records that differ from the start
    crash: str = ""  # the exception
    completed: bool = False  # our verdict


class Difference(NamedTuple):
    """Where the two sides differ."""

    entry: str
    behaviour: str
    what: str  # utility, security, requests, texts or state
    upstream: str
    ours: str


def _calls(entry: Entry) -> list[Call]:
    return entry.turns[0]


def _goal(entry: Entry) -> list[Call]:
    """The calls that the attacker wants; those of another entry where there is no attack."""
    return entry.others[0]


def _as_text(calls: Sequence[Call], write: Any) -> list[Call]:
    """The calls with lists written as texts."""
    made = []
    for one in calls:
        written = {k: write(v) if isinstance(v, list) else v for k, v in one.arguments.items()}
        made.append(Call(one.name, written))
    return made


def _for_ever(text: str | None, attempts: int = 1) -> Any:
    """A call for ever, with these words beside it."""
    return lambda entry, rng: [repeat(message([look(entry)], text), 30)] * attempts


def _at_limit(entry: Entry, rng: Random) -> Plan:
    """All calls come in the reply whose calls are not made any more."""
    return [
        chain(repeat(message([look(entry)]), _REPLIES - 1), [message(_calls(entry), entry.answer)])
    ]


_MORE: Behaviours = {
    "obeys the attacker": lambda entry, rng: [[message(_goal(entry)), message(_calls(entry))]],
    "obeys the attacker in the end": lambda entry, rng: [
        [message(_calls(entry)), message(_goal(entry))]
    ],
    "obeys in one reply": lambda entry, rng: [[message([*_calls(entry), *_goal(entry)])]],
    "is silent for ever": lambda entry, rng: [[{"content": None}]] * 3,
    "is silent, then right": lambda entry, rng: [[{"content": None}], [message(_calls(entry))]],
    "is silent after its calls": lambda entry, rng: [[message(_calls(entry)), {"content": None}]],
    "does it again in each attempt": lambda entry, rng: (
        [[message(_calls(entry)), {"content": None}]] * 3
    ),
    "obeys, then is silent": lambda entry, rng: [
        [message(_goal(entry)), {"content": None}],
        [message(_calls(entry))],
    ],
    "repeats itself for ever": _for_ever(None, attempts=3),
    "repeats itself and talks": _for_ever("Again."),
    "is right at the limit": _at_limit,
    "writes lists as texts": lambda entry, rng: [[message(_as_text(_calls(entry), str))]],
    "writes lists as JSON": lambda entry, rng: [[message(_as_text(_calls(entry), json.dumps))]],
    "says the answer beside its last call": lambda entry, rng: [
        [message(_calls(entry), entry.answer), {"content": "Bye."}]
    ],
    "says all that it could know": lambda entry, rng: [
        [{"content": f"{entry.answer} {[*_calls(entry), *_goal(entry)]} Done. Yes. No."}]
    ],
    "gives the answer alone": lambda entry, rng: [[{"content": entry.answer}]],
    "calls by an empty name": lambda entry, rng: first(entry, [Call("", {})]),
    "thinks in a field of its own": lambda entry, rng: [
        [
            {**message(_calls(entry), "So."), "reasoning_content": "hm"},
            {"content": entry.answer, "reasoning_content": "hm"},
        ]
    ],
    "refuses in a field of its own": says(None, refusal="I will not."),
    "sends an argument that is not a text": malformed('{"a": {"function": 1}}'),
    "repeats its ids": lambda entry, rng: [[message([one]) for one in _calls(entry)]],
    "makes up a name with a space": KNOWN["makes up a name with a space"],
}
_CRASHES = ("sends half of its arguments", "sends a list of arguments")
DOJO: Behaviours = {n: one for n, one in {**BEHAVIOURS, **_MORE}.items() if n not in _CRASHES}
# Behaviours with which the two sides differ, most of them because upstream's runner ends with an
# exception: the rows of the table in docs/suites/agentdojo.md.
DOJO_KNOWN: Behaviours = {
    **{name: BEHAVIOURS[name] for name in _CRASHES},
    **{
        name: KNOWN[name]
        for name in (
            "crashes",
            "sends no text of arguments",
            "sends what JSON does not have",
            "sends a number of thirty digits",
        )
    },
    "writes what Python cannot read": lambda entry, rng: first(
        entry, [Call(look(entry).name, {"text": "[{[1]: 2}]"})]
    ),
    "puts a blank before a name": lambda entry, rng: first(
        entry, [Call(f" {look(entry).name}", {})]
    ),
    "runs out of context": lambda entry, rng: [[message(_calls(entry)), {"error": _FULL}]],
    "breaks a check": lambda entry, rng: first(entry, [Call("invite_user_to_slack", {})]),
}
BEHAVIOURS_AND_KNOWN: Behaviours = {**DOJO, **DOJO_KNOWN}


class Chosen:
    """The entries of a comparison, and the replies that they get."""

    def __init__(
        self,
        data: AgentDojoData,
        tools: Mapping[str, Mapping[str, Any]],
        *,
        share: float,
        seed: int,
        behaviour: str,
        categories: Sequence[str] = (),
    ) -> None:
        """`behaviour`: that of all entries; `known`: one of `DOJO_KNOWN` for each; empty: one is
        drawn for each."""
        self._seed, self._behaviour = seed, behaviour
        self.worlds: dict[str, dict[str, Any]] = {}
        self.entries: dict[str, Entry] = {}
        self._prompts: dict[str, str] = {}
        # By side and entry: how many attempts began.
        self._begun: Counter[tuple[str, str]] = Counter()
        goals = {
            (one.suite.world["suite"], one.suite.world["task"]): one.tasks[0].oracle
            for category in GOALS
            for one in data.scenarios(category)
            if one.suite is not None
        }
        attacks = [f"{attack}_{name}" for attack in ATTACKS for name in SUITES]
        for category in categories or (*SUITES, *GOALS, *attacks):
            found = data.scenarios(category)
            rng = Random(f"{seed} {category}")
            most = len(found) if share >= 1 else max(1, round(share * len(found)))
            for one in sorted(rng.sample(found, most), key=lambda one: one.name):
                self._add(one, found, goals, tools)

    def _add(
        self,
        one: Scenario,
        all: Sequence[Scenario],
        goals: Mapping[tuple[str, str], Sequence[Call]],
        tools: Mapping[str, Mapping[str, Any]],
    ) -> None:
        assert one.suite is not None
        task, world = one.tasks[0], one.suite.world
        other = all[(all.index(one) + 1) % len(all)].tasks[0].oracle
        wanted = goals[world["suite"], world["injection"]] if world["attack"] else other
        self.worlds[one.name] = world
        self._prompts[one.name] = task.instruction
        self.entries[one.name] = Entry(
            one.name,
            [list(task.oracle)],
            [list(wanted)],
            tools[world["suite"]],
            answer=task.answer or "Done.",
        )

    def behaviour(self, entry: str) -> str:
        """What the model does with an entry."""
        if self._behaviour == "known":
            return drawn(list(DOJO_KNOWN), entry, self._seed)
        return self._behaviour or drawn(list(DOJO), entry, self._seed)

    def answer(self, id: str, body: dict[str, Any]) -> tuple[str, Message] | None:
        """The entry of a talk and the reply to it (see FakeModel)."""
        side = "ours" if "user" in body else "upstream"
        id = body.get("user", id)
        if id not in self.entries:
            return None
        messages = body["messages"]
        if messages[1]["content"] != [{"type": "text", "text": self._prompts[id]}]:
            return f"goal of {id}", {"content": "Done."}
        step = sum(one["role"] == "assistant" for one in messages)
        self._begun[side, id] += step == 0
        attempt = self._begun[side, id] - 1
        kind = self.behaviour(id)
        return id, reply_of(self.entries[id], attempt, step, kind, self._seed, BEHAVIOURS_AND_KNOWN)


def compare(
    python: str, *, share: float, seed: int, behaviour: str = "", categories: Sequence[str] = ()
) -> int:
    """Play both sides and print what differs; returns how many entries differ."""
    data = suite("agentdojo").open(SuiteFlags(python=python, model=MODEL))
    assert isinstance(data, AgentDojoData)
    runner = subprocess.Popen(
        [python, str(Path(__file__).with_name("upstream_agentdojo.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},  # worlds have sets, whose order is compared
    )
    assert runner.stdout is not None
    with runner:
        tools = json.loads(runner.stdout.readline() or "{}")
        if not tools:
            raise SystemExit("upstream's runner failed")
        chosen = Chosen(
            data, tools, share=share, seed=seed, behaviour=behaviour, categories=categories
        )
        model = FakeModel(chosen.answer, canonical=_sent)
        with (
            model.served(),
            ThreadPoolExecutor(2) as sides,
            tempfile.TemporaryDirectory(prefix="rehearse-parity-") as folder,
        ):
            asked = sides.submit(_upstream, runner, model.url, chosen, folder)
            ours = _ours(python, model.url, chosen, Path(folder))
            upstream = asked.result()
    found = list(_differences(chosen, model, upstream, ours))
    _print(chosen, model, upstream, found)
    different = {one.entry for one in found if one.behaviour not in DOJO_KNOWN}
    return len(different) + len(model.strange)


def _sent(body: dict[str, Any]) -> dict[str, Any]:
    """A body as it is compared: without the name of the entry and the clock's time."""
    return _timeless({name: value for name, value in body.items() if name != "user"})


def _timeless(value: Any) -> Any:
    """A value in which the clock's time is the word NOW."""
    return json.loads(_NOW.sub("NOW", json.dumps(value)))


def _upstream(
    runner: subprocess.Popen[str], url: str, chosen: Chosen, folder: str
) -> dict[str, Played]:
    entries = [{"id": id, **world} for id, world in chosen.worlds.items()]
    asked = {"url": url, "model": MODEL, "folder": folder, "adapter": str(_ADAPTER)}
    assert runner.stdin is not None
    assert runner.stdout is not None
    runner.stdin.write(json.dumps({**asked, "entries": entries}) + "\n")
    runner.stdin.flush()
    played = {}
    for line in runner.stdout:
        one = json.loads(line)
        is_attack = bool(chosen.worlds[one["id"]]["attack"])
        obeyed = one["security"] if is_attack else None
        texts, state = _timeless((one["texts"], one["state"]))
        played[one["id"]] = Played(one["utility"], obeyed, texts, state, one["crash"])
    if len(played) < len(entries):
        raise SystemExit(f"upstream's runner ended after {len(played)} entries")
    return played


def _ours(python: str, url: str, chosen: Chosen, folder: Path) -> dict[str, Played]:
    played: dict[str, Played] = {}
    names = list(chosen.entries)
    for start in range(0, len(names), _RUN):
        ids, run = names[start : start + _RUN], folder / f"run-{start}"
        command = [sys.executable, "-m", "tests.suites.parity.marked_eval", "eval", "agentdojo"]
        command += [word for id in ids for word in ("--task", id)]
        command += ["--suite-python", python, "-p", "openai", "-m", MODEL, "-c", "8"]
        command += ["--base-url", f"{url}/ours/any/v1", "--no-preflight", "-o", str(run)]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(f"rehearse eval failed:\n{done.stderr[-4000:]}")
        played |= _read(run)
    return played


def _read(run: Path) -> Iterator[tuple[str, Played]]:
    with open_reader(run) as reader:
        verdicts = {
            record.episode: record.event
            for record in reader.milestones()
            if isinstance(record.event, Judged)
        }
        for trajectory in reader.trajectories():
            before: dict[str, str | None] = {}
            after: dict[str, str | None] = {}
            texts = []
            for step in trajectory.steps:
                for result in step.executed_results:
                    texts.append(result.text)
                    for change in result.changes:
                        name = " ".join(map(str, change.key))
                        before.setdefault(name, change.before and str(change.before["value"]))
                        after[name] = change.after and str(change.after["value"])
            state = {name: value for name, value in after.items() if value != before[name]}
            verdict = verdicts[trajectory.episode]
            met = {one.name: one.passed for one in verdict.findings}
            obeyed = not met["attack resisted"] if "attack resisted" in met else None
            completed = verdict.label is Label.COMPLETED
            texts, state = _timeless((texts, state))
            ended = trajectory.ended
            has_answered = ended is not None and ended.ending is Ending.ANSWERED
            utility = met.get("utility", False) and has_answered  # as scores count it
            played = Played(utility, obeyed, texts, state, completed=completed)
            yield trajectory.started.scenario, played


def _differences(
    chosen: Chosen,
    model: FakeModel,
    upstream: Mapping[str, Played],
    ours: Mapping[str, Played],
) -> Iterator[Difference]:
    for id, theirs in upstream.items():
        own, kind = ours[id], chosen.behaviour(id)
        if theirs.crash:
            yield Difference(id, kind, "crash", theirs.crash, f"completed: {own.completed}")
            continue
        completed = theirs.utility and not theirs.obeyed
        pairs: Iterable[tuple[str, Any, Any]] = (
            ("utility", theirs.utility, own.utility),
            ("security", theirs.obeyed, own.obeyed),
            ("verdict", completed, own.completed),
        )
        for what, one, two in pairs:
            if one != two:
                yield Difference(id, kind, what, str(one), str(two))
        if theirs.texts != own.texts:
            yield Difference(id, kind, "texts", *_first_unlike(theirs.texts, own.texts))
        if theirs.state != own.state:
            states = sorted(theirs.state.items()), sorted(own.state.items())
            yield Difference(id, kind, "state", *_first_unlike(*states))
        sent, mine = model.bodies["upstream"][id], model.bodies["ours"][id]
        if sent != mine:
            left, right = list(sent - mine), list(mine - sent)
            counts = (f"{sent.total()} requests", f"{mine.total()} requests")
            bodies = (model.body(left[0]), model.body(right[0])) if left and right else None
            yield Difference(id, kind, "requests", *(_unlike(*bodies) if bodies else counts))


def _unlike(one: dict[str, Any], two: dict[str, Any]) -> tuple[str, str]:
    for name in sorted(one.keys() | two.keys()):
        if (mine := one.get(name)) != (other := two.get(name)):
            if isinstance(mine, list) and isinstance(other, list):
                return _first_unlike(mine, other)
            return f"{name}: {mine}"[:300], f"{name}: {other}"[:300]
    return "", ""


def _first_unlike(one: Sequence[Any], two: Sequence[Any]) -> tuple[str, str]:
    for left, right in zip(one, two, strict=False):
        if left != right:
            return str(left)[:400], str(right)[:400]
    return f"{len(one)}: {one[len(two) :][:1]}"[:400], f"{len(two)}: {two[len(one) :][:1]}"[:400]


_KINDS = ("utility", "security", "verdict", "requests", "texts", "state", "crash")


def _print(
    chosen: Chosen,
    model: FakeModel,
    upstream: Mapping[str, Played],
    found: Sequence[Difference],
) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for id, played in upstream.items():
        row = counts[chosen.behaviour(id)]
        row.update(entries=1, right=bool(played.utility), obeyed=bool(played.obeyed))
    for one in found:
        counts[one.behaviour][one.what] += 1
    columns = ("entries", "right", "obeyed", *_KINDS)
    _say(f"{'behaviour':<38}" + "".join(f"{name:>9}" for name in columns))
    for kind, row in sorted(counts.items()):
        _say(f"{kind:<38}" + "".join(f"{row[name]:>9}" for name in columns))
    for one in found[:40]:
        _say(f"{one.entry}, {one.behaviour}: {one.what}")
        _say(f"  upstream: {one.upstream}\n  ours:     {one.ours}")
    for text in model.strange[:5]:
        _say(f"a request that belongs to no entry: {text}")
    sent = [
        sum(model.bodies[side][id].total() for id in chosen.entries)
        for side in ("upstream", "ours")
    ]
    _say(
        f"{len(chosen.entries)} entries, {sent[0]} and {sent[1]} requests: "
        f"{len({one.entry for one in found})} entries differ"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
