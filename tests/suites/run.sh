#!/usr/bin/env bash
# The BFCL's and AgentDojo's own runners against `rehearse eval`, on a share of the entries (python -m
# tests.suites.parity): a tenth and a fiftieth of them, drawn by a seed (PARITY_SEED). Of the BFCL's
# 148 dependencies those are installed that its runner uses; each has an environment of its own. Then
# suites on MCP servers (python -m tests.suites.served_campaign).
set -euo pipefail
cd "$(dirname "$0")/../.."
environment=.venv-suites
stamp=$environment/.installed
if [ ! -e $stamp ] || [ tests/suites/run.sh -nt $stamp ]; then
    [ -x $environment/bin/python ] || "${PYTHON:-python3}" -m venv $environment
    $environment/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
        bfcl-eval==2026.3.23 mpmath==1.3.0 mcpuniverse==1.1.3
    $environment/bin/python -m pip install --quiet --disable-pip-version-check \
        psycopg2-binary pydantic jinja2 python-dotenv openai httpx tenacity typer tabulate tqdm \
        pandas filelock overrides rank_bm25 requests beautifulsoup4 \
        tree_sitter==0.21.3 tree-sitter-java==0.21.0 tree-sitter-javascript==0.21.4
    [ -x $environment/agentdojo/bin/python ] || "${PYTHON:-python3}" -m venv $environment/agentdojo
    $environment/agentdojo/bin/python -m pip install --quiet --disable-pip-version-check \
        agentdojo==0.1.35
    if command -v npm >/dev/null; then
        npm install --silent --prefix $environment/node @modelcontextprotocol/server-filesystem
    fi
    touch $stamp
fi
[ "${1:-}" = --install ] && exit
.venv/bin/python -m tests.suites.parity bfcl --python $environment/bin/python \
    --share 0.1 --seed "${PARITY_SEED:-7}" "$@"
.venv/bin/python -m tests.suites.parity agentdojo --share 0.02 --seed "${PARITY_SEED:-7}"
files=$environment/node/node_modules/.bin/mcp-server-filesystem
[ -x $files ] || { files=; echo "without npm: the official file system server is left out"; }
exec .venv/bin/python -m tests.suites.served_campaign $environment/bin/python $files
