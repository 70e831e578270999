"""Statements under the search path of a request, written with the schemas of their names."""

from __future__ import annotations

from typing import TypeVar

from hornbeam_server.api.rest.request_models import (
    ExplainBody,
    QueryBody,
    StatementBody,
    TransactionBody,
)
from hornbeam_server.query.binding.search_path import in_search_path
from hornbeam_server.schema.caches import TextCache
from hornbeam_server.schema.catalog import Catalog

STATEMENTS = 2_000
"""Maximum number of statements that are cached with their schemas."""
_Statement = TypeVar("_Statement", QueryBody, ExplainBody, StatementBody)


class SearchPaths:
    """Writes out statements for the catalog in force. A statement without a search path stays as it
    is, at no cost."""

    def __init__(self) -> None:
        self._of: _OfCatalog | None = None

    def query(self, body: QueryBody, catalog: Catalog) -> QueryBody:
        """The body with full names, also in the writes before the query. Raises SqlError."""
        pending = [self._written_out(item, catalog) for item in body.pending]
        body = self._written_out(body, catalog)
        return body if pending == body.pending else body.model_copy(update={"pending": pending})

    def explanation(self, body: ExplainBody, catalog: Catalog) -> ExplainBody:
        """The body with full names. Raises SqlError."""
        return self._written_out(body, catalog)

    def transaction(self, body: TransactionBody, catalog: Catalog) -> TransactionBody:
        """The body with full names. Raises SqlError."""
        statements = [self._written_out(each, catalog) for each in body.statements]
        if statements == body.statements:
            return body
        return body.model_copy(update={"statements": statements})

    def _written_out(self, body: _Statement, catalog: Catalog) -> _Statement:
        if body.search_path is None:
            return body
        known = self._of
        if known is None or known.catalog is not catalog:
            known = self._of = _OfCatalog(catalog)
        sql = known.written_out(body.sql, tuple(body.search_path))
        return body.model_copy(update={"sql": sql, "search_path": None})


class _OfCatalog:
    """A cache of statements with full names, for one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._cache: TextCache[tuple[str, tuple[str, ...]], str] = TextCache(STATEMENTS)

    def written_out(self, sql: str, path: tuple[str, ...]) -> str:
        found = self._cache.get((sql, path))
        if found is None:
            found = in_search_path(sql, self.catalog, path)
            self._cache.put((sql, path), len(sql), found)
        return found
