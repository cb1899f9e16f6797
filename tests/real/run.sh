#!/usr/bin/env bash
# A pretrained model behind vLLM and in this process, played as users play it (docs/real-models.md).
#
#   tests/real/run.sh MODEL_FOLDER [ARGS OF tests.real.campaign]
#
# MODEL_FOLDER is a Hugging Face folder of an instruct model. vLLM is that of `just test-vllm`, the
# entries of the BFCL come from the environment of `just test-suites`. On a busy machine a second
# thread of vLLM waits for the first most of the time: OMP_NUM_THREADS=1 makes it faster there.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests/vllm/run.sh --install
tests/suites/run.sh --install
data=$(.venv-suites/bin/python -c \
    'from importlib.util import find_spec; print(*find_spec("bfcl_eval").submodule_search_locations)')
exec .venv/bin/python -m tests.real.campaign --bfcl "$data" "$@"
