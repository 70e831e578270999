"""Limits on nesting, and the regrouping of long operator chains into shallow trees.

The parser, the binder and the later stages recurse at least once per level of a tree. An explicit
limit on the levels keeps them well below the interpreter's recursion limit, whose errors may occur
anywhere in the code. The limit is checked twice: on the tokens, before the parser builds a tree,
and on the tree, since some forms nest without a bracket (`x::INTEGER::TEXT::…`).

The parser nests a chain `a OR b OR c …` once per term, to the left. Chains of more than `WIDTH`
terms are regrouped into groups of `WIDTH` terms, in the same order, so that 10 000 terms form three
levels of groups. AND, OR, ||, UNION and UNION ALL give the same result in groups. So do +, - and *
of integers and decimals, except that another partial sum may overflow first; for DOUBLE the last
digit may differ from adding term by term (decision 0041).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import nodes_of, unlink_all, unlink_gone

MAX_NESTING = 100
"""Maximum nesting of brackets and CASEs, and maximum number of consecutive signs or NOTs."""
MAX_DEPTH = 500
"""Maximum depth of the tree: a bracket around a call, an operator and a negation has depth four."""
MAX_READ_AGAIN = 100_000
"""Maximum number of tokens that the library's parser reads again for subscripts. In `x[1][2][3]`
it reads all of `x[1][2]` again for the last subscript, at about 20 µs per token."""
WIDTH = 64
"""Maximum terms of a chain that is not regrouped, and size of a group."""
FRAMES = 10_000
"""Recursion limit of the interpreter: more Python frames than a tree of `MAX_DEPTH` needs. In
Python 3.11 and later, almost all of these frames take no C stack."""

sys.setrecursionlimit(max(sys.getrecursionlimit(), FRAMES))

_OPENINGS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSINGS = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_OPERANDS = {TokenType.DOT, TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING}
"""Tokens that continue the operand of a subscript."""
_SIGNS = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}
_CHAINED = (exp.And, exp.Or, exp.DPipe, exp.Mul, exp.Add, exp.Sub, exp.Union)
_FLAGS = ("by_name", "safe")
"""Flags of an operator that each link keeps. ORDER BY and LIMIT apply to the whole chain."""


def too_deep() -> SqlError:
    return SqlError(
        "The statement is nested too deeply.",
        cure=f"Nest at most {MAX_NESTING} brackets, or name the inner parts in WITH.",
    )


def check_nesting(tokens: Iterable[Token]) -> None:
    """Raise SqlError for tokens on which the parser could overflow the stack, or take very long for
    subscripts."""
    signs = again = 0
    starts: list[int] = []
    start, within = 0, False
    for number, token in enumerate(tokens):
        kind = token.token_type
        signs = signs + 1 if kind in _SIGNS else 0
        if kind is TokenType.L_BRACKET and within:
            again += number - start
        if not within:
            start = number
        within = kind in _OPERANDS
        if kind in _OPENINGS:
            starts.append(start)
            within = False
        elif kind in _CLOSINGS and starts:
            start, within = starts.pop(), True
        if len(starts) > MAX_NESTING or signs > MAX_NESTING or again > MAX_READ_AGAIN:
            raise too_deep()


def shallow(tree: exp.Expr) -> list[exp.Expr]:
    """Regroup the long chains of the tree in place, and return its nodes, parents first. Raises
    SqlError if the tree is still nested too deeply."""
    nodes = nodes_of(tree)
    grouped = [node for node in nodes if isinstance(node, _CHAINED) and _regroup(node)]
    if grouped:
        before, nodes = nodes, nodes_of(tree)
        unlink_gone(before, nodes)
    depths = {id(tree.parent): 0}
    for node in nodes:
        depth = depths[id(node)] = depths[id(node.parent)] + 1
        if depth > MAX_DEPTH:
            raise too_deep()
    return nodes


@dataclass(frozen=True)
class _Link:
    """An operator of a chain, with the term to its right."""

    operator: exp.Expr
    term: exp.Expr

    def to(self, left: exp.Expr, term: exp.Expr | None = None) -> exp.Expr:
        """`left operator term`."""
        flags = {key: self.operator.args[key] for key in _FLAGS if key in self.operator.args}
        if isinstance(self.operator, exp.Union):
            flags["distinct"] = False  # the chain's last UNION removes all duplicates
        return type(self.operator)(this=left, expression=term or self.term, **flags)

    def inside(self, first: _Link) -> _Link:
        """The link inside a group that follows the link `first`: a - b + c is a - (b - c)."""
        if not isinstance(first.operator, exp.Sub):
            return self
        other = exp.Add if isinstance(self.operator, exp.Sub) else exp.Sub
        return _Link(other(), self.term)


def chain(joined: type[exp.Connector], parts: Sequence[exp.Expr]) -> exp.Expr:
    """`a joined b joined c` of one or more parts."""
    return reduce(lambda left, right: joined(this=left, expression=right), parts)


def _regroup(node: exp.Expr) -> bool:
    """Regroup the chain that ends at `node` in place, if it is long. Returns whether it was."""
    if node.parent is not None and node.arg_key == "this" and _continues(node.parent, node):
        return False
    spine = [node]
    while _continues(spine[-1], spine[-1].this):
        spine.append(spine[-1].this)
    if len(spine) < WIDTH:
        return False
    spine.reverse()
    first, links = spine[0].this, [_Link(link, link.expression) for link in spine]
    while len(links) >= WIDTH:
        first, links = _grouped(first, links)
    left = reduce(lambda left, link: link.to(left), links[:-1], first)
    if type(links[-1].operator) is type(node):  # the chain may be the whole statement
        node.set("this", left)
        node.set("expression", links[-1].term)
    else:
        node.replace(links[-1].to(left))
    return True


def list_equalities(nodes: Iterable[exp.Expr]) -> None:
    """In the long chains among `nodes` (parents first), replace `a = 1 OR a = 2` by `a IN (1, 2)`
    and `a <> 1 AND a <> 2` by `NOT a IN (1, 2)`, in place: one lookup instead of one comparison
    per term."""
    for node in nodes:
        if type(node) not in _COMPARED or type(_around(node)) is type(node):
            continue  # not a chain, or a part of a larger chain
        terms = _terms(node)
        members = _listed(type(node), terms) if len(terms) >= WIDTH else terms
        if len(members) < len(terms):
            chain = reduce(lambda left, term: type(node)(this=left, expression=term), members)
            node.replace(_enclosed(chain))
            operators = [chain]
            while type(operators[-1].this) is type(chain):
                operators.append(operators[-1].this)
            if _regroup(chain):
                unlink_all(operators[1:])


_COMPARED: dict[type[exp.Expr], type[exp.Expr]] = {exp.Or: exp.EQ, exp.And: exp.NEQ}


def _around(node: exp.Expr) -> exp.Expr | None:
    """The nearest ancestor that is not a bracket."""
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    return parent


def _terms(chain: exp.Expr) -> list[exp.Expr]:
    """The terms of a chain and of its groups, in order."""
    found, left = [], [chain]
    while left:
        node = left.pop()
        inner = node.unnest()
        if type(inner) is type(chain):
            left += (inner.expression, inner.this)
        else:
            found.append(node)
    return found


def _listed(operator: type[exp.Expr], terms: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The terms, with one list instead of the comparisons of a column. A list has only integers or
    only texts, so that it has the same type as each of its values."""
    found: dict[object, list[exp.Expr]] = {}
    for term in terms:
        key: object = id(term)
        if type(term) is _COMPARED[operator] and isinstance(term.this, exp.Column):
            value = term.expression
            if isinstance(value, exp.Literal) and (value.is_string or value.name.isdigit()):
                key = term.this, value.is_string
        found.setdefault(key, []).append(term)
    return [_list(operator, some) if len(some) > 1 else some[0] for some in found.values()]


