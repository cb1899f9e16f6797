"""Changed run folders of a stranger: no command runs, no key is sent, no file changes outside."""

from pathlib import Path
from random import Random

import pytest

from tests.fuzz.strangers import Lair, changed_run, command_on
from tests.support.budgets import IS_LONG, repeats
from tests.support.cli import Rehearse
from tests.support.strangers import KEY, begun_by_another, listener, tell_tale_package

INPUTS = repeats(short=12, long=1_000)


@pytest.mark.timeout(3600 if IS_LONG else 120)
def test_a_strangers_files_do_nothing(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the inputs ends with a status and at most one sentence; nothing ran, no server heard
    of a key, and the files of the user are as they were."""
    trace, done = tmp_path / "trace", tmp_path / "done"
    package = tell_tale_package(tmp_path / "ledger", trace)
    assert rehearse("run", package, "-p", "oracle", "-n", 2, "-o", done)[0] == 0
    trace.unlink()
    begun_by_another(monkeypatch, tmp_path)
    for name in ("OPENAI_API_KEY", "VLLM_API_KEY", "REHEARSE_TOKEN", "REHEARSE_MQTT_PASSWORD"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("REHEARSE_MQTT_USER", "user")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {trace}\n")
    program.chmod(0o755)
    faults = []
    with listener() as (url, heard):
        for number in range(INPUTS):
            rng, folder = Random(f"stranger {number}"), tmp_path / f"input-{number}"
            folder.mkdir()
            lair = Lair(folder, url, program, package)
            run = changed_run(done, folder, lair, rng)
            words = command_on(run, folder, lair, rng)
            status, out, err = rehearse(*words)
            fault = [
                f"status {status}" if status not in (0, 1, 2, 3) else "",
                "a traceback" if "Traceback (most recent" in out + err else "",
                "something ran" if trace.exists() else "",
                f"a server heard {heard}" if heard else "",
                "" if lair.is_untouched() else "a file of the user was changed",
            ]
            if any(fault):
                faults.append((number, *map(str, words), *filter(None, fault), err[-300:]))
            trace.unlink(missing_ok=True)
            heard.clear()
    assert faults == []
