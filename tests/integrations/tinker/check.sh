#!/usr/bin/env bash
# tinker-cookbook's rollout loop on one of our environments (check.sh PYTHON). The cookbook is installed
# without its dependencies: it asks for a version of tml-renderers that is not everywhere.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HF_HUB_OFFLINE=1 WANDB_MODE=disabled RAY_USAGE_STATS_ENABLED=0
"$1" -W ignore -m tests.integrations.trainers.check "$work" tinker
