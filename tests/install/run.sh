#!/usr/bin/env bash
# Wheel and sdist as strangers get them: built from the files in git, installed into clean
# environments outside of the checkout, and used there. Each extra gets an environment of its own
# and a command that needs it, so that no extra leans on packages of another one.
#
#   tests/install/run.sh            core, sdist, beside (foreign packages with our names) and the
#                                   extras that are small                       (four minutes of CPU)
#   tests/install/run.sh --all      also the Dockerfile's steps and the extras that are large (gigabytes)
#   tests/install/run.sh NAME...    only these: core, sdist, beside, docker or extras
#   tests/install/run.sh --install  make .venv-install (uv), run nothing
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD

light=(awm mcp openai otlp parquet postgres report tokens)
heavy=(bridges inspect lora ray skyrl tinker train trackio trl verifiers verl wandb)
case "${1:-}" in
    --all) parts=(core sdist beside docker "${light[@]}" "${heavy[@]}") ;;
    --install | "") parts=(core sdist beside "${light[@]}") ;;
    *) parts=("$@") ;;
esac

uv=$root/.venv-install/bin/uv
if [ ! -x "$uv" ]; then
    "${PYTHON:-python3}" -m venv .venv-install
    .venv-install/bin/python -m pip install --quiet --disable-pip-version-check uv
fi
[ "${1:-}" != --install ] || exit 0

work=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
export UV_PYTHON_DOWNLOADS=never UV_FIND_LINKS=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}
unset PYTHONPATH REHEARSE_WORLDS VIRTUAL_ENV
interpreter=$(command -v "${PYTHON:-python3}")

# The parts of the repository that the checks use: two stand-ins of model servers and attempts on the
# sandbox, nothing installed.
mkdir -p "$work/source" "$work/helpers/tests/support" "$work/empty"
git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
    tar --null -T - -cf - | tar -xf - -C "$work/source"
cp tests/support/{confined,fake_vllm,hidden_sources,model_server,tiny_model}.py "$work/helpers/tests/support"
cp tests/install/model_servers.py "$work/helpers"

