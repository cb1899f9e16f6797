"""Runs vLLM's server so that it ends with its parent process. Runs under an interpreter that has
vLLM, and imports nothing of Rehearsal.

Ending with the parent works on Linux only (PR_SET_PDEATHSIG); on other systems the user must end a
server whose parent was killed.
"""

import ctypes
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)
