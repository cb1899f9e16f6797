"""The documents: what is written down, in which version, and who may see it."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Id, Limit, Text, _like
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _me, _require

MOST_SHARES = 4
DOCUMENT_REST_DAYS = 30
DocumentStatus = Literal["draft", "approved", "archived"]
ShareMode = Literal["read", "edit"]


def _document(db: Db, document_id: int) -> Row:
    document = db.one("SELECT * FROM documents WHERE id = ?", document_id)
    if document is None:
        raise ToolError(f"There is no document {document_id}.")
    return document


def _document_in_use(db: Db, document_id: int) -> Row:
    document = _document(db, document_id)
    if document["status"] == "archived":
        raise ToolError(f"Document {document_id} is archived.")
    return document


def _share_mode(db: Db, document_id: int, employee_id: int) -> ShareMode | None:
    """What somebody may do with a document by its shares; None: there is none for them."""
    mode: ShareMode | None = db.value(
        "SELECT mode FROM document_shares WHERE document_id = ? AND employee_id = ?",
        document_id,
        employee_id,
    )
    return mode


def search_documents(
    db: Db,
    query: Text | None = None,
    owner_id: Id | None = None,
    status: DocumentStatus | None = None,
    limit: Limit = 20,
) -> list[Row]:
    """Find documents by a part of their reference or title, by owner, by status, or by any of
    these together. Without any of them all documents are listed."""
    return db.all(
        "SELECT id, reference, title, owner_id, classification, status FROM documents WHERE (?1 "
        "IS NULL OR reference LIKE ?1 ESCAPE '\\' OR title LIKE ?1 ESCAPE '\\') AND (?2 IS NULL OR "
        "owner_id = ?2) AND (?3 IS NULL OR status = ?3) ORDER BY title, id LIMIT ?4",
        None if query is None else _like(query),
        owner_id,
        status,
        limit,
    )


def get_document(db: Db, document_id: Id) -> Row:
    """Show one document with its versions, the latest first, and who has a share to read or edit
    it."""
    document = _document(db, document_id)
    document["versions"] = db.all(
        "SELECT v.number, v.summary, v.author_id, v.made_at FROM document_versions v WHERE "
        "v.document_id = ? ORDER BY v.number DESC",
        document_id,
    )
    document["shares"] = db.all(
        "SELECT h.employee_id, e.name, e.role, h.mode FROM document_shares h JOIN employees e ON "
        "e.id = h.employee_id WHERE h.document_id = ? ORDER BY e.name",
        document_id,
    )
    return document


def add_version(db: Db, document_id: Id, summary: Text) -> Row:
    """Enter a new version of a document in your own name, with a summary of what is new. The
    document becomes a draft again. You need a share to edit, unless you are its owner, a
    supervisor or a manager."""
    document = _document_in_use(db, document_id)
    me = _me(db)["id"]
    if document["owner_id"] != me and _share_mode(db, document_id, me) != "edit":
        _require(db, "supervisor")
    number = 1 + int(
        db.value(
            "SELECT coalesce(max(number), 0) FROM document_versions WHERE document_id = ?",
            document_id,
        )
    )
    db.insert(
        "document_versions",
        document_id=document_id,
        number=number,
        summary=summary.strip(),
        author_id=me,
        made_at=db.now,
    )
    db.run("UPDATE documents SET status = 'draft' WHERE id = ?", document_id)
    return {
        "document_id": document_id,
        "number": number,
        "summary": summary.strip(),
        "status": "draft",
    }


def approve_document(db: Db, document_id: Id) -> Row:
    """Approve a draft in its latest version."""
    document = _document(db, document_id)
    if document["status"] != "draft":
        raise ToolError(f"Document {document_id} is {document['status']}.")
    db.run("UPDATE documents SET status = 'approved' WHERE id = ?", document_id)
    return _document(db, document_id)


def archive_document(db: Db, document_id: Id) -> Row:
    """Archive an approved document. All its shares end."""
    document = _document(db, document_id)
    if document["status"] != "approved":
        raise ToolError(f"Document {document_id} is {document['status']}.")
    db.run("UPDATE documents SET status = 'archived' WHERE id = ?", document_id)
    db.run("DELETE FROM document_shares WHERE document_id = ?", document_id)
    return _document(db, document_id)


def set_share(db: Db, document_id: Id, employee_id: Id, mode: ShareMode) -> Row:
    """Give an active employee a share to read or to edit a document, or change the share that they
    have. Archived documents are not shared."""
    document = _document_in_use(db, document_id)
    _active_employee(db, employee_id)
    if document["owner_id"] == employee_id:
        raise ToolError(f"Employee {employee_id} is the owner and needs no share.")
    known = _share_mode(db, document_id, employee_id)
    if known == mode:
        raise ToolError(f"Employee {employee_id} has this share already.")
    if known is not None:
        db.run(
            "UPDATE document_shares SET mode = ? WHERE document_id = ? AND employee_id = ?",
            mode,
            document_id,
            employee_id,
        )
    else:
        num = db.value("SELECT count(*) FROM document_shares WHERE document_id = ?", document_id)
        if num >= MOST_SHARES:
            raise ToolError(f"A document has {MOST_SHARES} shares at most.")
        db.insert("document_shares", document_id=document_id, employee_id=employee_id, mode=mode)
    return {"document_id": document_id, "employee_id": employee_id, "mode": mode}


def remove_share(db: Db, document_id: Id, employee_id: Id) -> Row:
    """Take away the share that an employee has of a document."""
    _document(db, document_id)
    if _share_mode(db, document_id, employee_id) is None:
        raise ToolError(f"Employee {employee_id} has no share of document {document_id}.")
    db.run(
        "DELETE FROM document_shares WHERE document_id = ? AND employee_id = ?",
        document_id,
        employee_id,
    )
    return {"document_id": document_id, "employee_id": employee_id}


def change_owner(db: Db, document_id: Id, employee_id: Id) -> Row:
    """Make another active employee the owner of a document; a share that they had ends. Only
    supervisors and managers may do this."""
    _require(db, "supervisor")
    document = _document_in_use(db, document_id)
    _active_employee(db, employee_id)
    if document["owner_id"] == employee_id:
        raise ToolError(f"Employee {employee_id} is the owner already.")
    db.run("UPDATE documents SET owner_id = ? WHERE id = ?", employee_id, document_id)
    db.run(
        "DELETE FROM document_shares WHERE document_id = ? AND employee_id = ?",
        document_id,
        employee_id,
    )
    return _document(db, document_id)
