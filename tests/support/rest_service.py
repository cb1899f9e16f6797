"""A REST service for tests: orders in SQLite, behind FastAPI; some operations want a key.

SHOP_DB=orders.db uvicorn --app-dir tests/support rest_service:app
"""

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel

app = FastAPI(title="Shop", generate_unique_id_function=lambda route: route.name)


class Order(BaseModel):
    """What is ordered."""

    item: str
    qty: int = 1


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    """The database, which is made where it is missing."""
    with closing(sqlite3.connect(os.environ.get("SHOP_DB", ":memory:"))) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute(
            "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT NOT NULL, "
            "qty INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'open', changed_at TEXT)"
        )
        yield connection
        connection.commit()


with database():
    pass


@app.get("/orders")
def list_orders() -> list[dict[str, Any]]:
    """All orders."""
    with database() as connection:
        return [dict(row) for row in connection.execute("SELECT * FROM orders ORDER BY id")]


@app.post("/orders", status_code=201)
def add_order(order: Order) -> dict[str, str]:
    """Order something."""
    key = uuid.uuid4().hex[:8]
    with database() as connection:
        row = (key, order.item, order.qty)
        connection.execute("INSERT INTO orders (id, item, qty) VALUES (?, ?, ?)", row)
    return {"id": key}


@app.post("/orders/{order_id}/state")
def set_state(order_id: str, state: str) -> dict[str, str]:
    """Set the state of an order."""
    now = datetime.now(UTC).isoformat()
    with database() as connection:
        found = connection.execute(
            "UPDATE orders SET state = ?, changed_at = ? WHERE id = ?", (state, now, order_id)
        )
        if not found.rowcount:
            raise HTTPException(404, f"there is no order {order_id}")
    return {"state": state}


@app.get("/secret")
def read_secret(x_api_key: Annotated[str, Header()] = "") -> str:
    """What only those with the key read."""
    if x_api_key != "k3y":
        raise HTTPException(401, "no key")
    return "the secret"
