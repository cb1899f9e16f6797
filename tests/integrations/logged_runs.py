"""Three hundred episodes of every policy that runs here, in several runs: what the official readers
of our exports are given.

    .venv/bin/python -m tests.integrations.logged_runs FOLDER

Each run is a folder in FOLDER, with its exports: `episodes.jsonl` (what the log has) and
`trajectories.jsonl`. The runs differ in policy, dialect, history, world, and in how episodes end.
"""

import json
import sys
from pathlib import Path
from subprocess import DEVNULL, run
from threading import Event, Thread

import anyio
import anyio.to_thread

from rehearsal_room.scenarios.catalogue import find
from tests.support.model_server import Completes, ModelServer, Status
from tests.support.paths import AWM
from tests.support.tiny_model import write_tokenizer

REHEARSE = str(Path(sys.executable).parent / "rehearse")
WORLDS = ("shop_support", "flight_desk", "claims_desk")
_stopped = Event()  # set when the model server is no longer needed
# Name, number of episodes, arguments of `rehearse run`.
RUNS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("oracle", 60, (*WORLDS, "-p", "oracle")),
    ("mutant", 54, (*WORLDS, "-p", "mutant", "--dialect", "hermes", "--history", "last:3")),
    ("random", 36, (*WORLDS, "-p", "random", "--dialect", "awm", "--max-steps", "12")),
    ("noop", 9, (*WORLDS, "-p", "noop")),
    ("retrieve", 18, (*WORLDS, "-p", "oracle", "--dialect", "awm-tool", "--history", "retrieve:2")),
    ("summary", 18, (*WORLDS, "-p", "oracle", "--history", "summary:3000")),
    ("budget", 18, (*WORLDS, "-p", "mutant", "--history", "tokens:5000")),
    ("tokens", 18, (*WORLDS, "-p", "oracle", "--dialect", "hermes", "--tokens", "TOKENS")),
    ("talk", 15, ("TALKS", "-p", "oracle")),
    ("awm", 9, ("AWM", "-p", "random", "--max-steps", "6")),
    ("scripted", 6, ("shop_support:gift-card-balance", "-p", "scripted", "--script", "SCRIPT")),
    ("replay", 15, ("shop_support", "-p", "replay", "--replay", "ORACLE")),
    ("fork", 12, ("--from", "ORACLE/e000000@2", "-p", "oracle")),
    ("openai", 12, ("shop_support", "-p", "openai", "-m", "m", "--base-url", "SERVER")),
)


def main(folder: Path) -> None:
    """Make the runs and their exports."""
    folder.mkdir(parents=True)
    write_tokenizer(folder / "tokens")
    _write_script(folder / "script.jsonl")
    with_server = Thread(target=lambda: anyio.run(_serve, folder))
    with_server.start()
    while not (folder / "server.txt").exists():
        with_server.join(0.05)
    try:
        for name, episodes, arguments in RUNS:
            _make(folder, name, episodes, arguments)
    finally:
        _stopped.set()
        with_server.join()


def _make(folder: Path, name: str, episodes: int, arguments: tuple[str, ...]) -> None:
    made = folder / name
    values = {
        "TOKENS": str(folder / "tokens"),
        "SCRIPT": str(folder / "script.jsonl"),
        "SERVER": (folder / "server.txt").read_text(),
    }
    words: list[str] = []
    for word in arguments:
        if word == "AWM":
            words += ["e_commerce_lab_1", "--awm", str(AWM)]
        elif word == "TALKS":
            words += _talks()
        else:
            words.append(values.get(word, word.replace("ORACLE", str(folder / "oracle"))))
    _rehearse("run", *words, "-n", str(episodes), "-o", str(made), status=(0, 1))
    _rehearse("export", str(made), "--to", "jsonl")
    _rehearse("export", str(made), "--to", "atif")


def _talks() -> list[str]:
    """The dialogues of the bundled worlds."""
    return [f"{name}:{task.id}" for name in WORLDS for task in find(name).tasks if task.is_dialogue]


def _rehearse(*words: str, status: tuple[int, ...] = (0,)) -> None:
    done = run([REHEARSE, *words], stdout=DEVNULL, capture_output=False, check=False)
    assert done.returncode in status, f"rehearse {' '.join(words)}: {done.returncode}"


def _write_script(path: Path) -> None:
    calls = [
        [{"name": "get_gift_card", "arguments": {"code": "LL-8H2P-57TC"}}],
        [{"name": "no_such_tool", "arguments": {}}],
        [{"name": "get_gift_card", "arguments": {"code": 7}}],
    ]
    lines = [
        {"scenario": "shop_support", "task": "gift-card-balance", "calls": one, "answer": "…"}
        for one in calls
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


async def _serve(folder: Path) -> None:
    """A model server that answers with calls, malformed calls, cut texts and refusals."""
    call = Completes("I look.", (("a", "get_ticket", '{"ticket_id": 3001}'),))
    bad = Completes(None, (("b", "get_ticket", '{"ticket_id": '),))
    cut = Completes("This text is", finish="length")
    thought = Completes("Done.", message={"reasoning_content": "I am done."})
    async with ModelServer(thought) as server:
        server.plan(*[call, bad, thought, call, call, cut, Status(400, "no")] * 4)
        (folder / "server.txt.part").write_text(server.url)
        (folder / "server.txt.part").rename(folder / "server.txt")
        await anyio.to_thread.run_sync(_stopped.wait)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
