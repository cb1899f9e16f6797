"""The BFCL's own runner and `rehearse eval bfcl_v3`, played by one fake model and compared."""

import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.judge.suites.scores import bfcl_groups
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.suites.bfcl.answers import reference_call
from rehearsal_room.scenarios.suites.bfcl.tools import tool_name
from rehearsal_room.scenarios.suites.bfcl_entries import (
    CATEGORIES,
    MULTI_TURN,
    BfclData,
    parsed_call,
)
from rehearsal_room.scenarios.suites.catalogue import suite
from rehearsal_room.scenarios.suites.entries import identifier
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags
from tests.suites.parity.behaviours import KNOWN, Entry, Message, behaviour_of, known_of, reply_of
from tests.suites.parity.fake_model import FakeModel
from tests.suites.parity.pretrained import Pretrained

_ADAPTER = Path(__file__).parents[3] / "envpool" / "objects" / "adapters" / "bfcl.py"
# By category, the entries that a pretrained model plays: 20 of several turns, 80 of one.
_REAL = {one: 5 if one in MULTI_TURN else 6 + (one in CATEGORIES[-2:]) for one in CATEGORIES}
_MORE = "I have updated some more functions you can choose from. What about now?"


class Played(NamedTuple):
    """What one side made of an entry."""

    valid: bool
    texts: list[str]  # what the calls returned
    state: dict[str, str | None]  # records that differ from the start


class Side(NamedTuple):
    """What one side made of all entries."""

    played: dict[str, Played]
    scores: dict[str, float]  # by category
    overall: float | None


class Difference(NamedTuple):
    """Where the two sides differ."""

    entry: str
    behaviour: str
    what: str  # verdict, requests, texts or state
    upstream: str
    ours: str


class Chosen:
    """The entries of a comparison, and the replies that they get."""

    def __init__(
        self,
        data: BfclData,
        share: float,
        seed: int,
        behaviour: str,
        model: Pretrained | None = None,
    ) -> None:
        """`behaviour`: that of all entries; `known`: one of `KNOWN` for each; empty: one is drawn
        for each. `model`: it replies in place of the behaviours, to `_REAL` entries."""
        self._seed, self._behaviour, self._model = seed, behaviour, model
        self.ids: dict[str, list[str]] = {}
        self.entries: dict[str, Entry] = {}
        # By category and first messages: id, and the texts of later turns.
        self._known: dict[str, list[tuple[str, list[dict[str, str]], list[str]]]] = {}
        for category in CATEGORIES:
            raw = list(data._entries(f"BFCL_v4_{category}.json"))
            made = list(_entries(data, category, raw))
            count = max(1, round(share * len(raw))) if model is None else _REAL[category]
            kept = _drawn(range(len(raw)), count, Random(f"{seed} {category}"))
            self.ids[category] = [raw[number]["id"] for number in kept]
            for number in kept:
                self.entries[raw[number]["id"]] = made[number]
                key = _key(_group(category), raw[number]["question"][0], made[number].functions)
                later = [
                    turn[0]["content"] if turn else _MORE for turn in raw[number]["question"][1:]
                ]
                known = self._known.setdefault(key, [])
                known.append((raw[number]["id"], raw[number]["question"][0], later))

    def behaviour(self, entry: str) -> str:
        """What the model does with an entry."""
        if self._model is not None:
            return "pretrained"
        if self._behaviour == "known":
            return known_of(entry, self._seed)
        return self._behaviour or behaviour_of(entry, self._seed)

    def answer(self, category: str, body: dict[str, Any]) -> tuple[str, Message] | None:
        """The entry of a talk and the reply to it (see FakeModel)."""
        messages = body["messages"]
        names = [tool["function"]["name"] for tool in body.get("tools", ())]
        for length in range(1, len(messages) + 1):
            key = _key(_group(category), messages[:length], names)
            for id, _, later in self._known.get(key, ()):
                texts = [one["content"] for one in messages[length:] if one["role"] == "user"]
                if texts == later[: len(texts)]:
                    if self._model is not None:
                        return id, self._model.reply(body)
                    step = 0
                    for one in messages[length:]:
                        step = 0 if one["role"] == "user" else step + (one["role"] == "assistant")
                    reply = reply_of(
                        self.entries[id], len(texts), step, self.behaviour(id), self._seed
                    )
                    return id, reply
        return None


def _key(group: str, messages: list[dict[str, Any]], names: Iterable[str]) -> str:
    """By what an entry is known. Functions of several turns come with their turn."""
    found = [group, messages, [] if group in MULTI_TURN else sorted(names)]
    return json.dumps(found, sort_keys=True)


def _drawn(numbers: Sequence[int], count: int, rng: Random) -> list[int]:
    return sorted(rng.sample(numbers, count))


