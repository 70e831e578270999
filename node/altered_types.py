"""ALTER TYPE and ALTER DOMAIN as changes of a schema, for `node/alterations.py`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from hornbeam_server.node.added_labels import with_label
from hornbeam_server.schema.ddl import render_ddl
from hornbeam_server.schema.ddl.alterations import (
    Action,
    AddElement,
    AddLabel,
    Alteration,
    DropElement,
    RenameElement,
    RenameLabel,
    RenameTo,
    SetDefault,
    SetNotNull,
    SetSchema,
    Text,
    Validate,
)
from hornbeam_server.schema.domains import domain_names, with_domain_default, with_own_not_null
from hornbeam_server.schema.enumerated import with_enumerations
from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.model import Column, Domain, Schema
from hornbeam_server.schema.namespaces import beside
from hornbeam_server.schema.renames import Rename
from hornbeam_server.schema.render import render_domain


class Work(Protocol):
    """A statement that is carried out on `schema`."""

    schema: Schema
    notes: list[str]
    renames: list[Rename]

    def moved(self, name: str, space: str) -> str | None:
        """The full name in another schema; None if it is there already."""

    def declared(self, prefix: str, text: Text) -> Column:
        """The column that is declared by `prefix` and `text`."""

    def loaded(self, ddl: str, at: int = 0, text: Text | None = None) -> Schema:
        """The schema of a DDL text, which has a `text` of the statement at offset `at`."""

    def error(self, message: str, cure: str, name: str = "") -> SchemaError: ...


def alter_type(work: Work, asked: Alteration) -> None:
    """Carry ALTER TYPE out. Raises SchemaError."""
    known = {enumeration.full: enumeration for enumeration in work.schema.enumerations}
    domains = domain_names(work.schema)
    if asked.name in domains and all(isinstance(a, RenameTo | SetSchema) for a in asked.actions):
        alter_domain(work, asked)
        return
    if asked.name not in known:
        raise work.error(f"The type {asked.name} does not exist.", listed([*known, *domains]))
    for action in asked.actions:
        match action:
            case AddLabel():
                _add_label(work, known[asked.name], action)
            case RenameLabel(old, new):
                work.renames.append(Rename(asked.name, old, new, type=True))
            case RenameTo() | SetSchema():
                _rename(work, asked.name, action)


def _rename(work: Work, name: str, action: RenameTo | SetSchema) -> None:
    """Give a type another name or schema."""
    if isinstance(action, RenameTo):
        new: str | None = beside(name, action.new, work.schema.spaces)
    else:
        new = work.moved(name, action.space)
    if new is not None:
        work.renames.append(Rename(name, "", new, type=True))


def _add_label(work: Work, enumeration: Enumeration, action: AddLabel) -> None:
    grown = with_label(enumeration, action)
    if grown == enumeration:
        work.notes.append(f"The label {action.label} exists: nothing is added.")
    work.schema = with_enumerations(work.schema, {enumeration.full: grown})


def alter_domain(work: Work, asked: Alteration) -> None:
    """Carry ALTER DOMAIN out. Raises SchemaError."""
    known = {domain.name: domain for domain in work.schema.domains}
    if asked.name not in known:
        raise work.error(f"The domain {asked.name} does not exist.", listed(known))
    (action,) = asked.actions
    if isinstance(action, RenameTo | SetSchema):
        _rename(work, asked.name, action)
    elif isinstance(action, AddElement):
        _add_constraint(work, known[asked.name], action.text)
    else:
        changed = _changed(work, known[asked.name], action)
        domains = (changed if each.name == asked.name else each for each in work.schema.domains)
        work.schema = work.loaded(render_ddl(replace(work.schema, domains=tuple(domains))))


def _add_constraint(work: Work, domain: Domain, text: Text) -> None:
    own, whole = render_domain(domain, work.schema.spaces), render_ddl(work.schema)
    end = whole.index(f"{own};\n") + len(own)
    added = work.loaded(f"{whole[:end]} {text.sql}{whole[end:]}", end + 1, text)
    (after,) = (each for each in added.domains if each.name == domain.name)
    if after != replace(domain, checks=after.checks):
        raise work.error(
            "ALTER DOMAIN … ADD adds a CHECK.", "Write ADD CONSTRAINT name CHECK (VALUE …)."
        )
    work.schema = added


def _changed(work: Work, domain: Domain, action: Action) -> Domain:
    """The domain after an action that changes neither its name nor adds a CHECK."""
    match action:
        case SetDefault(default=None):
            return with_domain_default(domain, None)
        case SetDefault(default=text):
            assert text is not None
            default = work.declared(f"{domain.value.type.ddl()} DEFAULT ", text).default
            return with_domain_default(domain, default)
        case SetNotNull(not_null=not_null):
            return replace(domain, value=with_own_not_null(domain.value, not_null=not_null))
        case DropElement(name, guarded=guarded):
            if guarded and name not in _constraints(domain):
                work.notes.append(f"The constraint {name} does not exist: nothing is dropped.")
                return domain
            _require_constraint(work, domain, name)
            checks = tuple(check for check in domain.checks if check.name != name)
            return replace(domain, checks=checks)
        case RenameElement(old, new):
            return _with_renamed_constraint(work, domain, old, new)
        case Validate(name):
            _require_constraint(work, domain, name)
    return domain


def _with_renamed_constraint(work: Work, domain: Domain, old: str, new: str) -> Domain:
    _require_constraint(work, domain, old)
    if new in _constraints(domain):
        raise work.error(
            f"The domain {domain.name} has a constraint {new} already.", "Choose another name."
        )
    checks = (replace(each, name=new) if each.name == old else each for each in domain.checks)
    return replace(domain, checks=tuple(checks))


def _constraints(domain: Domain) -> list[str]:
    return [check.name for check in domain.checks]


def _require_constraint(work: Work, domain: Domain, name: str) -> None:
    if name not in (known := _constraints(domain)):
        message = f"The constraint {name} of domain {domain.name} does not exist."
        raise work.error(message, listed(known), name)


def listed(known: Iterable[str]) -> str:
    """The names that there are, for a cure."""
    names = ", ".join(sorted(known))
    return f"There are: {names}." if names else "There is none."
