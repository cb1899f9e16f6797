"""The customers: contact data, addresses, notes."""

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Id, Limit, Text, _like
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _me, _require

MOST_ADDRESSES = 4


def _customer(db: Db, customer_id: int) -> Row:
    customer = db.one("SELECT * FROM customers WHERE id = ?", customer_id)
    if customer is None:
        raise ToolError(f"There is no customer {customer_id}.")
    return customer


def _active_customer(db: Db, customer_id: int) -> Row:
    customer = _customer(db, customer_id)
    if customer["status"] != "active":
        raise ToolError(f"Customer {customer_id} is {customer['status']}.")
    return customer


def search_customers(db: Db, query: Text, limit: Limit = 20) -> list[Row]:
    """Find customers by a part of their name, e-mail or phone number."""
    return db.all(
        "SELECT id, name, email, phone, status FROM customers WHERE name LIKE ?1 ESCAPE '\\' OR "
        "email LIKE ?1 ESCAPE '\\' OR phone LIKE ?1 ESCAPE '\\' ORDER BY name, id LIMIT ?2",
        _like(query),
        limit,
    )


def get_customer(db: Db, customer_id: Id) -> Row:
    """Show one customer with all addresses and the number of notes. The owner is the employee who
    looks after them."""
    customer = _customer(db, customer_id)
    customer["addresses"] = db.all(
        "SELECT id, street, city, postcode, is_main FROM addresses WHERE customer_id = ? ORDER BY "
        "id",
        customer_id,
    )
    customer["num_notes"] = db.value(
        "SELECT count(*) FROM customer_notes WHERE customer_id = ?", customer_id
    )
    return customer


def list_household(db: Db, customer_id: Id) -> list[Row]:
    """List the customers who have the same main address as this one, including this one."""
    _customer(db, customer_id)
    return db.all(
        "SELECT c.id, c.name, c.email, c.phone, c.status FROM addresses a JOIN addresses b ON "
        "b.street = a.street AND b.postcode = a.postcode AND b.is_main = 1 JOIN customers c ON "
        "c.id = b.customer_id WHERE a.customer_id = ? AND a.is_main = 1 ORDER BY c.name, c.id",
        customer_id,
    )


def list_customers_of(db: Db, employee_id: Id, limit: Limit = 20) -> list[Row]:
    """List the customers whom an employee looks after, by name."""
    return db.all(
        "SELECT id, name, email, phone, status, since FROM customers WHERE owner_id = ? ORDER BY "
        "name, id LIMIT ?",
        employee_id,
        limit,
    )


def list_customer_notes(db: Db, customer_id: Id) -> list[Row]:
    """List the notes on a customer with their authors, the latest first."""
    _customer(db, customer_id)
    return db.all(
        "SELECT n.id, n.body, n.written_at, e.name AS author FROM customer_notes n JOIN employees "
        "e ON e.id = n.author_id WHERE n.customer_id = ? ORDER BY n.written_at DESC, n.id DESC",
        customer_id,
    )


def update_customer_contact(
    db: Db, customer_id: Id, email: Text | None = None, phone: Text | None = None
) -> Row:
    """Change the e-mail, the phone number or both of an active customer. What is not given stays
    as it is."""
    customer = _active_customer(db, customer_id)
    new_email = customer["email"] if email is None else email.strip().lower()
    new_phone = customer["phone"] if phone is None else phone.strip()
    name, _, host = new_email.partition("@")
    if not name or "." not in host or " " in new_email:
        raise ToolError(f"{new_email!r} is not an e-mail.")
    other = db.value("SELECT id FROM customers WHERE email = ? AND id <> ?", new_email, customer_id)
    if other is not None:
        raise ToolError(f"Customer {other} has this e-mail already.")
    db.run(
        "UPDATE customers SET email = ?, phone = ? WHERE id = ?", new_email, new_phone, customer_id
    )
    return _customer(db, customer_id)


def add_address(db: Db, customer_id: Id, street: Text, city: Text, postcode: Text) -> Row:
    """Add an address to the record of an active customer. The main address stays the main one."""
    _active_customer(db, customer_id)
    known = db.all("SELECT street, postcode FROM addresses WHERE customer_id = ?", customer_id)
    if len(known) >= MOST_ADDRESSES:
        raise ToolError(f"A customer has {MOST_ADDRESSES} addresses at most.")
    if {"street": street, "postcode": postcode} in known:
        raise ToolError("The customer has this address already.")
    address: Row = {
        "customer_id": customer_id,
        "street": street,
        "city": city,
        "postcode": postcode,
        "is_main": int(not known),
    }
    return {"address_id": db.insert("addresses", **address), **address}


def set_main_address(db: Db, customer_id: Id, address_id: Id) -> Row:
    """Make another of a customer's addresses the main one. The former main address is kept."""
    _active_customer(db, customer_id)
    address = db.one(
        "SELECT * FROM addresses WHERE id = ? AND customer_id = ?", address_id, customer_id
    )
    if address is None:
        raise ToolError(f"Customer {customer_id} has no address {address_id}.")
    if address["is_main"]:
        raise ToolError(f"Address {address_id} is the main one already.")
    db.run("UPDATE addresses SET is_main = 0 WHERE customer_id = ? AND is_main = 1", customer_id)
    db.run("UPDATE addresses SET is_main = 1 WHERE id = ?", address_id)
    return {"address_id": address_id, **address, "is_main": 1}


def add_customer_note(db: Db, customer_id: Id, body: Text) -> Row:
    """Write a note on a customer's record, in your own name."""
    _customer(db, customer_id)
    note: Row = {
        "customer_id": customer_id,
        "author_id": _me(db)["id"],
        "body": body,
        "written_at": db.now,
    }
    return {"note_id": db.insert("customer_notes", **note), **note}


def assign_customer(db: Db, customer_id: Id, employee_id: Id) -> Row:
    """Let another active employee look after a customer, as the owner of the record."""
    customer = _active_customer(db, customer_id)
    _active_employee(db, employee_id)
    if customer["owner_id"] == employee_id:
        raise ToolError(f"Employee {employee_id} is the owner already.")
    db.run("UPDATE customers SET owner_id = ? WHERE id = ?", employee_id, customer_id)
    return _customer(db, customer_id)


def block_customer(db: Db, customer_id: Id) -> Row:
    """Block an active customer. Only supervisors and managers may do this."""
    _require(db, "supervisor")
    _active_customer(db, customer_id)
    db.run("UPDATE customers SET status = 'blocked' WHERE id = ?", customer_id)
    return _customer(db, customer_id)
