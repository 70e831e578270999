"""ALTER TYPE … ADD VALUE: an enumeration with one more label."""

from __future__ import annotations

from dataclasses import replace

from hornbeam_server.schema.ddl.alterations import AddLabel
from hornbeam_server.schema.drafts import Place
from hornbeam_server.schema.enumerations import MAX_LABEL_BYTES, Enumeration
from hornbeam_server.schema.errors import SchemaError


def with_label(enumeration: Enumeration, action: AddLabel) -> Enumeration:
    """The enumeration with the label at its place; the same one if it has the label, and IF NOT
    EXISTS says so. Raises SchemaError."""
    labels = list(enumeration.labels)
    if action.label in labels:
        if action.guarded:
            return enumeration
        raise _error(
            f"{enumeration.sql} has the label {action.label} already.",
            "Choose another label, or write ADD VALUE IF NOT EXISTS.",
        )
    if not action.label or len(action.label.encode()) > MAX_LABEL_BYTES:
        raise _error(
            f"The label {action.label!r} is empty or too long.",
            f"A label has 1 to {MAX_LABEL_BYTES} bytes.",
        )
    at = len(labels)
    if action.next_to is not None:
        if action.next_to not in labels:
            raise _error(
                f"{enumeration.sql} has no label {action.next_to}.",
                f"Its labels are: {', '.join(labels)}.",
            )
        at = labels.index(action.next_to) + (not action.before)
    labels.insert(at, action.label)
    return replace(enumeration, labels=tuple(labels)).following(enumeration)


def _error(message: str, cure: str) -> SchemaError:
    return Place().error(message, cure=cure)
