"""Functions, types and names of PostgreSQL's system catalog: they become look-ups in system
relations (`query/system`).

A function that has a text for each object, such as pg_get_indexdef, becomes a subquery. A cast to
regclass gives the name of the relation where it is shown or is cast to a text, and its OID where it
is compared, or given to a function that takes an OID: an OID is a BIGINT here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from hornbeam_server.query.dialect.duckdb_sql import names_relation
from hornbeam_server.query.dialect.grammar import expression
from hornbeam_server.query.parsing.patterns import SEVERAL
from hornbeam_server.query.parsing.system_comments import COMMENT_FUNCTIONS
from hornbeam_server.query.parsing.system_lookups import (
    INTEGERS,
    filled,
    lookup,
    oid_of,
    oid_of_name,
    written,
)
from hornbeam_server.query.parsing.system_rights import privilege_function
from hornbeam_server.query.parsing.system_signals import SIGNALS, replace_signal
from hornbeam_server.query.parsing.system_sizes import SIZE_FUNCTIONS
from hornbeam_server.query.system.activity import SESSION
from hornbeam_server.query.system.postgresql import VECTORS, Described, relations
from hornbeam_server.query.values.names import canonical
from hornbeam_server.query.values.privileges import PRIVILEGES
from hornbeam_server.schema.model import DATABASE, PUBLIC
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.schema.trees import nodes_of, supersede

MENTIONS = re.compile(
    r"\b(?:pg_|getdatabaseencoding\b|reg[a-z]+\b|has_\w+_privilege\b|format_type\b"
    r"|(?:col|obj|shobj)_description\b|to_reg"
    r"|(?:table)?oid\b|oidvector\b|int2vector\b|xid\b|name\b|char\"|inet_)",
    re.IGNORECASE,
)
"""What a text mentions that has functions, types or columns of the system catalog."""


def mentions_catalog(sql: str) -> bool:
    """May the statement have functions, types or columns of the system catalog? False only if it
    does not."""
    return MENTIONS.search(sql) is not None


def is_answered(name: str) -> bool:
    """Is it a function of the system catalog that is answered here?"""
    return name in _CALLS or name in _NO_ROWS or name in _TO_OIDS or name in SIGNALS


# ---------------------------------------------------------------- functions

_Arguments = Sequence[exp.Expr]
_Build = Callable[[_Arguments], exp.Expr]


def _constant(sql: str) -> _Build:
    return lambda _: expression(sql).copy()


def _of_session(what: str) -> _Build:
    """A fact about the session of the client that asks."""
    sql = f'(SELECT t."{what} of session" FROM pg_catalog."{SESSION}" AS t)'
    return lambda _: filled(sql, {})


def _format_type(given: _Arguments) -> exp.Expr:
    oid, modifier = given
    plain = lookup("type", oid, -1)
    if isinstance(modifier, exp.Null):
        return plain
    exact = lookup("type", oid, modifier)
    return exp.Coalesce(this=exact, expressions=[plain])


def _index_definition(given: _Arguments) -> exp.Expr:
    if len(given) == 1:
        return lookup("index", given[0])
    whole = isinstance(given[1], exp.Literal) and given[1].this == "0"
    about = "short index" if whole and len(given) > 2 and _is_true(given[2]) else "index"
    return lookup(about, given[0], given[1])


def _is_true(node: exp.Expr) -> bool:
    """Is it TRUE, or a text for it that is cast?"""
    inner = node.unnest()
    while isinstance(inner, exp.Cast):
        inner = inner.this
    if isinstance(inner, exp.Boolean):
        return bool(inner.this)
    return isinstance(inner, exp.Literal) and inner.this.lower() in {"t", "true"}


def _constraint_definition(given: _Arguments) -> exp.Expr:
    pretty = len(given) > 1 and _is_true(given[1])
    return lookup("constraint", given[0], int(pretty))


def _view_definition(given: _Arguments) -> exp.Expr:
    oid = given[0]
    if isinstance(oid, exp.Literal) and oid.is_string and not oid.this.isdigit():
        oid = oid_of("relation", oid)
    return lookup("view", oid)


def _visible(about: str) -> _Build:
    """Is the schema of the object in the search path, whose schemas are the arguments behind the
    first?"""

    def build(given: _Arguments) -> exp.Expr:
        oid, *path = given
        listed = path or [exp.Literal.string(PUBLIC)]
        spaces = [exp.Literal.string(SYSTEM_CATALOG), *(each.copy() for each in listed)]
        return exp.Paren(this=exp.In(this=lookup(f"space of {about}", oid), expressions=spaces))

    return build


def _serial_sequence(given: _Arguments) -> exp.Expr:
    """The sequence of a column that is computed; the binder answers a written one."""
    if all(isinstance(each, exp.Literal) for each in given):
        return exp.Anonymous(this="pg_get_serial_sequence", expressions=[*given])
    about = written("'sequence of ' || a || '.' || b", *given)
    template = """
    (SELECT t."found text" FROM pg_catalog."hornbeam texts" AS t WHERE t."about text" = about)
    """
    return filled(template, {"about": about})


_NO_TEXT = (
    *("pg_get_ruledef", "pg_get_triggerdef", "pg_get_statisticsobjdef", "pg_get_functiondef"),
    *("pg_get_statisticsobjdef_columns", "pg_get_partkeydef", "pg_get_partition_constraintdef"),
    *("pg_get_function_result", "pg_get_function_arguments", "pg_get_function_sqlbody"),
    *("pg_get_function_identity_arguments", "pg_relation_filepath"),
)
"""Functions about what Hornbeam does not have, such as rules and triggers."""
_HELD = ("type", "language", "tablespace", "foreign_data_wrapper", "server", "parameter")
"""Kinds of objects that all clients may use."""
_VISIBLE = (
    *("function", "operator", "collation", "opclass", "opfamily", "conversion", "statistics_obj"),
    *("ts_config", "ts_dict", "ts_parser", "ts_template"),
)
"""Kinds of objects that are in every search path."""
_CALLS: dict[str, _Build] = {
    "format_type": _format_type,
    "pg_get_constraintdef": _constraint_definition,
    "pg_get_expr": lambda given: given[0].copy(),
    "pg_get_indexdef": _index_definition,
    "pg_get_serial_sequence": _serial_sequence,
    "pg_get_userbyid": lambda given: written(
        f"CASE WHEN a = 10 THEN '{DATABASE}' ELSE 'unknown (OID=' || a || ')' END", given[0]
    ),
    "pg_get_viewdef": _view_definition,
    "pg_table_is_visible": _visible("relation"),
    "pg_type_is_visible": _visible("type"),
    **dict.fromkeys((f"pg_{what}_is_visible" for what in _VISIBLE), _constant("TRUE")),
    **dict.fromkeys((f"has_{what}_privilege" for what in _HELD), _constant("TRUE")),
    **{f"has_{kind}_privilege": privilege_function(kind) for kind in PRIVILEGES},
    "pg_has_role": _constant("TRUE"),
    **SIZE_FUNCTIONS,
    **COMMENT_FUNCTIONS,
    "pg_tablespace_size": _constant("CAST(NULL AS BIGINT)"),
    **dict.fromkeys(_NO_TEXT, _constant("CAST(NULL AS TEXT)")),
    "pg_partition_ancestors": _constant("unnest(CAST(ARRAY[] AS BIGINT[]))"),
    "pg_backend_pid": _of_session("pid"),
    "pg_encoding_to_char": lambda given: written(
        "CASE WHEN a = 6 THEN 'UTF8' ELSE '' END", given[0]
    ),
    "getdatabaseencoding": _constant("'UTF8'"),
    "pg_char_to_encoding": lambda given: written(
        "CASE WHEN upper(a) IN ('UTF8', 'UTF-8') THEN 6 ELSE -1 END", given[0]
    ),
    "pg_is_in_recovery": _constant("FALSE"),
    "pg_is_other_temp_schema": _constant("FALSE"),
    "pg_my_temp_schema": _constant("CAST(0 AS BIGINT)"),
    "pg_relation_is_publishable": _constant("FALSE"),
    "pg_stat_get_numscans": _constant("CAST(NULL AS BIGINT)"),
    "pg_tablespace_location": _constant("''"),
    "inet_client_addr": _of_session("address"),
    "inet_client_port": _of_session("port"),
    "inet_server_addr": _constant("CAST(NULL AS TEXT)"),
    "inet_server_port": _constant("CAST(NULL AS INTEGER)"),
}
"""The answer to each function of the system catalog, from its arguments."""
_TAKE_OIDS = {*_CALLS, "unnest", "array"} - {"pg_get_serial_sequence", "pg_size_pretty"}
"""The functions that take OIDs."""

# ---------------------------------------------------------------- types

_OID_TYPES = {
    **dict.fromkeys(("oid", "xid", "cid", "xid8"), exp.DType.BIGINT),
    **dict.fromkeys(("name", "char", "pg_node_tree", "aclitem", "cstring"), exp.DType.TEXT),
    **dict.fromkeys(("regproc", "regprocedure", "regoper", "regoperator"), exp.DType.TEXT),
    **dict.fromkeys(("regconfig", "regdictionary", "regcollation", "tid"), exp.DType.TEXT),
}
_VECTOR_TYPES = {"oidvector": "BIGINT[]", "int2vector": "INTEGER[]"}
_REGISTERED = {
    "regclass": "relation",
    "regtype": "type",
    "regnamespace": "schema",
    "regrole": "role",
}
"""The types whose values are OIDs that are shown as names, and what they are about."""
_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.Between, exp.Any, exp.All, exp.Array, *SEVERAL,
)  # fmt: skip


def _type_named(node: exp.DataType) -> str:
    """The name of a type without its schema, if that is the system catalog; "" for others."""
    kind = node.args.get("kind")
    if node.this is not exp.DType.USERDEFINED or kind is None:
        return ""
    if isinstance(kind, exp.Dot):
        space, name = kind.this.name, kind.expression.name
        return name.lower() if space.lower() == SYSTEM_CATALOG else ""
    return str(kind.name).lower()


def without_catalog(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens without the system catalog before names of functions, and with the operator itself
    for `OPERATOR(pg_catalog.~)`."""
    if not any(token.text.lower() == SYSTEM_CATALOG for token in tokens):
        return tokens
    words = [token.text.lower() for token in tokens]
    found: list[Token] = []
    i = 0
    while i < len(tokens):
        if words[i : i + 4] == ["operator", "(", SYSTEM_CATALOG, "."] and ")" in words[i:]:
            end = words.index(")", i)
            found += tokens[i + 4 : end]
            i = end + 1
        elif words[i : i + 2] == [SYSTEM_CATALOG, "."] and _is_called(words, i):
            i += 2
        else:
            found.append(tokens[i])
            i += 1
    return found


