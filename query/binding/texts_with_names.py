"""Names in texts of a statement, such as 'item'::regclass, and names of types, written with their
schemas under a search path."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlglot import exp

from hornbeam_server.query.system import postgresql
from hornbeam_server.query.system.definitions import named_types
from hornbeam_server.query.system.objects import Objects, objects_of
from hornbeam_server.query.system.relations import in_catalog
from hornbeam_server.query.values.names import parse_ident
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.model import PUBLIC
from hornbeam_server.schema.namespaces import joined
from hornbeam_server.schema.qualifying import Edit, folded
from hornbeam_server.schema.render import spelled
from hornbeam_server.schema.sqltext import literal_sql

_RELATION, _TYPE = "regclass", "regtype"
_ABOUT = {
    "pg_get_viewdef": _RELATION,
    "to_regclass": _RELATION,
    "to_regtype": _TYPE,
}
"""Functions whose first argument is such a text."""


def named_in_texts(tree: exp.Expr, catalog: Catalog, path: Sequence[str]) -> Iterator[Edit]:
    """The edits of the names of relations and types in texts, and of types that are named in casts.
    `path`: its schemas that exist."""
    nodes = [*tree.find_all(exp.Literal, exp.DataType)]
    texts = [(node, about) for node in nodes if (about := _about(node)) and "start" in node.meta]
    kinds = [node.args.get("kind") for node in nodes if isinstance(node, exp.DataType)]
    types = [kind for kind in kinds if isinstance(kind, exp.Identifier) and "start" in kind.meta]
    if not texts and not types:
        return
    finder = _Finder(objects_of(catalog), path)
    for literal, about in texts:
        found = finder.text(literal.name, about)
        if found is not None:
            yield Edit(literal.meta["start"], literal.meta["end"] + 1, literal_sql(found))
    for kind in types:
        found = finder.type(folded(kind))
        if found is not None:
            yield Edit(kind.meta["start"], kind.meta["end"] + 1, found)


def _about(node: exp.Expr) -> str:
    """What a text names: "regclass" or "regtype"; "" for other nodes."""
    parent = node.parent
    if not isinstance(node, exp.Literal) or not node.is_string:
        return ""
    if isinstance(parent, exp.Cast):
        kind = parent.to.args.get("kind")
        name = folded(kind) if isinstance(kind, exp.Identifier) else ""
        return name if name in {_RELATION, _TYPE} else ""
    first = isinstance(parent, exp.Anonymous) and parent.expressions[0] is node
    return _ABOUT.get(parent.name.lower(), "") if first and parent is not None else ""


class _Finder:
    """Finds relations and types along a path of schemas that exist. A name that is in the schema
    `public`, or in the system catalog, stays as it is: None."""

    def __init__(self, objects: Objects, path: Sequence[str]) -> None:
        self._objects, self._path = objects, path

    def text(self, text: str, about: str) -> str | None:
        """The text with the schema of its name. A relation that is not found is one of the first
        schema, where it is refused."""
        try:
            parts = parse_ident(text, strict=False)
        except TypeMismatch:
            return None
        if len(parts) > 1:
            return None
        if about == _TYPE:
            found = self.type(parts[0])
            return None if found is None else found + "[]" * text.rstrip().endswith("[]")
        if in_catalog(parts[0]):
            return None
        found = self._found(parts[0], self._objects.by_name)
        if found is None and self._path and PUBLIC not in self._path:
            found = joined(self._path[0], parts[0])
        return self._spelled(found)

    def type(self, name: str) -> str | None:
        """The name of a type with its schema."""
        if name in postgresql.types():
            return None
        return self._spelled(self._found(name, named_types(self._objects)))

    def _found(self, name: str, known: Mapping[str, object] | Collection[str]) -> str | None:
        full = (joined(space, name) for space in self._path)
        return next((each for each in full if each in known), None)

    def _spelled(self, full: str | None) -> str | None:
        if full is None or self._objects.space_and_name(full)[0] == PUBLIC:
            return None
        return spelled(full, self._objects.spaces)
