#!/bin/sh
# npm: @openai/codex@0.171.0
# Codex with the world's tools beside its own. It asks by OpenAI's Responses API.
export CODEX_HOME=$TMPDIR/codex
mkdir -p "$CODEX_HOME"
cat >"$CODEX_HOME/config.toml" <<END
model = "$OPENAI_MODEL"
model_provider = "rehearse"
web_search = "disabled"
[model_providers.rehearse]
name = "rehearse"
base_url = "$OPENAI_BASE_URL"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[mcp_servers.world]
url = "$REHEARSE_MCP_URL"
default_tools_approval_mode = "approve"
END
exec codex exec --sandbox read-only --skip-git-repo-check \
    --output-last-message "$REHEARSE_ANSWER" - <"$REHEARSE_PROMPT"
