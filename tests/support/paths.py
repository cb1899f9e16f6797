"""Where the repository's files are, for tests in folders of any depth."""

from pathlib import Path

TESTS = Path(__file__).parent.parent
ROOT = TESTS.parent
FIXTURES = TESTS / "fixtures"
MCP_SERVERS = TESTS / "support" / "mcp_servers"
LIBRARY = FIXTURES / "worlds" / "library"
AWM = FIXTURES / "awm"
SUITES = FIXTURES / "suites"
