"""Syntax trees that are freed by reference counting.

Each node refers to its parent, so a tree has cycles, and reference counts do not free it. Python's
cyclic collector does, but no other thread runs during its work: for a second, for the trees of a
statement of 100 000 words. Therefore every planner unlinks its trees when it has finished.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from sqlglot import exp


def nodes_of(tree: exp.Expr) -> list[exp.Expr]:
    """The nodes of a tree in the order of `tree.walk()`, in half of its time. Planners go through a
    tree some twenty times."""
    found = [tree]
    for node in found:  # the list grows as it is read
        for value in node.args.values():
            if isinstance(value, list):
                found += [part for part in value if isinstance(part, exp.Expr)]
            elif isinstance(value, exp.Expr):
                found.append(value)
    return found


def unlink(tree: exp.Expr) -> None:
    """Remove the parent from each node. The tree can still be traversed downwards, written as SQL
    and copied; the nodes of a copy have parents."""
    unlink_all(nodes_of(tree))


def unlink_all(nodes: Iterable[exp.Expr]) -> None:
    for node in nodes:
        node.parent = None


def unlink_gone(before: Iterable[exp.Expr], now: Iterable[exp.Expr]) -> None:
    """Unlink the nodes that a change removed from a tree, given its nodes before and after. For
    changes by code that does not report what it removes, such as sqlglot's; `supersede` reads only
    what it removes."""
    kept = set(map(id, now))
    unlink_all(node for node in before if id(node) not in kept)


def supersede(old: exp.Expr, new: exp.Expr) -> None:
    """Replace `old` by `new` in its tree, and unlink the nodes of `old` that `new` does not
    contain. `new` may contain `old`, or parts of it."""
    old.replace(new)
    _unlink_removed(old)


def _unlink_removed(node: exp.Expr) -> None:
    """Unlink a tree that was removed from another one, but not the parts that have moved on."""
    if node.parent is not None:
        return
    left = [node]
    while left:
        gone = left.pop()
        gone.parent = None
        left += [part for part in gone.iter_expressions() if part.parent is gone]


def written(tree: exp.Expr, dialect: str, **options: Any) -> str:
    """`tree` as text. Unlinks the copy from which sqlglot writes the text."""
    copy = tree.copy()
    try:
        text: str = copy.sql(dialect, copy=False, **options)
    finally:
        unlink(copy)
    return text


def unlink_unfinished(failure: BaseException) -> None:
    """Unlink the partial trees of a parser that failed: its frames hold the parts, the traceback
    holds the frames, and the parser holds the exception."""
    for frame, _ in traceback.walk_tb(failure.__traceback__):
        for part in _parts(frame.f_locals.values()):
            unlink(part.root())
    failure.__traceback__ = None


def _parts(values: Iterable[object]) -> Iterator[exp.Expr]:
    for value in values:
        if isinstance(value, exp.Expr):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, exp.Expr))
