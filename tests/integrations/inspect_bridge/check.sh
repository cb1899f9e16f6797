#!/usr/bin/env bash
# Our tasks in Inspect AI, and its agents in ours, with its mock model (check.sh PYTHON).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
INSPECT_LOG_DIR=$work/logs "$1" -m tests.integrations.inspect_bridge.check "$work"
