#!/bin/sh
# npm: opencode-ai@1.18.33
# OpenCode with the world's tools beside its own. It asks by OpenAI's Responses API.
export XDG_CONFIG_HOME="$TMPDIR" XDG_DATA_HOME="$TMPDIR" XDG_CACHE_HOME="$TMPDIR" XDG_STATE_HOME="$TMPDIR"
export OPENCODE_CONFIG_CONTENT='{
  "model": "openai/'$OPENAI_MODEL'", "autoupdate": false, "share": "disabled",
  "provider": {"openai": {
    "options": {"baseURL": "'$OPENAI_BASE_URL'", "apiKey": "'$OPENAI_API_KEY'"},
    "models": {"'$OPENAI_MODEL'": {}}
  }},
  "mcp": {"world": {"type": "remote", "url": "'$REHEARSE_MCP_URL'", "oauth": false}}
}'
exec opencode run "$(cat "$REHEARSE_PROMPT")"
