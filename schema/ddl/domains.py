"""CREATE DOMAIN: a type with NOT NULL, a default and CHECKs, which each column of the type has
(`schema/domains.py`). CREATE TYPE … AS ENUM is read as a domain whose type is the enumeration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from hornbeam_server.schema.ddl.expressions import renamed, token_like
from hornbeam_server.schema.ddl.spaces import Spaces
from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.domains import VALUE
from hornbeam_server.schema.drafts import CheckDraft, ColumnDraft, DomainDraft, Name
from hornbeam_server.schema.enumerations import MAX_LABEL_BYTES, Enumeration
from hornbeam_server.schema.model import PUBLIC, DomainCheck
from hornbeam_server.schema.type_names import is_built_in, parts_of_name
from hornbeam_server.schema.types import array_of, enum_of


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


def in_domain(column: ColumnDraft, domain: DomainDraft) -> ColumnDraft:
    """A column of a domain, with the domain's CHECKs. An ENUM only gives its type."""
    if domain.is_enum:
        return replace(column, type=domain.column.type)
    checks = tuple(_checks_of(domain, column.name))
    return replace(column, type=domain.column.type, domain=domain, domain_checks=checks)


def with_default_of_domain(value: ColumnDraft) -> ColumnDraft:
    """The value of a new domain. As in PostgreSQL, it keeps the default that the domain of its
    values has now, also none, unless it declares one."""
    above = value.domain
    if above is None or value.has_default:
        return value
    default, expression = above.column.default, above.column.expression
    return replace(value, default=default, expression=expression, has_default=True)


def without_domain(column: ColumnDraft) -> ColumnDraft:
    return replace(column, domain=None, domain_checks=())


def _checks_of(domain: DomainDraft, column: Name) -> Iterator[CheckDraft]:
    for check in domain.all_checks:
        assert check.name is not None
        origin = DomainCheck(domain.name.text, check.name.text, column.text)
        expression = renamed(check.expression, VALUE, column.text)
        yield CheckDraft(Name(origin.name, check.name.place), expression, origin)


def with_names(checks: Sequence[CheckDraft], domain: Name, own: str) -> Iterator[CheckDraft]:
    """The CHECKs of a domain whose name without the schema is `own`; generated names are
    PostgreSQL's. Raises SchemaError for a name that two of them have."""
    taken = {check.name.text for check in checks if check.name is not None}
    given = set[str]()
    for check in checks:
        if check.name is None:
            name = Name(_new_name(own, taken), domain.place)
            taken.add(name.text)
            yield replace(check, name=name)
            continue
        if check.name.text in given:
            raise check.name.place.error(
                f"Domain {domain.text} has the constraint {check.name.text} twice.",
                cure="Rename one of them.",
                name=check.name.text,
            )
        given.add(check.name.text)
        yield check


def _new_name(domain: str, taken: Collection[str]) -> str:
    names = (f"{domain}_check{number or ''}" for number in count())
    return next(name for name in names if name not in taken)


def as_alias(statement: Statement) -> Statement:
    """EXEC sp_addtype name, 'type', 'NOT NULL' of SQL Server as CREATE TYPE name FROM type."""
    _, _, name, *behind = (token.text for token in statement.tokens if token.text != ",")
    text = f"CREATE TYPE {name} FROM {' '.join(behind)}"
    tokens = statement.source.dialect.tokenize(text)
    return replace(statement, text=text, tokens=tokens)


def enumerated(name: Name, values: Sequence[exp.Expr], spaces: Spaces) -> DomainDraft:
    """An ENUM of text literals under a full name. Raises SchemaError at the name."""
    labels = [value.name for value in values]
    _check_labels(name, labels)
    space, own = spaces.parted(name.text)
    enumeration = Enumeration.of("" if space == PUBLIC else space, own, labels)
    column = ColumnDraft(Name(VALUE, name.place), enum_of(enumeration))
    return DomainDraft(name, column, (), is_enum=True)


def _check_labels(name: Name, labels: Sequence[str]) -> None:
    own = name.text.rpartition(".")[2]
    if is_built_in(own):
        raise name.place.error(
            f"{own} is the name of a type already.", cure="Choose another name.", name=own
        )
    for at, label in enumerate(labels):
        if not label or len(label.encode()) > MAX_LABEL_BYTES:
            raise name.place.error(
                f"Type {name.text}: the label {label!r} is empty or too long.",
                cure=f"A label has 1 to {MAX_LABEL_BYTES} bytes.",
                name=name.text,
            )
        if label in labels[:at]:
            raise name.place.error(
                f"Type {name.text} has the label {label} twice.",
                cure="Write each label once.",
                name=name.text,
            )


def is_inline_enum(kind: exp.Expr | None) -> bool:
    """Is it MySQL's ENUM ('a', 'b'), a type without a name?"""
    return isinstance(kind, exp.DataType) and kind.this is exp.DType.ENUM and bool(kind.expressions)


def domain_of(
    statement: Statement,
    kind: exp.Expr | None,
    domains: Mapping[str, DomainDraft],
    quoted: str = "",
) -> DomainDraft | None:
    """The domain that the type of a column names, also an array of an ENUM; None for plain types.
    `quoted` is the type's name if it is in quotes: "Name" is not the type NAME."""
    if isinstance(kind, exp.DataType) and kind.this is exp.DType.ARRAY:
        inner = domain_of(statement, kind.expressions[0], domains, quoted)
        return None if inner is None or not inner.is_enum else _array(inner)
    parts = parts_of_name(kind) if isinstance(kind, exp.DataType) else []
    parts = parts or ([quoted] if quoted else [])
    if statement.source.folds_quoted:
        parts = [part.lower() for part in parts]
    return domains.get(statement.spaces.full(parts)) if parts and domains else None


def _array(domain: DomainDraft) -> DomainDraft:
    return replace(domain, column=replace(domain.column, type=array_of(domain.column.type)))
