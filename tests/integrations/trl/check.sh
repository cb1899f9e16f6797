#!/usr/bin/env bash
# Ten GRPO steps of TRL on one of our worlds (check.sh PYTHON).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TRL_EXPERIMENTAL_SILENCE=1 HF_HUB_OFFLINE=1
"$1" -W ignore examples/trl_grpo.py "$work" 10 | tee "$work/output"
"$1" -m tests.integrations.trl.check "$work"
