"""Runs vLLM's server, which ends when the process that started it does. Given to an interpreter
that has vLLM; it imports nothing of ours.

Ending with the parent is Linux's (PR_SET_PDEATHSIG); elsewhere a server whose parent was killed
must be ended by hand.
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