# What an older build has left behind does not get in: check_files.py would name it.
mkdir -p "$work/source/build/lib/harness" "$work/source/build/lib/rehearsal_room"
touch "$work"/source/build/lib/{harness/__init__,rehearsal_room/old}.py
"$uv" build --quiet --python "$interpreter" --out-dir "$work/dist" "$work/source"
wheel=$(echo "$work"/dist/*.whl)
sdist=$(echo "$work"/dist/*.tar.gz)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
"$interpreter" tests/install/check_files.py "$wheel" "$sdist"

environment() { # an environment, what is installed into it, and (by default all) pinned versions
    "$uv" venv --quiet --no-project --python "$interpreter" "$work/$1"
    "$uv" pip install --quiet --python "$work/$1/bin/python" -c "${3:-$root/constraints.txt}" "$2"
}

# Some packages ask for older versions than ours of what we share: only torch is pinned for them.
grep '^torch==' constraints.txt >"$work/torch.txt"

install() { # an environment that is used from now on, and what is installed into it
    environment "$@"
    PATH="$work/$1/bin:$base_path"
    folder=$work/$1/jobs
    mkdir "$folder"
    cd "$folder"
}
base_path=$PATH

run() { # a command that must succeed
    echo "  rehearse $*"
    rehearse "$@" >output.txt 2>&1 || { cat output.txt; exit 1; }
}

refuse() { # a sentence, and a command that must print it and fail
    local sentence=$1; shift
    echo "  rehearse $* (must fail)"
    if rehearse "$@" >output.txt 2>&1 || ! grep -qF "$sentence" output.txt; then
        cat output.txt
        exit 1
    fi
}

expect() { # a pattern in the output of the last command
    grep -qE "$1" output.txt || { cat output.txt; echo "no line with: $1"; exit 1; }
}

serve_models() { # start a stand-in of a model server; $url is its address
    [ -d "$work/models" ] || environment models "${wheel}[tokens]"
    PYTHONPATH=$work/helpers "$work/models/bin/python" "$work/helpers/model_servers.py" "$@" >url.txt &
    server=$!
    for _ in $(seq 300); do [ -s url.txt ] && break; sleep 0.1; done
    url=$(cat url.txt)
}

stop_server() {
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
}

use_core() { # the jobs that need no extra
    run --version
    expect "^rehearse, version $version\$"
    run bench shop_support flight_desk claims_desk -n 64
    expect 'pass rate *1\.000'
    run run shop_support -p oracle -n 8 -o runs/first
    run replay runs/first
    run new world vet_clinic
    run scenarios check vet_clinic
    run doctor --json doctor.json
    python -c "
import json
found = json.load(open('doctor.json'))
assert (found['version'], found['faults']) == ('$version', []), found"
}

write_mcp_tasks() { # a task for the shop as any MCP server
    cat >tasks.toml <<'END'
name = "shop"
description = "The shop, as any MCP server"
[[task]]
id = "card"
instruction = "Which gift cards are there?"
oracle = [{ name = "get_gift_card", arguments = { code = "no-such-card" } }]
[[task.check]]
name = "get_gift_card"
arguments = { code = "no-such-card" }
expect = { fails = true }
END
}

use_pytest() { # the tests that docs/testing.md shows, by the plug-in that the package brings
    echo "  pytest"
    "$uv" pip install --quiet --python "$(command -v python)" -c "$root/constraints.txt" pytest
    sed -n '/^```python$/,/^```$/p' "$root/docs/testing.md" | grep -v '^```' >test_agent.py
    python -m pytest -W error test_agent.py >output.txt 2>&1 || { cat output.txt; exit 1; }
    expect '2 passed'
}

use_server() { # worlds over HTTP, and the viewer's page: both are in the core
    rehearse serve shop_support --http 127.0.0.1:0 2>url.txt &
    server=$!
    for _ in $(seq 300); do grep -q '^serving on ' url.txt && break; sleep 0.1; done
    url=$(sed -n 's/^serving on //p' url.txt)
    echo "  rehearse serve: $url"
    python - "$url" <<'END'
import json, sys, urllib.request
body = json.dumps({"scenario": "shop_support"}).encode()
request = urllib.request.Request(sys.argv[1] + "/worlds", body, {"content-type": "application/json"})
assert "mcp" in json.load(urllib.request.urlopen(request))
END
    stop_server
    rehearse view runs/first --no-open >url.txt 2>&1 &
    server=$!
    for _ in $(seq 300); do grep -q 'http://' url.txt && break; sleep 0.1; done
    url=$(grep -om1 'http://[^ ]*' url.txt)
    echo "  rehearse view: ${url%%\?*}"
    python -c "
import sys, urllib.request
assert b'<script' in urllib.request.urlopen(sys.argv[1]).read()" "$url"
    stop_server
}

part_core() {
    install core "$wheel"
    use_core
    use_pytest
    run generate --count 2 --seed 1 -o made
    run run made/*/ -o runs/made
    run show runs/made
    run judge runs/made --mode code
    run schema
    run completion bash
    refuse "pip install 'rehearsal-room[report]'" scenarios report made -o page.html
    printf 'model = "none"\nsteps = 1\n[rollouts]\nscenarios = ["shop_support"]\ngroup_size = 2\n' >train.toml
    refuse "pip install 'rehearsal-room[train]'" train train.toml
    refuse "pip install 'rehearsal-room[awm]'" run made/*/ --isolate -o runs/isolated
    write_mcp_tasks
    refuse "pip install 'rehearsal-room[mcp]'" run --mcp true tasks.toml -o runs/mcp
    refuse "pip install 'rehearsal-room[otlp]'" export runs/first --to otlp -o spans.json
    refuse "pip install 'rehearsal-room[parquet]'" export runs/first --to parquet -o run.parquet
    refuse "pip install 'rehearsal-room[ray]'" run shop_support --engine ray -n 1 -o runs/ray
    use_server
}

part_sdist() { # check_files.py has compared its files with the wheel's
    install sdist "$sdist"
    run --version
    expect "^rehearse, version $version\$"
    run bench shop_support -n 8
    run new world vet_clinic
}

part_docker() {
    "$interpreter" "$root/tests/install/dockerfile.py" "$work/source" "$work/docker"
}

part_awm() {
    install awm "${wheel}[awm]"
    run generate --count 1 --seed 1 -o made
    run run made/*/ -p oracle -n 2 --isolate -o runs/isolated
    grep -q '^sandbox = ' runs/isolated/run.toml
    REHEARSE_SANDBOX_AT_MOST=seccomp+landlock run run made/*/ -p oracle -n 2 --isolate -o runs/landlock
    PYTHONPATH=$work/helpers python -m tests.support.hidden_sources
}

# Somebody else's package is called envpool (the RL library), as one of our folders; both work side by
# side, whichever comes first, and ours leaves without a trace. Then a user's own folders and modules.
part_beside() {
    install beside "$wheel"
    local python=$work/beside/bin/python
    pip() { "$uv" pip "$1" --quiet --python "$python" "${@:2}"; }
    their_files() { # a digest of all that theirs has installed
        (cd "$work/beside/lib" && find . -path '*/envpool*' -type f ! -name '*.pyc' -print0 |
            sort -z | xargs -0 sha256sum | sha256sum)
    }
    both_work() {
        "$python" -W ignore -c "
import envpool
assert len(envpool.list_all_envs()) > 100
assert envpool.make('CartPole-v1', env_type='gymnasium', num_envs=2).reset()[0].shape == (2, 4)
import rehearsal_room, rehearsal_room.envpool.inprocess.world"
        rm -rf runs
        run run shop_support -p oracle -n 2 -o runs/beside
        run replay runs/beside
    }
    pip install envpool
    echo "  ours, then envpool: both work"
    both_work
    pip uninstall envpool
    run run shop_support -p oracle -n 2 -o runs/alone
    pip install envpool
    pip uninstall rehearsal-room
    local before; before=$(their_files)
    pip install --no-deps "$wheel"
    echo "  envpool, then ours: both work"
    both_work
    pip uninstall rehearsal-room
    [ "$before" = "$(their_files)" ] || { echo "uninstalling ours has changed envpool"; exit 1; }
    "$python" -W ignore -c "
