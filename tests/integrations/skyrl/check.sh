#!/usr/bin/env bash
# SkyRL's generator types and validation on our bridge, without a GPU (check.sh PYTHON). SkyRL is
# installed with what its modules ask for only: all its dependencies are a GPU stack.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HF_HUB_OFFLINE=1 WANDB_MODE=disabled RAY_USAGE_STATS_ENABLED=0
"$1" -W ignore -m tests.integrations.trainers.check "$work" skyrl
