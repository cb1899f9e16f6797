#!/usr/bin/env bash
# Real MCP servers of PyPI and npm as worlds (tests/mcp_servers/servers.toml), each in an environment
# of its own, below .venv-mcp-servers.
#
#   tests/mcp_servers/run.sh [--install] [-n SEQUENCES] [SERVER...]   (default: 10, every server)
#
# With --install the environments are made or renewed, and nothing runs. build/mcp-servers/table.md
# says afterwards what was found. Servers of npm are left out where npm is not installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
only_install= sequences=10
while [ $# -gt 0 ]; do
    case $1 in
        --install) only_install=1 ;;
        -n) sequences=$2 && shift ;;
        *) break ;;
    esac
    shift
done

uv=.venv-install/bin/uv
if [ ! -x "$uv" ]; then
    "${PYTHON:-python3}" -m venv .venv-install
    .venv-install/bin/python -m pip install --quiet --disable-pip-version-check uv
fi
export UV_PYTHON_DOWNLOADS=never UV_FIND_LINKS=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}
unset VIRTUAL_ENV
interpreter=$(command -v "${PYTHON:-python3}")

install() { # KIND NAME PACKAGE...: an environment, unless its stamp names these packages already
    local kind=$1 environment=.venv-mcp-servers/$2 && shift 2
    if [ "$(cat "$environment/.installed" 2>/dev/null)" = "$*" ]; then return; fi
    if [ "$kind" = npm ]; then
        command -v npm >/dev/null || { echo "$environment is left out: npm is not installed" >&2; return; }
        npm install --silent --no-save --no-audit --no-fund --prefix "$environment" "$@"
    else
        [ -x "$environment/bin/python" ] ||
            "$uv" venv --quiet --no-project --python "$interpreter" "$environment"
        "$uv" pip install --quiet --python "$environment/bin/python" "$@"
    fi
    echo "$*" >"$environment/.installed"
}

while read -ra words; do install "${words[@]}"; done < <(.venv/bin/python -m tests.mcp_servers.servers "$@")
[ -z "$only_install" ] || exit 0
export MCP_SERVERS_SEQUENCES=$sequences
selected=$(IFS=,; echo "$*")
MCP_SERVERS=$selected exec .venv/bin/python -m pytest -q --timeout 3600 tests/mcp_servers