import envpool, importlib.util
envpool.make('CartPole-v1', env_type='gymnasium', num_envs=2).reset()
assert importlib.util.find_spec('rehearsal_room') is None"
    echo "  ours uninstalled: envpool is whole"
    pip install --no-deps "$wheel"
    use_beside_names
}

use_beside_names() { # a user's script whose folder has the names of our folders
    mkdir -p mine/{harness,scenarios,envpool,learner}
    echo "OWNER = 'user'" | tee mine/{judge,harness/__init__,scenarios/__init__,envpool/__init__,learner/__init__}.py >/dev/null
    cat >mine/script.py <<'END'
import anyio, envpool, harness, judge, learner, scenarios
import rehearsal_room as rr

assert {each.OWNER for each in (envpool, harness, judge, learner, scenarios)} == {"user"}

async def agent(task: rr.TaskView, env: rr.AgentEnv) -> str:
    return "done"

report = anyio.run(
    lambda: rr.rehearse(agent, ["shop_support:cancel-duplicate"], "own", judge=rr.ScenarioJudges)
)
print(report)
END
    python mine/script.py >output.txt 2>&1 || { cat output.txt; exit 1; }
    cd mine
    run run shop_support -p oracle -n 2 -o runs/mine
    python -m rehearsal_room show runs/mine >output.txt || { cat output.txt; exit 1; }
    cd ..
    echo "  a user's judge.py, harness/, scenarios/, envpool/ and learner/: ours is found, and his"
}

part_mcp() {
    install mcp "${wheel}[mcp]"
    write_mcp_tasks
    run run --mcp 'rehearse serve shop_support --stdio' tasks.toml -p oracle -o runs/mcp
}

part_openai() {
    install openai "${wheel}[openai]"
    serve_models chat
    OPENAI_API_KEY=none run run shop_support -p openai --client package -m m --base-url "$url" -n 2 -o runs/chat
    stop_server
}

part_otlp() {
    install otlp "${wheel}[otlp]"
    run run shop_support -p oracle -n 2 -o runs/first
    run export runs/first --to otlp -o spans.json
    test -s spans.json
}

part_parquet() {
    install parquet "${wheel}[parquet]"
    run run shop_support -p oracle -n 2 -o runs/first
    run export runs/first --to parquet -o run.parquet
    test -s run.parquet
}

part_postgres() { # no server of PostgreSQL is here: the library says so
    install postgres "${wheel}[mcp,postgres]"
    mkdir -p orders
    cat >orders/scenario.toml <<'TOML'
format = "mcp"
name = "orders"
title = "Orders"
version = "1"
description = "Orders on PostgreSQL."
clock = "2026-03-02T09:00:00Z"
user = { id = "u1", name = "Ada Okafor", role = "owner" }
server = { command = "python3 -c 0 {postgres}" }
state = { postgres = "postgresql://127.0.0.1:1/postgres" }
start = { postgres = "seed.sql" }
TOML
    cat >orders/tasks.toml <<'TOML'
[[task]]
id = "greet"
instruction = "Say hello."
difficulty = "simple"
kind = "question"
answer = "Hello."
TOML
    echo 'CREATE TABLE orders (id int PRIMARY KEY);' >orders/seed.sql
    echo 'def greet(before, after, answer): return []' >orders/verify.py
    : >orders/policy.md
    refuse "its PostgreSQL server cannot be used: connection failed" run orders -p oracle -o runs/orders
}

