"""The products, their categories and prices."""

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Cents, Id, Limit, Text, _like
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _me, _require

MOST_PRICE_CHANGE_PERCENT = 20


def _product(db: Db, product_id: int) -> Row:
    product = db.one("SELECT * FROM products WHERE id = ?", product_id)
    if product is None:
        raise ToolError(f"There is no product {product_id}.")
    return product


def _active_product(db: Db, product_id: int) -> Row:
    product = _product(db, product_id)
    if product["status"] != "active":
        raise ToolError(f"Product {product_id} is {product['status']}.")
    return product


def _category(db: Db, category_id: int) -> Row:
    category = db.one("SELECT * FROM categories WHERE id = ?", category_id)
    if category is None:
        raise ToolError(f"There is no category {category_id}.")
    return category


def list_categories(db: Db) -> list[Row]:
    """All categories with who leads them and the number of active products."""
    return db.all(
        "SELECT c.id, c.name, c.lead_id, (SELECT count(*) FROM products p"
        " WHERE p.category_id = c.id AND p.status = 'active') AS num_active"
        " FROM categories c ORDER BY c.name"
    )


def search_products(
    db: Db, query: Text | None = None, category_id: Id | None = None, limit: Limit = 20
) -> list[Row]:
    """Products whose name or code contains the text, of one category; each if given."""
    return db.all(
        "SELECT id, code, name, category_id, price_cents, status FROM products"
        " WHERE (name LIKE ?1 ESCAPE '\\' OR code LIKE ?1 ESCAPE '\\')"
        " AND (?2 IS NULL OR category_id = ?2) ORDER BY name LIMIT ?3",
        _like(query or ""),
        category_id,
        limit,
    )


def get_product(db: Db, product_id: Id) -> Row:
    """One product with its category's name and its price in hundredths."""
    product = _product(db, product_id)
    product["category"] = _category(db, product["category_id"])["name"]
    return product


def list_price_changes(db: Db, product_id: Id) -> list[Row]:
    """Every change of a product's price, the latest first."""
    _product(db, product_id)
    return db.all(
        "SELECT id, old_cents, new_cents, changed_by, changed_at FROM price_changes"
        " WHERE product_id = ? ORDER BY changed_at DESC, id DESC",
        product_id,
    )


def set_price(db: Db, product_id: Id, price_cents: Cents) -> Row:
    """Change the price of an active product. A clerk may change it by a limited share only."""
    product = _active_product(db, product_id)
    old = product["price_cents"]
    if price_cents == old:
        raise ToolError(f"Product {product_id} has this price already.")
    if abs(price_cents - old) * 100 > old * MOST_PRICE_CHANGE_PERCENT:
        _require(db, "supervisor")
    db.run("UPDATE products SET price_cents = ? WHERE id = ?", price_cents, product_id)
    db.insert(
        "price_changes",
        product_id=product_id,
        old_cents=old,
        new_cents=price_cents,
        changed_by=_me(db)["id"],
        changed_at=db.now,
    )
    return _product(db, product_id)


def move_product(db: Db, product_id: Id, category_id: Id) -> Row:
    """Put a product into another category."""
    product = _product(db, product_id)
    _category(db, category_id)
    if product["category_id"] == category_id:
        raise ToolError(f"Product {product_id} is in category {category_id} already.")
    db.run("UPDATE products SET category_id = ? WHERE id = ?", category_id, product_id)
    return _product(db, product_id)


def retire_product(db: Db, product_id: Id) -> Row:
    """Take an active product out of use; it can be restored."""
    _active_product(db, product_id)
    db.run("UPDATE products SET status = 'retired' WHERE id = ?", product_id)
    return _product(db, product_id)


def restore_product(db: Db, product_id: Id) -> Row:
    """Bring a retired product back into use."""
    if _product(db, product_id)["status"] == "active":
        raise ToolError(f"Product {product_id} is active already.")
    db.run("UPDATE products SET status = 'active' WHERE id = ?", product_id)
    return _product(db, product_id)


def set_category_lead(db: Db, category_id: Id, employee_id: Id) -> Row:
    """Make another active employee the lead of a category. For supervisors and managers."""
    _require(db, "supervisor")
    category = _category(db, category_id)
    _active_employee(db, employee_id)
    if category["lead_id"] == employee_id:
        raise ToolError(f"Employee {employee_id} leads this category already.")
    db.run("UPDATE categories SET lead_id = ? WHERE id = ?", employee_id, category_id)
    return _category(db, category_id)
