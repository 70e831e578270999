"""The comments of a planned catalog: those in force on what stays, and those that the DDL sets.

A DDL file sets comments. An object without a comment in the file keeps the comment that it has, so
that a file need not repeat what COMMENT ON has set since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.commented import copied_comments, kept_comments, objects_of
from hornbeam_server.schema.comments import Comment, with_comments
from hornbeam_server.schema.ddl.comments import CommentDraft, comment_on
from hornbeam_server.schema.ddl.load import Reading
from hornbeam_server.schema.diff import DiffRow
from hornbeam_server.schema.errors import SqlError


@dataclass(frozen=True, slots=True)
class PlannedComments:
    """The comments of the planned catalog; those among them that the DDL changes, as rows for
    display; and the notes about comments that are passed over."""

    comments: tuple[Comment, ...]
    changes: tuple[DiffRow, ...]
    notes: tuple[str, ...]


def planned_comments(reading: Reading, current: Catalog, planned: Catalog) -> PlannedComments:
    """The comments of `planned`, a catalog with the relations and views that `reading` declares.
    `current` is the catalog in force, under the new names. A comment on an object that the file
    does not have is passed over: a dump has comments on objects that are passed over, too."""
    found, notes = list[Comment](), list[str]()
    for draft in reading.comments:
        try:
            found.append(comment_on(draft, objects_of(planned), planned.schema.spaces))
        except SqlError:
            notes.append(_note(draft))
    kept = kept_comments(current, planned)
    comments = with_comments(with_comments(_copied(reading, current, planned, kept), kept), found)
    return PlannedComments(comments, tuple(_changes(kept, comments, found)), tuple(notes))


def _copied(
    reading: Reading, current: Catalog, planned: Catalog, kept: Sequence[Comment]
) -> Iterator[Comment]:
    """The comments that new relations have by LIKE … INCLUDING COMMENTS."""
    for source, copy in reading.commented_copies:
        if copy not in current.schema:
            yield from copied_comments(kept, source, copy, objects_of(planned))


def _note(draft: CommentDraft) -> str:
    return (
        f"passed over: COMMENT ON {draft.shown} (line {draft.place.line}), because there is no such"
        " object"
    )


def _changes(
    before: Sequence[Comment], after: Sequence[Comment], said: Sequence[Comment]
) -> Iterator[DiffRow]:
    known = {comment.on: comment.text for comment in before}
    left = {comment.on: comment.text for comment in after}
    for key in dict.fromkeys((*left, *(comment.on for comment in said))):
        text = left.get(key, "")
        if text != known.get(key, ""):
            name = ".".join(filter(None, (key.name, key.member)))
            yield DiffRow("comment", key.kind.value, name, text or "no comment")