def _is_called(words: Sequence[str], i: int) -> bool:
    """Is the name behind the schema at `i` that of a function?"""
    return words[i + 3 : i + 4] == ["("] and words[max(i - 1, 0)] not in {"into", "::", "as"}


def write_lookups(tree: exp.Expr) -> None:
    """Replace what the statement asks of the system catalog. Raises Unsupported."""
    nodes = [*tree.walk()]
    for node in nodes:
        if isinstance(node, exp.Column) and node.name == "tableoid":
            _replace_relation(node)
        elif isinstance(node, exp.Table):
            _replace_call_in_from(node)
        elif isinstance(node, exp.Bracket):
            _count_from_zero(node)
        elif isinstance(node, exp.Collate):
            _leave_default_out(node)
    for node in reversed(nodes):  # the inner ones first
        if isinstance(node, exp.Cast):
            _replace_cast(node)
        elif isinstance(node, exp.Anonymous) and not isinstance(node.parent, exp.Table):
            _replace_call(node)
        elif isinstance(node, exp.DataType) and not isinstance(node.parent, exp.Cast):
            _replace_type(node)


def _replace_call(node: exp.Anonymous) -> None:
    name = node.name.lower()
    if name in SIGNALS:
        replace_signal(node)
    elif name in _CALLS:
        supersede(node, _answer(node, _CALLS[name]))
    elif name in _TO_OIDS:
        about, (given,) = _TO_OIDS[name], node.expressions
        oid = oid_of_name(about, _spelled(given))
        supersede(node, oid if _is_compared(node, about) else _name_of(about, oid))
    elif name == _EXPANDED:
        owner = node.parent if isinstance(node.parent, exp.Dot) else node
        supersede(owner, written(_PAIRS, *node.expressions))


