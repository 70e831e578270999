"""Syntax trees that are freed by reference counting.

Each node refers to its parent, so a tree has cycles, and reference counts do not free it. Python's
cyclic collector does, but no other thread runs during its work: for a second, for the trees of a
statement of 100 000 words. Therefore every planner unlinks its trees when it has finished.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

from sqlglot import exp

E = TypeVar("E", bound=exp.Expr)


@overload
def nodes_of(tree: exp.Expr) -> list[exp.Expr]: ...
@overload
def nodes_of(tree: exp.Expr, *types: type[E]) -> list[E]: ...
def nodes_of(tree: exp.Expr, *types: type[exp.Expr]) -> Sequence[exp.Expr]:
    """The nodes of a tree, or those of some types, in the order of `tree.walk()` and in half of its
    time. Planners go through a tree some twenty times. A change of the tree does not change the
    list."""
    found = [tree]
    for node in found:  # the list grows as it is read
        for value in node.args.values():
            if isinstance(value, list):
                found += [part for part in value if isinstance(part, exp.Expr)]
            elif isinstance(value, exp.Expr):
                found.append(value)
    return [node for node in found if isinstance(node, types)] if types else found


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
    copy = _copied(tree)
    try:
        text: str = copy.sql(dialect, copy=False, **options)
    finally:
        unlink(copy)
    return text


def _copied(tree: exp.Expr) -> exp.Expr:
    """A copy of the tree in half of the time of `tree.copy()`. The nodes of the copy have the
    values of `meta` of the original, so that the copy is for reading only."""
    root = type(tree)()
    pairs = [(tree, root)]
    for node, copy in pairs:  # the list grows as it is read
        if node._meta is not None:
            copy._meta = dict(node._meta)
        copy._type = node._type
        for key, value in node.args.items():
            if isinstance(value, list):
                copy.args[key] = [_begun(part, copy, key, pairs, i) for i, part in enumerate(value)]
            else:
                copy.args[key] = _begun(value, copy, key, pairs)
    return root


def _begun(
    part: Any,
    parent: exp.Expr,
    key: str,
    pairs: list[tuple[exp.Expr, exp.Expr]],
    i: int | None = None,
) -> Any:
    """The beginning of a copy of a node below `parent`; other values as they are."""
    if not isinstance(part, exp.Expr):
        return part
    copy = type(part)()
    copy.parent, copy.arg_key, copy.index = parent, key, i
    pairs.append((part, copy))
    return copy


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
