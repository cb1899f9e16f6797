#!/usr/bin/env bash
# MCP servers of the registries that write to PostgreSQL, as worlds, on a PostgreSQL server of our own
# (Debian's: apt-get install postgresql). Ours are in .venv-postgres, theirs in .venv-mcp-postgres.
#
#   tests/mcp_postgres/run.sh [--install] [-n SEQUENCES] [SERVER...]     (default: 10, every server)
#
# With --install the environments are made, and nothing is played. The servers of npm are left out
# where it is not installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
only_install=
if [ "${1:-}" = --install ]; then only_install=1 && shift; fi
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && ! command -v initdb >/dev/null; then
    echo "PostgreSQL is not installed: apt-get install postgresql" >&2
    exit 2
fi
ours=.venv-postgres theirs=.venv-mcp-postgres
install() { # an environment, and what pip installs into it
    if [ "$1/.installed" -nt tests/mcp_postgres/run.sh ]; then return; fi
    [ -x "$1/bin/python" ] || "${PYTHON:-python3}" -m venv "$1"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"
}
install "$ours" -e '.[postgres,mcp]' hypothesis pytest pytest-timeout && touch "$ours/.installed"
if [ ! "$theirs/.installed" -nt tests/mcp_postgres/run.sh ]; then
    install "$theirs" fluid-postgres-mcp==0.1.6
    if command -v npm >/dev/null; then
        npm install --silent --no-save --prefix "$theirs" \
            enhanced-postgres-mcp-server@1.0.1 @henkey/postgres-mcp-server@1.0.7
    else
        echo "the servers of npm are left out: npm is not installed" >&2
    fi
    touch "$theirs/.installed"
fi
[ -z "$only_install" ] || exit 0
"$ours/bin/python" -m pytest -q tests/mcp_postgres
exec "$ours/bin/python" -m tests.mcp_postgres.check "$@"
