"""Saved runs, with which `no_worse_than` compares: `pytest --rehearse-save NAME` copies the run of
each marked test to FOLDER/NAME/TEST."""

import shutil
from pathlib import Path
from urllib.parse import quote

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.schema import LOG_NAME


class Baselines:
    """The saved runs of a project. `root` is pytest's, `folder` lies in it unless it is
    absolute."""

    def __init__(self, root: Path, folder: str) -> None:
        self._root = root
        self._folder = root / folder

    def find(self, name: str, test: str) -> Path:
        """The run folder of this name; else the run of this test that is saved under it. Raises
        SettingsError."""
        run, saved = self._root / name, self._place(name, test)
        for found in (run, saved):
            if (found / LOG_NAME).is_file():
                return found
        raise SettingsError(
            f"no_worse_than={name!r}: neither {run} nor {saved} is the folder of a run;"
            f" `pytest --rehearse-save {name}` plays the test and saves its run there"
        )

    def save(self, name: str, test: str, run: Path) -> Path:
        """Keep a copy of a test's run under this name, in place of an earlier one; return its
        folder. Raises SettingsError."""
        saved = self._place(name, test)
        if saved.exists() and not (saved / LOG_NAME).is_file():
            raise SettingsError(f"--rehearse-save {name}: {saved} is there, and is not a run")
        copy = saved.with_name(f"{saved.name}.new")
        shutil.rmtree(copy, ignore_errors=True)  # of a session that was interrupted here
        shutil.copytree(run, copy)
        shutil.rmtree(saved, ignore_errors=True)
        copy.rename(saved)
        return saved

    def _place(self, name: str, test: str) -> Path:
        """Example: .rehearse/base/tests%2Ftest_agent.py%3A%3Atest_cancels[gpt-5]"""
        return self._folder / name / quote(test, safe="[]")
