#!/usr/bin/env bash
# The recipes of examples/agents, each in an environment of its own (.venv-agents-NAME), since their
# packages cannot share one. They play the same tasks against one scripted model, and tests/agents/
# check.py compares what they did.
#
#   tests/agents/run.sh [--install] [-n EPISODES] [AGENT...]     (default: 6 episodes, every agent)
#
# With --install the environments are made or renewed, and nothing is played. A recipe names its
# packages in its first lines: those of Python as PEP 723 has them, those of npm after `# npm:`, and
# these recipes are left out where npm is not installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
only_install= episodes=6
while [ $# -gt 0 ]; do
    case $1 in
        --install) only_install=1 ;;
        -n) episodes=$2 && shift ;;
        *) break ;;
    esac
    shift
done
agents=("$@")
if [ ${#agents[@]} = 0 ]; then
    for file in examples/agents/*.py examples/agents/*.sh; do agents+=("$(basename "${file%.*}")"); done
fi

uv=.venv-install/bin/uv
if [ ! -x "$uv" ]; then
    "${PYTHON:-python3}" -m venv .venv-install
    .venv-install/bin/python -m pip install --quiet --disable-pip-version-check uv
fi
export UV_PYTHON_DOWNLOADS=never UV_FIND_LINKS=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}
unset VIRTUAL_ENV
interpreter=$(command -v "${PYTHON:-python3}")

install() { # a recipe's environment, unless its stamp is newer than the recipe
    local environment=.venv-agents-$1 recipe
    recipe=$(ls "examples/agents/$1".*)
    if [ "$environment/.installed" -nt "$recipe" ]; then return; fi
    if [[ $recipe == *.sh ]]; then
        npm install --silent --no-save --prefix "$environment" "$(sed -n 's/^# npm: //p' "$recipe")"
    else
        [ -x "$environment/bin/python" ] ||
            "$uv" venv --quiet --no-project --python "$interpreter" "$environment"
        "$uv" pip install --quiet --python "$environment/bin/python" -r "$recipe"
    fi
    touch "$environment/.installed"
}

played=()
for agent in "${agents[@]}"; do
    if [ "$agent" = plain_loop ]; then continue; fi
    if [ -e "examples/agents/$agent.sh" ] && ! command -v npm >/dev/null; then
        echo "$agent is left out: npm is not installed" >&2
        continue
    fi
    echo "== $agent" >&2
    install "$agent"
    played+=("$agent")
done
[ -n "$only_install" ] || exec .venv/bin/python -m tests.agents.check "$episodes" "${played[@]}"
