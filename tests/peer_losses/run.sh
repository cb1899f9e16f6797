#!/usr/bin/env bash
# TRL's and verl's own losses beside ours, in an environment of their own (.venv-peer-losses).
#
#   tests/peer_losses/run.sh [ARGS OF PYTEST]     (makes it when it is missing: 1.5 GB)
#   tests/peer_losses/run.sh --install            (makes it and runs nothing)
#
# verl asks for an older transformers than we and TRL have; its loss functions run with ours, so it is
# installed without what it asks for. Ray is needed to import it.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=.venv-peer-losses
if [ ! -e "$venv/.done" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    pip() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
    # Torch first, in its build for CPUs, which PyPI does not have.
    pip --no-deps --extra-index-url https://download.pytorch.org/whl/cpu 'torch==2.13.0'
    pip -c constraints.txt -e '.[train]' pytest pytest-timeout hypothesis
    pip -c constraints.txt 'trl>=1.16,<2'
    pip --no-deps 'verl>=0.9.1,<0.10'
    pip -c constraints.txt ray 'tensordict>=0.8,<=0.10' torchdata omegaconf hydra-core codetiming \
        pylatexenc
    touch "$venv/.done"
fi
[ "${1:-}" != --install ] || exit 0
exec "$venv/bin/python" -m pytest tests/peer_losses "$@"