_TO_OIDS = {f"to_{name}": about for name, about in _REGISTERED.items()}
"""The functions that give NULL where a cast, such as one to regclass, is refused."""
_EXPANDED = "_pg_expandarray"
_PAIRS = """
unnest(list_transform(range(1, len(a) + 1), lambda hornbeam_n:
{'x': a[hornbeam_n], 'n': hornbeam_n}))
"""
"""The elements of an array with their places, each as a record (x, n)."""


def _spelled(name: exp.Expr) -> exp.Expr:
    inner = name.unnest()
    while isinstance(inner, exp.Cast):
        inner = inner.this
    literal = isinstance(inner, exp.Literal) and inner.is_string
    return exp.Literal.string(canonical(inner.this)) if literal else name


def _answer(node: exp.Anonymous, build: _Build) -> exp.Expr:
    """The answer to a call. Parameters that it does not need stay parameters of the statement."""
    answer = build(node.expressions)
    used = {each.name for each in nodes_of(answer, exp.Placeholder)}
    unused = {each.name: each for each in nodes_of(node, exp.Placeholder) if each.name not in used}
    for parameter in unused.values():
        answer = written("CASE WHEN (a IS NULL) IS NULL THEN NULL ELSE b END", parameter, answer)
    return answer


def _relation_of(column: exp.Column) -> Described | None:
    """The system relation that has a column, if FROM names it."""
    select = column.find_ancestor(exp.Select)
    while select is not None:
        for table in select.find_all(exp.Table):
            if column.table in ("", table.alias_or_name) and table.name in relations():
                return relations()[table.name]
        select = select.find_ancestor(exp.Select)
    return None


