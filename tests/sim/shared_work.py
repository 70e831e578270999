"""Work that the simulated processes of one run, or of the crashes of one kind of work, share,
because they run in one Python process.

A run has dozens of simulated processes. Each parses the same statements, compiles the same
catalogs, and opens a DuckDB. The results of the first two are values that nothing changes, and a
DuckDB between two sessions is as good as a new one. So a run takes the same course whether its
processes share them or not, and less time if they do.

Nothing is kept from one run for the next: a planted bug may change what is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

from sqlglot import exp

from hornbeam_server.maintain.deltas import catalog_programs
from hornbeam_server.maintain.deltas.catalog_programs import program_of
from hornbeam_server.maintain.deltas.program import DeltaProgram
from hornbeam_server.maintain.programs import Programs, compile_programs
from hornbeam_server.query.binding import binder
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.workers import statements
from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.statements import Statements
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.codec import encode_catalog
from hornbeam_server.schema.views import DeferredView
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.txlayer.statements import write_compiler
from hornbeam_server.txlayer.transactions import compiled_catalog


@contextmanager
def shared_work() -> Iterator[None]:
    """Processes that run while the context lasts share their work."""
    databases = _Databases()
    with ExitStack() as ended:
        ended.callback(databases.close)
        shared_parse = _shared_parse()
        ended.enter_context(patch.object(binder, "parse", shared_parse))
        ended.enter_context(patch.object(write_compiler, "parse", shared_parse))
        ended.enter_context(patch.object(compiled_catalog, "compile_programs", _shared_programs()))
        ended.enter_context(patch.object(catalog_programs, "program_of", _shared_deltas()))
        ended.enter_context(patch.object(statements, "Statements", databases.take))
        yield


def _shared_parse() -> Callable[..., exp.Expr]:
    """`parse` that copies its tree when a text comes again. A tree belongs to the caller, which
    changes it, so none is given out twice."""
    trees: dict[tuple[str, bool], exp.Expr | None] = {}

    def shared(sql: str, *, sequences: bool = False) -> exp.Expr:
        key = sql, sequences
        known = trees.get(key)
        if known is not None:
            return known.copy()
        tree = parse(sql, sequences=sequences)
        trees[key] = tree.copy() if key in trees else None
        return tree

    return shared


def _shared_programs() -> Callable[[Catalog, Codecs], Programs]:
    """`compile_programs` that compiles equal catalogs once."""
    compiled: dict[bytes, Programs] = {}

    def shared(catalog: Catalog, codecs: Codecs) -> Programs:
        key = encode_catalog(catalog)
        if key not in compiled:
            compiled[key] = compile_programs(catalog, codecs)
        return compiled[key]

    return shared


def _shared_deltas() -> Callable[[Catalog, DeferredView], DeltaProgram]:
    """`program_of` that compiles a view once for all catalogs that differ in what no program
    reads."""
    compiled: dict[tuple[bytes, str], DeltaProgram] = {}

    def shared(catalog: Catalog, view: DeferredView) -> DeltaProgram:
        alike = replace(catalog, version=1, row_counts=(), since=0)
        key = encode_catalog(alike), view.name
        if key not in compiled:
            compiled[key] = program_of(catalog, view)
        return compiled[key]

    return shared


class _Databases:
    """The DuckDBs of a run. One that a process closes serves the next process."""

    def __init__(self) -> None:
        self._idle: list[_Kept] = []

    def take(self, options: Options) -> Statements:
        """A DuckDB with these options and no session."""
        for kept in self._idle:
            if kept.options == options:
                self._idle.remove(kept)
                return kept
        return _Kept(options, self._idle)

    def close(self) -> None:
        for kept in self._idle:
            kept.end()


class _Kept(Statements):
    def __init__(self, options: Options, idle: list[_Kept]) -> None:
        super().__init__(options)
        self.options = options
        self._idle = idle

    def close(self) -> None:
        """End the session, and wait for the next process."""
        self._end()
        self._idle.append(self)

    def end(self) -> None:
        super().close()