def _list(operator: type[exp.Expr], some: Sequence[exp.Expr]) -> exp.Expr:
    members = exp.In(this=some[0].this, expressions=[term.expression for term in some])
    return members if operator is exp.Or else exp.Not(this=members)


def _grouped(first: exp.Expr, links: Sequence[_Link]) -> tuple[exp.Expr, list[_Link]]:
    """The chain, in which a group replaces every `WIDTH` terms."""
    head = reduce(lambda left, link: link.to(left), links[: WIDTH - 1], first)
    groups = []
    for start in range(WIDTH - 1, len(links), WIDTH):
        lead, *rest = links[start : start + WIDTH]
        group = reduce(lambda left, link: link.inside(lead).to(left), rest, lead.term)
        groups.append(_Link(lead.operator, _enclosed(group) if rest else lead.term))
    return _enclosed(head), groups


def _enclosed(group: exp.Expr) -> exp.Expr:
    query = isinstance(group, exp.Query)
    return exp.Subquery(this=group) if query else exp.Paren(this=group)


def _continues(node: exp.Expr, left: Any) -> bool:
    """Whether the left operand of `node` is a part of the same chain."""
    if isinstance(node, exp.Add | exp.Sub):
        return isinstance(left, exp.Add | exp.Sub)
    if type(left) is not type(node):
        return False
    if isinstance(node, exp.Union):
        return not node.args.get("by_name") and not _recursive(node) and _kind(left) == {
            **_kind(node), "modifiers": ()
        }  # fmt: skip
    return True


def _kind(union: exp.Expr) -> dict[str, Any]:
    """The kind of a UNION (ALL or not, BY NAME or not), and the clauses on its whole result."""
    modifiers = ("with_", "order", "limit", "offset")
    return {
        "distinct": union.args.get("distinct"),
        "by_name": union.args.get("by_name"),
        "modifiers": tuple(key for key in modifiers if union.args.get(key)),
    }


def _recursive(union: exp.Expr) -> bool:
    """Whether the UNION belongs to a WITH RECURSIVE."""
    parent = union.parent
    with_ = parent.parent if isinstance(parent, exp.CTE) else None
    return with_ is not None and bool(with_.args.get("recursive"))