def _replace_relation(node: exp.Column) -> None:
    """Replace `tableoid` of a system relation by the OID of the relation."""
    found = _relation_of(node)
    if found is not None:
        value = exp.cast(exp.Literal.number(found.oid), exp.DType.BIGINT)
        named = isinstance(node.parent, exp.Select)
        node.replace(exp.alias_(value, "tableoid") if named else value)


def _replace_call_in_from(node: exp.Table) -> None:
    """Replace a function that has no rows here by a query without rows."""
    call = node.this
    if isinstance(call, exp.Anonymous) and call.name.lower() in SIGNALS:
        replace_signal(call)
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _NO_ROWS:
        return
    names = _NO_ROWS[call.name.lower()].split()
    columns = [exp.alias_(exp.cast(exp.null(), exp.DType.TEXT), name) for name in names]
    if node.args.get("ordinality"):
        columns.append(exp.alias_(exp.cast(exp.null(), exp.DType.BIGINT), "ordinality"))
    for column in columns:
        if column.alias.endswith("relid"):
            column.this.set("to", exp.DataType(this=exp.DType.BIGINT))
    none = exp.select(*columns).where(exp.false())
    alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(call.name.lower()))
    supersede(node, exp.Subquery(this=none, alias=alias.copy(), joins=node.args.get("joins")))


