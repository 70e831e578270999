"""The check of a value that is cast to a domain."""

from __future__ import annotations

from hornbeam_server.schema.errors import CheckViolation, NotNullViolation

NOT_NULL = ""
"""In place of the name of a constraint: the domain is NOT NULL."""


def meets_domain(holds: bool | None, domain: str, constraint: str) -> bool:
    """True, unless a constraint of a domain is false for a value: whether it `holds`. Raises
    CheckViolation and NotNullViolation."""
    if holds is not False:
        return True
    if constraint == NOT_NULL:
        raise domain_is_null(domain)
    raise domain_violation(domain, constraint)


def domain_violation(domain: str, constraint: str) -> CheckViolation:
    """The error for a value that does not meet a CHECK of its domain, in PostgreSQL's words."""
    return CheckViolation(
        f'Value for domain {domain} violates check constraint "{constraint}".',
        cure="Give a value for which the condition of the domain is true or NULL.",
        domain=domain,
        constraint=constraint,
    )


def domain_is_null(domain: str) -> NotNullViolation:
    """The error for NULL as a value of a domain that is NOT NULL, in PostgreSQL's words."""
    return NotNullViolation(
        f"Domain {domain} does not allow null values.",
        cure="Give it a value.",
        domain=domain,
    )
