#!/usr/bin/env bash
# The BFCL's own data, worlds and checks, against the suite bfcl_v3 (python -m tests.suites.campaign).
# The package is installed without its 148 dependencies, in an environment of its own. Then suites on
# MCP servers (python -m tests.suites.served_campaign).
set -euo pipefail
cd "$(dirname "$0")/../.."
environment=.venv-suites
stamp=$environment/.installed
if [ ! -e $stamp ] || [ tests/suites/run.sh -nt $stamp ]; then
    [ -x $environment/bin/python ] || "${PYTHON:-python3}" -m venv $environment
    $environment/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
        bfcl-eval==2026.3.23 mpmath==1.3.0 mcpuniverse==1.1.3
    $environment/bin/python -m pip install --quiet --disable-pip-version-check \
        psycopg2-binary pydantic jinja2 python-dotenv
    if command -v npm >/dev/null; then
        npm install --silent --prefix $environment/node @modelcontextprotocol/server-filesystem
    fi
    touch $stamp
fi
[ "${1:-}" = --install ] && exit
.venv/bin/python -m tests.suites.campaign $environment/bin/python "$@"
files=$environment/node/node_modules/.bin/mcp-server-filesystem
[ -x $files ] || { files=; echo "without npm: the official file system server is left out"; }
exec .venv/bin/python -m tests.suites.served_campaign $environment/bin/python $files
