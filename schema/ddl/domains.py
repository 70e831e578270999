"""CREATE DOMAIN: a type with NOT NULL, a default and CHECKs, which each column of the type gets. An
ENUM is read as such a domain.

A catalog has no domains. A column of a domain is a plain column with the constraints of the domain,
so the schema that is shown declares it as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from hornbeam_server.schema.ddl.expressions import read_expression, renamed, token_like
from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.drafts import CheckDraft, ColumnDraft, Name
from hornbeam_server.schema.sqltext import quoted
from hornbeam_server.schema.types import ColumnType, Kind

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
    the parser reads. So is CREATE TYPE name FROM type of SQL Server."""
    create, domain, *rest = statement.tokens
    end = 1
    while len(rest) > end + 1 and rest[end].token_type is TokenType.DOT:
        end += 2
    behind = rest[end:]
    if behind and behind[0].token_type in {TokenType.ALIAS, TokenType.FROM}:
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


def as_alias(statement: Statement) -> Statement:
    """EXEC sp_addtype name, 'type', 'NOT NULL' of SQL Server as CREATE TYPE name FROM type."""
    _, _, name, *behind = (token.text for token in statement.tokens if token.text != ",")
    text = f"CREATE TYPE {name} FROM {' '.join(behind)}"
    tokens = statement.source.dialect.tokenize(text)
    return replace(statement, text=text, tokens=tokens)


ENUM_NOTE = "TEXT with a CHECK of its values, ordered by code point (ENUM: by the order of values)"


def enumerated(name: Name, values: Sequence[exp.Expr]) -> Domain:
    """An ENUM of text literals, as a domain of TEXT with a CHECK."""
    listed = ", ".join(quoted(value.name) for value in values)
    check = read_expression(f"{VALUE} IN ({listed})", name.place)
    column = ColumnDraft(Name(VALUE, name.place), ColumnType(Kind.TEXT), note=ENUM_NOTE)
    return Domain(name, column, (CheckDraft(None, check),))


def domain_of(
    statement: Statement,
    kind: exp.Expr | None,
    column: Name,
    domains: Mapping[str, Domain],
    quoted: str = "",
) -> Domain | None:
    """The domain of a column: the one that its type names, or that of its ENUM; None for plain
    types. `quoted` is the type's name if it is in quotes: "Name" is not the type NAME."""
    if isinstance(kind, exp.DataType) and kind.this is exp.DType.ENUM and kind.expressions:
        return enumerated(column, kind.expressions)
    parts = _type_name(kind) or ([quoted] if quoted else [])
    if statement.source.folds_quoted:
        parts = [part.lower() for part in parts]
    return domains.get(statement.spaces.full(parts)) if parts and domains else None


def _type_name(kind: exp.Expr | None) -> list[str]:
    """The parts of the name of a type that the parser does not know; none for other types."""
    named = kind.args.get("kind") if isinstance(kind, exp.DataType) else None
    if isinstance(named, str):
        return named.split(".")
    parts = named.flatten() if isinstance(named, exp.Dot) else [named]
    found = [part for part in parts if isinstance(part, exp.Identifier)]
    return [part.name if part.args.get("quoted") else part.name.lower() for part in found]