part_ray() {
    install ray "${wheel}[ray]"
    run run shop_support -p oracle -n 2 --engine ray --processes 1 -o runs/ray
}

part_report() {
    install report "${wheel}[report]"
    run generate --count 1 --seed 1 -o made
    run scenarios report made -o page.html
    grep -q '<html' page.html
}

part_tokens() {
    install tokens "${wheel}[tokens]"
    serve_models vllm model
    run run shop_support -p vllm -m model --base-url "$url" --dialect hermes -n 2 -o runs/tokens
    stop_server
}

part_train() {
    install train "${wheel}[train]"
    python -m rehearsal_room.demo --help >/dev/null
    run schema recipe
    PYTHONPATH=$work/helpers python -c "
from pathlib import Path
from tests.support.tiny_model import write_model
write_model(Path('model'), context=131072)"
    run run shop_support -p local -m model -n 2 --max-steps 1 --max-tokens 8 -o runs/local
}

part_lora() {
    install lora "${wheel}[lora]"
    python -c "import peft, rehearsal_room.learner.model.adapters"
}

part_bridges() {
    install bridges "${wheel}[bridges]"
    python -c "import rehearsal_room.bridges.trainers.slime, rehearsal_room.bridges.trainers.rllm, rehearsal_room.bridges.trainers.areal"
}

part_inspect() {
    install inspect "${wheel}[inspect]" "$work/torch.txt"
    python -c "import rehearsal_room.bridges.inspect, rehearsal_room.bridges.inspect_agents"
}

part_skyrl() {
    install skyrl "${wheel}[skyrl]" "$work/torch.txt"
    python -c "import rehearsal_room.bridges.trainers.skyrl"
}

part_tinker() { # the cookbook asks for a version of tml-renderers that is not in every registry
    if ! environment tinker "${wheel}[tinker]" "$work/torch.txt" 2>tinker.txt; then
        grep -q 'only tml-renderers' tinker.txt || { cat tinker.txt; exit 1; }
        echo "  SKIPPED: $(grep -o 'only tml-renderers.*' tinker.txt)"
        return
    fi
    "$work/tinker/bin/python" -c "import rehearsal_room.bridges.trainers.tinker"
}

part_trl() {
    install trl "${wheel}[trl]"
    python -c "import rehearsal_room.bridges.trainers.trl, trl"
}

part_verifiers() { # a distribution of its own: wheel and sdist, beside the wheel of Rehearsal
    local made=$work/verifiers-dist file
    "$uv" build --quiet --python "$interpreter" --out-dir "$made" "$work/source/packages/rehearsal-verifiers"
    for file in "$made"/*.tar.gz "$made"/*.whl; do
        cd "$work/empty"
        rm -rf "$work/verifiers"
        install verifiers "$wheel" "$work/torch.txt"
        "$uv" pip install --quiet --python "$work/verifiers/bin/python" -c "$work/torch.txt" "$file"
    done
    python -W ignore -c "import sys; from verifiers.v1.cli.validate import main; sys.exit(main())" \
        rehearsal-verifiers -n 5 -o validated --runtime.type subprocess >output.txt 2>&1 ||
        { cat output.txt; exit 1; }
    find validated -name results.jsonl -exec cat {} + >reasons.txt
    [ "$(grep -c '"reason": *"valid"' reasons.txt)" = 5 ] || { cat reasons.txt; exit 1; }
    echo "  vf-validate: 5 tasks are valid"
}

part_verl() {
    install verl "${wheel}[verl]" "$work/torch.txt"
    python -c "import rehearsal_room.bridges.trainers.verl"
}

part_trackio() {
    install trackio "${wheel}[trackio]" "$work/torch.txt"
    python -c "import trackio"
}

part_wandb() {
    install wandb "${wheel}[wandb]"
    python -c "import wandb"
}

cpu() { # CPU seconds of all commands so far, in $used (not printed: a subshell has a count of its own)
    times >"$work/times.txt"
    used=$(awk -F '[ms ]+' '{ sum += 60 * ($1 + $3) + $2 + $4 } END { printf "%.0f", sum }' "$work/times.txt")
}

began=$SECONDS
for part in "${parts[@]}"; do
    start=$SECONDS
    cpu
    before=$used
    echo "$part"
    cd "$work/empty"
    PATH=$base_path
    "part_$part"
    cpu
    echo "  $((SECONDS - start)) s, CPU $((used - before)) s"
    cd "$root"
    rm -rf "${work:?}/$part"
done
echo "$((SECONDS - began)) s, CPU $used s with the build, in all: ${parts[*]}"