_NO_ROWS = {
    "pg_get_keywords": "word catcode catdesc",
    "pg_partition_ancestors": "relid",
    "pg_partition_tree": "relid parentrelid isleaf level",
}
"""Functions in FROM that have no rows here, with their columns."""


def _count_from_zero(node: exp.Bracket) -> None:
    """Let a subscript of a vector of a system relation, whose first is 0, begin with 1."""
    column = node.this
    if not isinstance(column, exp.Column) or len(node.expressions) != 1:
        return
    found, place = _relation_of(column), node.expressions[0]
    vector = found is not None and found.type_of(column.name) in VECTORS
    if vector and not isinstance(place, exp.Slice):
        one = exp.Add(this=exp.Paren(this=place.copy()), expression=exp.Literal.number(1))
        node.set("expressions", [one])


def _leave_default_out(node: exp.Collate) -> None:
    named = node.expression
    if isinstance(named, exp.Column) and named.table == SYSTEM_CATALOG:
        node.set("expression", named.this.copy())


def _replace_type(node: exp.DataType) -> None:
    name = _type_named(node)
    if name in _OID_TYPES:
        node.replace(exp.DataType(this=_OID_TYPES[name]))
    elif name in _VECTOR_TYPES:
        node.replace(exp.DataType.build(_VECTOR_TYPES[name], dialect="postgres"))
    elif name in _REGISTERED:
        node.replace(exp.DataType(this=exp.DType.BIGINT))
    elif isinstance(node.args.get("kind"), exp.Dot) and name:
        node.replace(exp.DataType.build(name, dialect="postgres", udt=True))


def _replace_cast(node: exp.Cast) -> None:
    to = node.args["to"]
    if not isinstance(to, exp.DataType):
        return
    for inner in [each for each in to.find_all(exp.DataType) if each is not to]:
        _replace_type(inner)
    name = _type_named(to)
    if name in _REGISTERED and not names_relation(node):
        about = _REGISTERED[name]
        oid = oid_of(about, node.this)
        supersede(node, oid if _is_compared(node, about) else _name_of(about, oid))
    elif name.startswith("regp") and isinstance(node.this, exp.Literal):
        text = node.this.this.removeprefix(f"{SYSTEM_CATALOG}.")
        node.set("this", exp.Literal.string(text))
        _replace_type(to)
    elif to.this is exp.DType.USERDEFINED and not names_relation(node):
        _replace_type(to)


def _is_compared(node: exp.Expr, about: str) -> bool:
    """Is a value of a type such as regclass needed as an OID?"""
    around = _around(node)
    if isinstance(around, _COMPARISONS):
        for side in (around.this, around.args.get("expression")):
            if isinstance(side, exp.Literal) and side.is_string:
                supersede(side, oid_of(about, side))
        return True
    if isinstance(around, exp.Cast):
        to = around.args["to"]
        return to.this in INTEGERS or _type_named(to) in {"oid", *_REGISTERED}
    return isinstance(around, exp.Anonymous) and around.name.lower() in _TAKE_OIDS


_PASSING = (exp.Alias, exp.Tuple, exp.Values, exp.Query, exp.Paren, exp.From)
"""What a value of a query passes on its way to an operator."""


def _around(node: exp.Expr) -> exp.Expr | None:
    """The operator or call around a value: for a value of a query, that around the query if it is
    compared with the values."""
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    outer: exp.Expr | None = around
    inner = node
    while isinstance(outer, _PASSING):
        if isinstance(outer, exp.Select) and inner.arg_key not in {"expressions", "from_"}:
            return around
        inner = outer
        outer = outer.parent
    return outer if isinstance(outer, exp.In | exp.Any) else around


def _name_of(about: str, oid: exp.Expr) -> exp.Expr:
    """The name under which an OID is shown: the number itself if there is no such object."""
    named = lookup(about, oid, -1 if about == "type" else 0)
    number = exp.cast(oid.copy(), exp.DType.TEXT)
    return exp.Coalesce(this=named, expressions=[number])
