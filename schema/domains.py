"""Domains: CREATE DOMAIN. A column of a domain has the type, NOT NULL, the default and the CHECKs
of the domain, besides its own.

A column and its relation hold all of them, so that writers need not know domains. `OfDomain` and
`Check.origin` say which are the column's own, so that a changed domain changes its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hornbeam_server.schema.drafts import ColumnDraft, DomainDraft
from hornbeam_server.schema.model import (
    Check,
    Column,
    Default,
    Domain,
    OfDomain,
    Relation,
    Schema,
)

VALUE = "value"
"""The name of the value in the CHECKs of a domain."""


def in_domain(own: Column, domain: str, value: Column, *, has_default: bool) -> Column:
    """The column of which a relation declares `own`, with NOT NULL and the default of its domain,
    whose values are like `value`. `has_default`: `own` has a default, which may be NULL."""
    return replace(
        own,
        nullable=own.nullable and value.nullable,
        default=own.default if has_default else value.default,
        domain=OfDomain(domain, not own.nullable, has_default),
    )


def declared_column(draft: ColumnDraft, *, in_key: bool = False) -> Column:
    """A column, with what it has from its domain. Columns of the primary key are NOT NULL."""
    own = Column(draft.name.text, draft.type, draft.nullable and not in_key, draft.default)
    domain = draft.domain
    if domain is None:
        return own
    has_default = draft.has_default or draft.default is not None
    value = declared_column(domain.column)
    return in_domain(own, domain.name.text, value, has_default=has_default)


def declared_domain(draft: DomainDraft) -> Domain:
    checks = (Check(each.name.text, each.expression.sql) for each in draft.checks if each.name)
    return Domain(draft.name.text, declared_column(draft.column), tuple(checks))


def relation_of(domain: Domain) -> Relation:
    """A relation whose only column is the value, for the expressions of a domain."""
    value = replace(domain.value, nullable=True)
    return Relation(domain.name, (value,), (value.name,), (), domain.checks)


def own_of(column: Column) -> Column:
    """The column without what it has from its domain."""
    domain = column.domain
    if domain is None:
        return column
    default = column.default if domain.default else None
    return replace(column, nullable=not domain.not_null, default=default, domain=None)


def with_own_default(column: Column, default: Default | None, *, has_default: bool) -> Column:
    """The column that declares another default. A column of a domain that declares none has that of
    the domain, once the schema is read again."""
    domain = column.domain
    changed = None if domain is None else replace(domain, default=has_default)
    return replace(column, default=default, domain=changed)


def with_domain_default(domain: Domain, default: Default | None) -> Domain:
    """The domain with another default. It has none of the domain of its values, also with None."""
    has_default = default is not None or domain.value.domain is not None
    value = with_own_default(domain.value, default, has_default=has_default)
    return replace(domain, value=value)


def with_own_not_null(column: Column, *, not_null: bool) -> Column:
    """The column that declares NOT NULL, or does not."""
    domain = column.domain
    changed = None if domain is None else replace(domain, not_null=not_null)
    return replace(column, nullable=not not_null, domain=changed)


def of_other_type(column: Column, like: Column) -> Column:
    """The column with the type and the domain of `like`. NOT NULL and the default that it declares
    itself stay."""
    own = own_of(column)
    has_default = column.domain.default if column.domain else column.default is not None
    domain = None
    if like.domain is not None:
        domain = OfDomain(like.domain.name, not own.nullable, has_default)
    return replace(own, type=like.type, domain=domain)


def domain_names(schema: Schema) -> tuple[str, ...]:
    return tuple(domain.name for domain in schema.domains)


def domain_of(schema: Schema, name: str) -> Domain:
    """The domain with a full name. Raises KeyError."""
    for domain in schema.domains:
        if domain.name == name:
            return domain
    raise KeyError(name)


def checks_of(schema: Schema, domain: Domain) -> Iterator[Check]:
    """The CHECKs that values of a domain meet: those of the domain of its values come first."""
    if domain.value.domain is not None:
        yield from checks_of(schema, domain_of(schema, domain.value.domain.name))
    yield from domain.checks


def with_renamed_domains(schema: Schema, names: Mapping[str, str]) -> Schema:
    """The schema with new full names of domains, by the old ones."""
    return replace(
        schema,
        domains=tuple(
            replace(
                domain,
                name=names.get(domain.name, domain.name),
                value=_renamed_column(domain.value, names),
            )
            for domain in schema.domains
        ),
        relations=tuple(renamed_in_relation(relation, names) for relation in schema.relations),
    )


def renamed_in_relation(relation: Relation, names: Mapping[str, str]) -> Relation:
    """The relation, whose columns and CHECKs have the new names of domains."""
    return replace(
        relation,
        columns=tuple(_renamed_column(column, names) for column in relation.columns),
        checks=tuple(_renamed_check(check, names) for check in relation.checks),
    )


def _renamed_column(column: Column, names: Mapping[str, str]) -> Column:
    domain = column.domain
    if domain is None or domain.name not in names:
        return column
    return replace(column, domain=replace(domain, name=names[domain.name]))


def _renamed_check(check: Check, names: Mapping[str, str]) -> Check:
    origin = check.origin
    if origin is None or origin.domain not in names:
        return check
    return replace(check, origin=replace(origin, domain=names[origin.domain]))


def with_renamed_column(check: Check, name: str) -> Check:
    """A CHECK of a domain, whose column gets another name."""
    assert check.origin is not None
    origin = replace(check.origin, column=name)
    return replace(check, name=origin.name, origin=origin)
