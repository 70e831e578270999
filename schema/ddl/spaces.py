"""The schemas of a file: which schema a name belongs to.

A file of PostgreSQL names schemas before names and in SET search_path, one of SQL Server before
names, one of MySQL names databases before names and in USE. Two are left out: the schema that the
dialect has by default, which is `public` here, and the only schema or database of a file that does
not create it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hornbeam_server.schema.counters import sequence_names
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.errors import UnknownName
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import DATABASE, PUBLIC
from hornbeam_server.schema.model import Schema as _Schema
from hornbeam_server.schema.namespaces import SYSTEM_SCHEMAS, existing, joined, parted
from hornbeam_server.schema.render import spelled

_PART = r"(?:\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|\w+)"
NAME = rf"{_PART}(?:\s*\.\s*{_PART})*"
_PARTS = re.compile(_PART)


@dataclass(frozen=True, slots=True)
class Spaces:
    """The schemas that are known at a statement. `declared` are those besides `public`, `left_out`
    those whose names are left out. `names` are the full names of what is declared, and `path` is
    the search path of names without a schema."""

    source: Source = Source.POSTGRES
    declared: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    path: tuple[str, ...] = (PUBLIC,)

    @classmethod
    def of(cls, schema: _Schema, path: Sequence[str] = (PUBLIC,)) -> Spaces:
        """The schemas of the schema in force, for a statement under a search path."""
        named = {view.name for view in schema.views} | {index.name for index in schema.indexes}
        named |= {enumeration.full for enumeration in schema.enumerations}
        named |= {domain.name for domain in schema.domains}
        names = sequence_names(schema).union(schema.names, named)
        return cls(Source.POSTGRES, frozenset(schema.spaces), frozenset(), names).along(path)

    def along(self, path: Sequence[str]) -> Spaces:
        """These schemas, with those of a search path that exist and hold relations."""
        written = [self.space(each) for each in path]
        found = (each for each in existing(written, self.declared) if each not in SYSTEM_SCHEMAS)
        return replace(self, path=tuple(found))

    def full(self, parts: Sequence[str]) -> str:
        """The full name of the parts of a name, for example ("shop", "item"). Among several parts
        the last two count. A name without a schema is searched for along the path; a new one is in
        its first schema. Raises UnknownName if the path has none."""
        *before, name = parts
        if before:
            return joined(self.space(before[-1]), name)
        if not self.path:
            raise UnknownName(
                f"{name} has no schema, and no schema of the search path exists.",
                cure=f"Write {PUBLIC}.{identifier(name)}, or SET search_path TO {PUBLIC}.",
                name=name,
            )
        found = (joined(space, name) for space in self.path)
        return next((each for each in found if each in self.names), joined(self.path[0], name))

    def found(self, name: str) -> str:
        """The full name for one that may lack its schema, and that was joined already."""
        searched = self.path and self.parted(name)[0] == PUBLIC
        return self.full([name]) if searched else name

    def in_query(self, parts: Sequence[str]) -> str | None:
        """The SQL that names the relation without a search path; None if `parts` do."""
        if len(parts) > 1 and parts[-2] in SYSTEM_SCHEMAS:
            return None
        full = self.full(parts)
        written = joined(parts[-2], parts[-1]) if len(parts) > 1 else parts[-1]
        return None if full == written else spelled(full, self.declared)

    def space(self, written: str) -> str:
        """The schema that `written` before a name means."""
        return PUBLIC if written in self.left_out or written == self._default else written

    @property
    def _default(self) -> str:
        return self.source.default_schema or PUBLIC

    def full_name(self, text: str) -> str:
        """The full name of a name in the text of a statement, such as `shop."Item"`."""
        return self.full(self.parts(text))

    def parts(self, text: str) -> list[str]:
        """The parts of a name in the text of a statement."""
        return [self._folded(part) for part in _PARTS.findall(text)]

    def last_name(self, text: str) -> str:
        """The last part of a name, as it is stored."""
        return self.parts(text)[-1]

    def _folded(self, part: str) -> str:
        quoted = part[:1] in '"`['
        name = part[1:-1].replace('""', '"') if quoted else part
        return name if quoted and not self.source.folds_quoted else name.lower()

    def parted(self, full: str) -> tuple[str, str]:
        return parted(full, self.declared)

    def beside(self, full: str, name: str) -> str:
        """The full name of `name` in the schema of `full`."""
        return joined(self.parted(full)[0], name)


PUBLIC_ALONE = Spaces()
"""The schemas of a statement of PostgreSQL without further ones."""


def is_catalog(written: str, source: Source) -> bool:
    """Whether the first of three parts of a name is the name of the database."""
    return source is Source.SQLSERVER or written == DATABASE
