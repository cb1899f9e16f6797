#!/bin/sh
# npm: @anthropic-ai/claude-code@2.1.197
# Claude Code with the world's tools and none of its own. It asks by Anthropic's API, and reads
# ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY. On a busy machine it would begin without the tools, so
# it waits for them; its spans go to the episode, by OTEL_EXPORTER_OTLP_ENDPOINT.
export CLAUDE_CONFIG_DIR="$TMPDIR/claude" CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
export MCP_CONNECT_TIMEOUT_MS=60000 CLAUDE_CODE_ENABLE_TELEMETRY=1
export CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1 OTEL_TRACES_EXPORTER=otlp
servers='{"mcpServers": {"world": {"type": "http", "url": "'$REHEARSE_MCP_URL'"}}}'
exec claude --print --mcp-config "$servers" --strict-mcp-config --tools "" \
    --allowedTools mcp__world --model "$ANTHROPIC_MODEL" <"$REHEARSE_PROMPT"
