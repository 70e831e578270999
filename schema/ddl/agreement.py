"""Columns of a file that reference a column of another integer type.

PostgreSQL compares an INTEGER with a BIGINT that it references. Here both sides of a foreign key
have one type, so the referencing column gets the type of the column that it references. Every value
fits, since an equal one is referenced. Without this, a file would have to be edited for each such
column: tools that once numbered rows by INTEGER leave many of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hornbeam_server.schema.drafts import ColumnDraft, RelationDraft
from hornbeam_server.schema.types import Kind

_INTEGERS = {Kind.INTEGER, Kind.BIGINT}
_Column = tuple[str, str]


def agree(relations: Mapping[str, RelationDraft]) -> None:
    """Give each referencing column of an integer type the type of the column at the end of its
    references, with a note. A column of several foreign keys follows the first one; if they differ,
    the others stay problems."""
    above: dict[_Column, _Column] = {}
    for child, parent in _references(relations):
        if child != parent:
            above.setdefault(child, parent)
    for child, parent in above.items():
        end = _end(child, above)
        mine, theirs = _column(child, relations), _column(end, relations)
        if (
            mine
            and theirs
            and mine.domain is None
            and {mine.type.kind, theirs.type.kind} == _INTEGERS
        ):
            note = f"{theirs.type.ddl()}, as {'.'.join(parent)}, which it references"
            _replace(child, theirs, note, relations)


def _references(relations: Mapping[str, RelationDraft]) -> Iterator[tuple[_Column, _Column]]:
    """The pairs of columns of all foreign keys."""
    for draft in relations.values():
        for key in draft.foreign_keys:
            parent = relations.get(key.parent.text)
            declared = parent.primary_keys[0].columns if parent and parent.primary_keys else ()
            for mine, theirs in zip(key.columns, key.parent_columns or declared, strict=False):
                yield (draft.name.text, mine.text), (key.parent.text, theirs.text)


def _end(child: _Column, above: Mapping[_Column, _Column]) -> _Column:
    """The column at the end of the references of `child`, or one column of the circle in which they
    end, the same for all of its columns."""
    passed = [child]
    while (parent := above.get(passed[-1])) is not None:
        if parent in passed:
            return min(passed[passed.index(parent) :])
        passed.append(parent)
    return passed[-1]


def _column(named: _Column, relations: Mapping[str, RelationDraft]) -> ColumnDraft | None:
    relation, name = named
    draft = relations.get(relation)
    columns = () if draft is None else draft.columns
    return next((each for each in columns if each.name.text == name), None)


def _replace(
    named: _Column, parent: ColumnDraft, note: str, relations: Mapping[str, RelationDraft]
) -> None:
    relation, name = named
    columns = relations[relation].columns
    for at, column in enumerate(columns):
        if column.name.text == name:
            whole = f"{column.note}; {note}" if column.note else note
            columns[at] = replace(column, type=parent.type, note=whole)
