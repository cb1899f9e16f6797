"""An MCP server for tests with two tools, which make a statement and store a part in a PostgreSQL
database.

python statements.py URL
"""

import json
import sys
from typing import Any

import psycopg

STORE = "INSERT INTO stock.parts (sku, place, qty) VALUES (%s, 'new', %s) RETURNING *"


def main() -> None:
    """Answer line by line, in the revision of 2024-11-05."""
    connection = psycopg.connect(sys.argv[1], autocommit=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result: dict[str, Any] = {}
        match request["method"]:
            case "initialize":
                result = {
                    "protocolVersion": "2024-11-05",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "statements", "version": "1"},
                }
            case "tools/list":
                schema = {"type": "object", "properties": {"sql": {"type": "string"}}}
                tool = {"name": "run", "description": "Run SQL.", "inputSchema": schema}
                fields = {"sku": {"type": "string"}, "qty": {"type": "integer"}}
                stored = {"type": "object", "properties": fields, "required": ["sku", "qty"]}
                store = {"name": "store", "description": "Store.", "inputSchema": stored}
                result = {"tools": [tool, store]}
            case "tools/call":
                given = request["params"]["arguments"]
                try:
                    if request["params"]["name"] == "store":
                        cursor = connection.execute(STORE, (given["sku"], given["qty"]))
                    else:
                        cursor = connection.execute(given["sql"])
                    text = json.dumps(cursor.fetchall() if cursor.description else [], default=str)
                    result = {"content": [{"type": "text", "text": text}]}
                except psycopg.Error as exc:
                    result = {"isError": True, "content": [{"type": "text", "text": str(exc)}]}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}))
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
