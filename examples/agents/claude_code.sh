#!/bin/sh
# Claude Code (npm install -g @anthropic-ai/claude-code), with the world's tools and none of its own.
# It asks by Anthropic's API: ANTHROPIC_BASE_URL, _API_KEY and _MODEL are set for each episode.
export CLAUDE_CONFIG_DIR=$TMPDIR/claude CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
servers='{"mcpServers": {"world": {"type": "http", "url": "'$REHEARSE_MCP_URL'"}}}'
exec claude --print --mcp-config "$servers" --strict-mcp-config --tools "" \
    --allowedTools mcp__world --model "$ANTHROPIC_MODEL" <"$REHEARSE_PROMPT"