def _entries(data: BfclData, category: str, raw: list[dict[str, Any]]) -> Iterator[Entry]:
    """The entries of a category as the fake model knows them."""
    answers = data._answers(category)
    turns = [_turns(data, category, one, answers.get(one["id"])) for one in raw]
    for number, one in enumerate(raw):
        others = turns[(number + 1) % len(turns)]
        if category in MULTI_TURN:
            functions = data.docs(one["involved_classes"])
        else:
            functions = {tool_name(each["name"]): each for each in one["function"]}
        withheld = [name for names in one.get("missed_function", {}).values() for name in names]
        is_single = category not in MULTI_TURN
        yield Entry(one["id"], turns[number], others, functions, tuple(withheld), is_single)


def _turns(data: BfclData, category: str, entry: dict[str, Any], truth: Any) -> list[list[Call]]:
    if category in MULTI_TURN:
        docs = data.docs(entry["involved_classes"])
        return [[parsed_call(text, docs) for text in turn] for turn in truth]
    if category.endswith("relevance"):
        wanted = [] if category.endswith("irrelevance") else entry["function"][:1]
        return [[Call(tool_name(one["name"]), {}) for one in wanted]]
    return [[reference_call(category, entry["function"], answer) for answer in truth]]


def compare(
    python: str,
    runner: str,
    *,
    share: float,
    seed: int,
    behaviour: str = "",
    model_url: str = "",
) -> int:
    """Play both sides and print what differs; returns how many entries differ.

    `python` has the data and checks of the suite, `runner` what upstream's own runner needs.
    `model_url`: the server of a pretrained model that is called "m" there.
    """
    data = suite("bfcl_v3").open(SuiteFlags(python=python))
    assert isinstance(data, BfclData)
    real = Pretrained(model_url, "m") if model_url else None
    chosen = Chosen(data, share, seed, behaviour, real)
    with FakeModel(chosen.answer).served() as model, ThreadPoolExecutor(2) as sides:
        at_once = 1 if model_url else 8
        asked = sides.submit(_upstream, runner, model.url, chosen.ids, at_once)
        ours = _ours(python, model.url, chosen.ids, at_once)
        upstream = asked.result()
    found = list(_differences(chosen, model, upstream, ours))
    _print(chosen, model, upstream, ours, found)
    different = {one.entry for one in found if one.behaviour not in KNOWN}
    return len(different) + len(model.strange)


def _upstream(python: str, url: str, entries: Mapping[str, list[str]], at_once: int) -> Side:
    with tempfile.TemporaryDirectory() as folder:
        asked = {"url": url, "folder": folder, "entries": entries, "adapter": str(_ADAPTER)}
        asked["threads"] = at_once
        done = subprocess.run(
            [python, str(Path(__file__).with_name("upstream_bfcl.py"))],
            input=json.dumps(asked) + "\n",
            text=True,
            capture_output=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"upstream's runner failed:\n{done.stderr[-4000:]}")
    *lines, last = map(json.loads, done.stdout.splitlines())
    played = {one["id"]: Played(one["valid"], one["texts"], one.get("state", {})) for one in lines}
    return Side(played, last["scores"], last["overall"])


def _ours(python: str, url: str, entries: Mapping[str, list[str]], at_once: int) -> Side:
    played: dict[str, Played] = {}
    scores: dict[str, float] = {}
    groups: dict[str, list[str]] = defaultdict(list)
    for category, ids in entries.items():
        groups[_group(category)] += ids
    with tempfile.TemporaryDirectory() as name:
        for group, ids in groups.items():
            run, report = Path(name) / group, Path(name) / f"{group}.json"
            chosen = [word for id in ids for word in ("--task", id)]
            command = [sys.executable, "-m", "rehearsal_room", "eval", "bfcl_v3", *chosen]
            command += ["--suite-python", python, "-m", "parity"]
            command += ["-c", str(at_once), "--no-preflight"]
            if at_once == 1:  # a pretrained model is slow
                command += ["--request-timeout", "600", "--reply-timeout", "900"]
            command += ["--base-url", f"{url}/ours/{group}/v1", "-p", "openai"]
            command += ["-o", str(run), "--json", str(report)]
            done = subprocess.run(command, text=True, capture_output=True, check=False)
            if done.returncode:
                raise SystemExit(f"rehearse eval failed:\n{done.stderr[-4000:]}")
            scores |= json.loads(report.read_text())["scores"]
            played |= _read(run, ids)
    return Side(played, scores, None)


def _group(category: str) -> str:
    """The run of `rehearse eval` that plays a category. In one run, entries that begin alike and
    have the same functions get the same reply."""
    return category if category in MULTI_TURN else "single_turn"


