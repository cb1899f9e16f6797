#!/usr/bin/env bash
# verl and SkyRL as installed, without a GPU (check.sh PYTHON).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HF_HUB_OFFLINE=1 WANDB_MODE=disabled RAY_USAGE_STATS_ENABLED=0
"$1" -W ignore -m tests.doors.trainers.check "$work" verl skyrl
