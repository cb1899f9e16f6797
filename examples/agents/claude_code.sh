#!/bin/sh
# npm: @anthropic-ai/claude-code@2.1.197
# Claude Code with the world's tools and none of its own. It asks by Anthropic's API, and reads
# ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY.
export CLAUDE_CONFIG_DIR="$TMPDIR/claude" CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
servers='{"mcpServers": {"world": {"type": "http", "url": "'$REHEARSE_MCP_URL'"}}}'
exec claude --print --mcp-config "$servers" --strict-mcp-config --tools "" \
    --allowedTools mcp__world --model "$ANTHROPIC_MODEL" <"$REHEARSE_PROMPT"