def _read(run: Path, ids: Sequence[str]) -> Iterator[tuple[str, Played]]:
    names = {identifier(id): id for id in ids}
    with open_reader(run) as reader:
        labels = {row.episode: row.label for row in reader.episodes()}
        for trajectory in reader.trajectories():
            before: dict[str, str | None] = {}
            after: dict[str, str | None] = {}
            texts = []
            for step in trajectory.steps:
                for result in step.executed_results:
                    texts.append(result.text)
                    for change in result.changes:
                        kind, key = change.key
                        name = f"{kind} {key}"
                        before.setdefault(name, change.before and str(change.before["value"]))
                        after[name] = change.after and str(change.after["value"])
            state = {name: value for name, value in after.items() if value != before[name]}
            valid = labels[trajectory.episode] is Label.COMPLETED
            yield names[trajectory.started.scenario], Played(valid, texts, state)


def _differences(
    chosen: Chosen, model: FakeModel, upstream: Side, ours: Side
) -> Iterator[Difference]:
    for id, theirs in upstream.played.items():
        own = ours.played[id]
        kind = chosen.behaviour(id)
        if theirs.valid != own.valid:
            yield Difference(id, kind, "verdict", str(theirs.valid), str(own.valid))
        if not id.startswith("multi_turn"):
            continue
        if theirs.texts != own.texts:
            one, two = _first_unlike(theirs.texts, own.texts)
            yield Difference(id, kind, "texts", one, two)
        if theirs.state != own.state:
            one, two = _first_unlike(sorted(theirs.state.items()), sorted(own.state.items()))
            yield Difference(id, kind, "state", one, two)
    for id in chosen.entries:
        one, two = model.bodies["upstream"][id], model.bodies["ours"][id]
        if one != two:
            left, right = list(one - two), list(two - one)
            texts = (
                _first_unlike_body(model, left[0], right[0])
                if left and right
                else (f"{one.total()} requests", f"{two.total()} requests")
            )
            yield Difference(id, chosen.behaviour(id), "requests", *texts)


def _first_unlike(one: Sequence[Any], two: Sequence[Any]) -> tuple[str, str]:
    for left, right in zip(one, two, strict=False):
        if left != right:
            return str(left)[:300], str(right)[:300]
    return f"{len(one)}: {one[len(two) :][:1]}"[:300], f"{len(two)}: {two[len(one) :][:1]}"[:300]


def _first_unlike_body(model: FakeModel, left: str, right: str) -> tuple[str, str]:
    one, two = model.body(left), model.body(right)
    for name in sorted(one.keys() | two.keys()):
        if (mine := one.get(name)) != (other := two.get(name)):
            if isinstance(mine, list) and isinstance(other, list):
                return _first_unlike(mine, other)
            return f"{name}: {mine}"[:300], f"{name}: {other}"[:300]
    return "", ""


def _print(
    chosen: Chosen, model: FakeModel, upstream: Side, ours: Side, found: Sequence[Difference]
) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for id in chosen.entries:
        kind = chosen.behaviour(id)
        counts[kind]["entries"] += 1
        counts[kind]["right"] += upstream.played[id].valid
    for one in found:
        counts[one.behaviour][one.what] += 1
    _say(
        f"{'behaviour':<34}{'entries':>8}{'right':>7}{'verdict':>9}{'requests':>9}{'texts':>7}{'state':>7}"
    )
    for kind, row in sorted(counts.items()):
        _say(
            f"{kind:<34}{row['entries']:>8}{row['right']:>7}{row['verdict']:>9}"
            f"{row['requests']:>9}{row['texts']:>7}{row['state']:>7}"
        )
    _print_scores(chosen, upstream, ours)
    for one in found[:40]:
        _say(f"{one.entry}, {one.behaviour}: {one.what}")
        _say(f"  upstream: {one.upstream}\n  ours:     {one.ours}")
    for text in model.strange[:5]:
        _say(f"a request that belongs to no entry: {text}")
    requests = [
        sum(one.total() for one in model.bodies[side].values()) for side in ("upstream", "ours")
    ]
    _say(
        f"{len(chosen.entries)} entries, {requests[0]} and {requests[1]} requests: "
        f"{len({one.entry for one in found})} entries differ"
    )


def _print_scores(chosen: Chosen, upstream: Side, ours: Side) -> None:
    """The scores by category, where no behaviour is known to differ."""
    for category, share in upstream.scores.items():
        is_known = any(chosen.behaviour(id) in KNOWN for id in chosen.ids[category])
        own = ours.scores.get(category)
        if not is_known and own != share:
            _say(f"score of {category}: upstream {share}, ours {own}")
    if upstream.overall is not None:
        sizes = {category: len(ids) for category, ids in chosen.ids.items()}
        groups = bfcl_groups(upstream.scores, sizes)
        overall = sum(groups[name] for name in ("non_live", "live", "multi_turn")) / 3
        _say(f"overall by upstream's functions {upstream.overall:.6f}, by ours {overall:.6f}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
