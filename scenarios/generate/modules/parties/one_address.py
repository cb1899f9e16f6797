"""The tools of customers in worlds where a customer has one address, in the record itself.

structure/address_shapes.py puts them in the place of the tools of the same name.
"""

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Id, Text
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer


def get_customer(db: Db, customer_id: Id) -> Row:
    """Show one customer with their address and the number of notes. The owner is the employee who
    looks after them."""
    customer = _customer(db, customer_id)
    customer["num_notes"] = db.value(
        "SELECT count(*) FROM customer_notes WHERE customer_id = ?", customer_id
    )
    return customer


def list_household(db: Db, customer_id: Id) -> list[Row]:
    """List the customers who have the same address as this one, including this one."""
    home = _customer(db, customer_id)
    return db.all(
        "SELECT id, name, email, phone, status FROM customers WHERE street = ? AND postcode = ? "
        "ORDER BY name, id",
        home["street"],
        home["postcode"],
    )


def change_address(db: Db, customer_id: Id, street: Text, city: Text, postcode: Text) -> Row:
    """Write another address into the record of an active customer. The former one is not kept."""
    customer = _active_customer(db, customer_id)
    if (street, postcode) == (customer["street"], customer["postcode"]):
        raise ToolError("The customer has this address already.")
    db.run(
        "UPDATE customers SET street = ?, city = ?, postcode = ? WHERE id = ?",
        street,
        city,
        postcode,
        customer_id,
    )
    return _customer(db, customer_id)
