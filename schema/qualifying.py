"""The names of relations in a text of SQL, written with their schemas, so that they are found
without the search path under which the text was written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Schema, exp.TruncateTable)
_OF_ROW_TYPE = re.compile(r"jsonb?_populate_record(set)?", re.IGNORECASE)
"""Functions whose first argument is NULL with the row type of a relation."""
_BEFORE_TYPE = (["(", "NULL", "::"], ["(", "CAST", "(", "NULL", "AS"])
"""What stands between the name of such a function and the name of the type."""
Qualify = Callable[[Sequence[str]], str | None]
"""From the parts of a relation's name to the SQL that replaces the name; None: it stays."""


@dataclass(frozen=True, slots=True)
class Edit:
    """`text` for the part of a text from `start` to before `end`."""

    start: int
    end: int
    text: str


def qualifications(tree: exp.Expr, qualify: Qualify) -> Iterator[Edit]:
    """The edits of a text, which the parser has read as `tree`, that give names of relations other
    forms. Names of CTEs stay."""
    for node in tree.find_all(exp.Table, exp.Column):
        assert isinstance(node, exp.Table | exp.Column)
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        named = parts if isinstance(node, exp.Table) else parts[:-1]
        is_column_of_alias = isinstance(node, exp.Column) and len(named) < 2
        if is_column_of_alias or not named or any("start" not in p.meta for p in named):
            continue
        if isinstance(node, exp.Table) and (not node.name or is_of_cte(node)):
            continue
        text = qualify([folded(part) for part in named])
        if text is not None:
            yield Edit(named[0].meta["start"], named[-1].meta["end"] + 1, text)


def type_qualifications(tokens: Sequence[Token], qualify: Qualify) -> Iterator[Edit]:
    """The edits that give names of relations other forms where their row types are named, as in
    jsonb_populate_record(NULL::item, value)."""
    words = [token.text.upper() for token in tokens]
    for i, token in enumerate(tokens):
        if not _OF_ROW_TYPE.fullmatch(token.text):
            continue
        for before in _BEFORE_TYPE:
            first = i + 1 + len(before)
            if words[i + 1 : first] == before and first < len(tokens):
                last = first
                while words[last + 1 : last + 2] == ["."] and last + 2 < len(tokens):
                    last += 2
                named = tokens[first : last + 1 : 2]
                text = qualify([*map(_name, named)])
                if text is not None:
                    yield Edit(named[0].start, named[-1].end + 1, text)


def _name(token: Token) -> str:
    quoted = token.token_type is TokenType.IDENTIFIER
    return token.text if quoted else token.text.lower()


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text after the edits."""
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = f"{text[: edit.start]}{edit.text}{text[edit.end :]}"
    return text


def folded(part: exp.Identifier) -> str:
    """An identifier in lower case, unless it is quoted."""
    return str(part.name) if part.args.get("quoted") else part.name.lower()


def is_of_cte(table: exp.Table) -> bool:
    """Whether the name, without a schema, is that of a CTE which the table sees."""
    node: exp.Expr = table
    if table.args.get("db") or (table.arg_key == "this" and isinstance(table.parent, _WRITES)):
        return False
    while (parent := node.parent) is not None:
        with_ = parent.args.get("with_")
        if isinstance(parent, exp.With):
            whole = bool(parent.args.get("recursive"))
            listed = parent.expressions if whole else parent.expressions[: node.index]
        else:
            listed = with_.expressions if with_ is not None and with_ is not node else []
        if any(folded(cte.args["alias"].this) == folded(table.this) for cte in listed):
            return True
        node = parent
    return False
