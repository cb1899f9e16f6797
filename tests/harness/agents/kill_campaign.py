"""Kills agents, rollout processes and the run itself with SIGKILL at random moments, resumes, and
counts what was lost or doubled.

    python -m tests.harness.agents.kill_campaign 100 [SEED]

In each round one process dies while command agents play: an agent, a rollout process (each has the
URLs of its episodes), or the whole run. Then the run is resumed. Afterwards every planned episode
has ended exactly once in its latest attempt, with one verdict; each that no agent's death ended is
completed, with the calls of the plan and none twice; no process of an agent is left.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.reader import open_reader
from tests.support.paths import LIBRARY

HERE = Path(__file__).parent
EPISODES = 12
_BECOMES_S = 0.2
_REHEARSE = (sys.executable, "-m", "rehearsal_room")


def agents_below(pid: int) -> list[psutil.Process]:
    """The processes of agents that a run has started."""
    try:
        below = psutil.Process(pid).children(recursive=True)
        return [one for one in below if any("loop.py" in word for word in one.cmdline())]
    except psutil.Error:
        return []


def command(folder: Path, *, processes: int, resume: bool) -> list[str]:
    """The command of a round."""
    agent = f"{sys.executable} {HERE / 'loop.py'}"
    words = ("run", LIBRARY, "-p", "oracle", "--agent", agent, "-n", EPISODES, "-g", 4, "-c", 4)
    more = ("--processes", processes, "-o", folder, *(("--resume",) if resume else ()))
    return [*_REHEARSE, *map(str, (*words, *more))]


def kill_one(run: subprocess.Popen[bytes], target: str) -> bool:
    """Kill one process of the run; False: there is none of this kind."""
    below = agents_below(run.pid)
    if target == "agent":
        victims = below
    elif target == "process":
        # What was forked a moment ago may be an agent that has not begun to be its program.
        ours = psutil.Process(run.pid).children(recursive=True)
        old = [one for one in ours if time.time() - one.create_time() > _BECOMES_S]
        victims = [one for one in old if "rehearsal_room" in " ".join(one.cmdline())]
    else:
        victims = [psutil.Process(run.pid)]
    if not victims:
        return False
    random.choice(victims).send_signal(signal.SIGKILL)
    return True


def play_round(folder: Path, target: str, after: float) -> str:
    """Play a run, kill one process after these seconds, and resume it; return what is wrong
    (empty: nothing), or `missed`."""
    processes = 2 if target == "process" else 1
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = subprocess.Popen(command(folder, processes=processes, resume=False), **quiet)  # type: ignore[call-overload]
    deadline = time.monotonic() + 60
    while not agents_below(run.pid) and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(after)
    try:
        was_killed = run.poll() is None and kill_one(run, target)
    except psutil.Error:
        was_killed = False
    run.wait()
    subprocess.run(command(folder, processes=processes, resume=True), check=False, **quiet)  # type: ignore[call-overload]
    return fault_of(folder, target) if was_killed else "missed"


def fault_of(folder: Path, target: str) -> str:
    """What was lost or doubled; empty: nothing."""
    with open_reader(folder) as reader:
        episodes = [reader.trajectory(row.episode) for row in reader.episodes()]
    if len(episodes) != EPISODES:
        return f"{len(episodes)} episodes"
    failed = 0
    for one in episodes:
        if one.ended is None or len(one.judged) != 1:
            return f"{one.episode}: {one.ended}, {len(one.judged)} verdicts"
        if one.ended.ending is Ending.AGENT_FAILED and _was_killed(one.ended.error or ""):
            failed += 1
        elif one.judged[0].label is not Label.COMPLETED:
            return f"{one.episode}: {one.ended.ending} {one.ended.error}"
    if failed > (target == "agent"):
        return f"{failed} agents failed"
    left = [one for one in psutil.process_iter(["cmdline"]) if "loop.py" in str(one.info)]
    mine = [one for one in left if str(HERE) in str(one.info["cmdline"])]
    return f"{len(mine)} processes of agents are left" if mine else ""


def _was_killed(error: str) -> bool:
    """Whether an agent's error says that it was killed; 137 is the shell's status for it."""
    return "SIGKILL" in error or "status 137" in error


def main() -> None:
    """Play the rounds; the exit status is 1 when something was lost or doubled."""
    rounds, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    random.seed(seed)
    faults = missed = 0
    for number in range(rounds):
        target, after = random.choice(("agent", "process", "run")), random.uniform(0, 1.5)
        with tempfile.TemporaryDirectory() as folder:
            fault = play_round(Path(folder) / "run", target, after)
        missed += fault == "missed"
        if fault not in ("", "missed"):
            faults += 1
        sys.stdout.write(f"{number} {target} after {after:.2f} s: {fault or 'nothing lost'}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{rounds} rounds, {missed} came too late, {faults} faults\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
