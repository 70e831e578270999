"""CREATE DOMAIN: a type with NOT NULL, a default and CHECKs, which each column of the type gets.

A catalog has no domains. A column of a domain is a plain column with the constraints of the domain,
so the schema that is shown declares it as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from hornbeam_server.schema.build import CheckDraft, ColumnDraft, Name
from hornbeam_server.schema.ddl.expressions import renamed, token_like
from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.render import identifier

VALUE = "value"
"""The name of the value in the CHECKs of a domain."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain, as a column with the name VALUE and its CHECKs."""

    name: Name
    column: ColumnDraft
    checks: tuple[CheckDraft, ...]

    def checks_of(self, column: Name) -> Iterator[CheckDraft]:
        """The CHECKs for a column of this type. Their names are generated: other columns of the
        relation may have the same type."""
        for check in self.checks:
            yield CheckDraft(None, renamed(check.expression, VALUE, column.text))


def as_table(statement: Statement) -> Statement:
    """CREATE DOMAIN name AS type constraints as CREATE TABLE name (value type constraints), which
    the parser reads."""
    create, domain, *rest = statement.tokens
    end = 1
    while len(rest) > end + 1 and rest[end].token_type is TokenType.DOT:
        end += 2
    behind = rest[end:]
    if behind and behind[0].token_type is TokenType.ALIAS:
        behind = behind[1:]
    if not behind:
        raise statement.place(domain.start).error(
            "CREATE DOMAIN has no type.", cure="Write CREATE DOMAIN name AS type."
        )
    tokens = [
        create,
        token_like(TokenType.TABLE, "TABLE", domain),
        *rest[:end],
        token_like(TokenType.L_PAREN, "(", behind[0]),
        token_like(TokenType.VAR, VALUE, behind[0]),
        *behind,
        token_like(TokenType.R_PAREN, ")", behind[-1]),
    ]
    return replace(statement, tokens=tokens)


def refuse_enum(statement: Statement, tree: exp.Expr) -> NoReturn:
    """Refuse CREATE TYPE … AS ENUM: its values are ordered by their positions, and text is not. The
    cure has a domain with the same values."""
    values = ", ".join(value.sql("postgres") for value in tree.expression.expressions)
    name = identifier(statement.table(tree.this).text)
    cure = (
        f"Write CREATE DOMAIN {name} AS TEXT CHECK (VALUE IN ({values})) if the order of the values"
        " does not matter: text is ordered by code point."
    )
    statement.refuse("CREATE TYPE … AS ENUM", statement.start, cure)


def type_name(kind: exp.Expr | None) -> str | None:
    """The name of a type that the parser does not know, without its schema; None for others."""
    named = kind.args.get("kind") if isinstance(kind, exp.DataType) else None
    last = named.expression if isinstance(named, exp.Dot) else named
    if not isinstance(last, exp.Identifier):
        return None
    return last.name if last.args.get("quoted") else last.name.lower()
