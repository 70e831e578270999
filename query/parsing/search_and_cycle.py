"""SEARCH and CYCLE of a recursive CTE, written out as the columns that they mean.

PostgreSQL's manual (7.8.2.1 and 7.8.2.2) gives the meaning. SEARCH adds a column by which the rows
are ordered: for DEPTH FIRST the list of the rows on the path to a row, for BREADTH FIRST its depth
and the row. CYCLE adds the path, as the texts of its rows, and a mark for a row that is on its own
path; no path goes on behind a mark. The library's parser does not know the clauses, so they are
taken out of the tokens, and kept at the CTE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.dialect.grammar import START, read_expression, text_at
from hornbeam_server.query.dialect.macros import call
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.trees import supersede

CLAUSES = "search_and_cycle"
"""Key in the meta of a CTE: its `Clauses`."""


@dataclass(frozen=True, slots=True)
class Search:
    """SEARCH … FIRST BY `columns` SET `order`."""

    depth: bool
    columns: tuple[str, ...]
    order: str


@dataclass(frozen=True, slots=True)
class Cycle:
    """CYCLE `columns` SET `mark` TO `found` DEFAULT `other` USING `path`; two texts of SQL."""

    columns: tuple[str, ...]
    mark: str
    path: str
    found: str = "TRUE"
    other: str = "FALSE"


@dataclass(frozen=True, slots=True)
class Clauses:
    search: Search | None = None
    cycle: Cycle | None = None


# ---------------------------------------------------------------- reading


@dataclass
class _Reader:
    """Reads words from `tokens`, from place `i` on."""

    tokens: Sequence[Token]
    i: int
    sql: str

    def word(self) -> str:
        return text_at(self.tokens, self.i).upper()

    def expect(self, *words: str) -> None:
        for word in words:
            if self.word() != word:
                raise SqlError(
                    f"{word} is missing in SEARCH or CYCLE, near {self.word() or 'the end'!r}.",
                    cure="Write SEARCH DEPTH FIRST BY a SET b, or CYCLE a SET b USING c.",
                )
            self.i += 1

    def name(self) -> str:
        token = self.tokens[self.i] if self.i < len(self.tokens) else None
        if token is None or not (token.text.isidentifier() or _is_quoted(token)):
            self.expect("a name")
            return ""
        self.i += 1
        return token.text if _is_quoted(token) else token.text.lower()

    def names(self) -> tuple[str, ...]:
        found = [self.name()]
        while self.word() == ",":
            self.i += 1
            found.append(self.name())
        return tuple(found)

    def text_until(self, word: str) -> str:
        start = self.i
        while self.word() not in (word, ""):
            self.i += 1
        self.expect(word)
        given = self.tokens[start : self.i - 1]
        if not given:
            self.expect("a value")
        if any(token.token_type in _PARAMETERS for token in given):
            raise SqlError(
                "A value of CYCLE … SET … TO is a parameter.", cure="Write the two values."
            )
        return self.sql[given[0].start : given[-1].end + 1]


_PARAMETERS = {TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON, TokenType.QDCOLON}


def _is_quoted(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER


def without_clauses(
    tokens: Sequence[Token], sql: str
) -> tuple[Sequence[Token], dict[int, Clauses]]:
    """The tokens without SEARCH and CYCLE, and these by the place in `sql` at which the name of
    their CTE begins. Raises SqlError."""
    if not any(token.text.upper() in ("SEARCH", "CYCLE") for token in tokens):
        return tokens, {}
    kept: list[Token] = []
    found: dict[int, Clauses] = {}
    reader = _Reader(tokens, 0, sql)
    while reader.i < len(tokens):
        if tokens[reader.i - 1].token_type is TokenType.R_PAREN and _begins(reader):
            start = _start_of_cte(tokens, reader.i - 1)
            found[start] = _read(reader)
        else:
            kept.append(tokens[reader.i])
            reader.i += 1
    return kept, found


def _begins(reader: _Reader) -> bool:
    """Does SEARCH DEPTH, SEARCH BREADTH or CYCLE name begin here?"""
    behind = [text_at(reader.tokens, reader.i + n).upper() for n in (1, 2)]
    if reader.word() == "SEARCH":
        return behind[0] in ("BREADTH", "DEPTH") and behind[1] == "FIRST"
    return reader.word() == "CYCLE" and behind[1] in (",", "SET")


def _read(reader: _Reader) -> Clauses:
    found = Clauses()
    if reader.word() == "SEARCH":
        reader.i += 1
        depth = reader.word() == "DEPTH"
        reader.i += 1
        reader.expect("FIRST", "BY")
        columns = reader.names()
        reader.expect("SET")
        found = Clauses(Search(depth, columns, reader.name()))
    if _begins(reader):
        reader.i += 1
        columns = reader.names()
        reader.expect("SET")
        mark, values = reader.name(), {}
        if reader.word() == "TO":
            reader.i += 1
            values = {"found": reader.text_until("DEFAULT"), "other": reader.text_until("USING")}
        else:
            reader.expect("USING")
        found = replace(found, cycle=Cycle(columns, mark, reader.name(), **values))
    return found


def _start_of_cte(tokens: Sequence[Token], end: int) -> int:
    """Where the name of the CTE begins whose query ends with the parenthesis at `end`."""
    i = _opening(tokens, end) - 1
    while tokens[i].text.upper() in ("AS", "NOT", "MATERIALIZED"):
        i -= 1
    if tokens[i].text == ")":
        i = _opening(tokens, i) - 1
    return tokens[i].start


def _opening(tokens: Sequence[Token], end: int) -> int:
    depth, i = 0, end
    while i >= 0:
        depth += (tokens[i].text == ")") - (tokens[i].text == "(")
        if not depth:
            return i
        i -= 1
    return 0


def keep_clauses(tree: exp.Expr, found: Mapping[int, Clauses]) -> None:
    """Keep the clauses at the CTEs of the tree."""
    for cte in tree.find_all(exp.CTE) if found else ():
        clauses = found.get(cte.meta[START])
        if clauses is not None:
            cte.meta[CLAUSES] = clauses


# ---------------------------------------------------------------- writing


def write_out_clauses(tree: exp.Expr) -> None:
    """Write the clauses of all CTEs of the tree as columns. Raises SqlError, Unsupported."""
    for cte in [each for each in tree.find_all(exp.CTE) if CLAUSES in each.meta]:
        _write_out(cte, cte.meta.pop(CLAUSES))


def _write_out(cte: exp.CTE, clauses: Clauses) -> None:
    union, name = cte.this, cte.alias
    first, again = (union.this, union.expression) if isinstance(union, exp.Union) else (None, None)
    own = _own_table(again, name) if isinstance(again, exp.Select) else None
    if first is None or again is None or own is None:
        raise Unsupported(
            f"SEARCH and CYCLE of {name}, which is no UNION of a query and a SELECT FROM {name}.",
            cure=f"Write {name} into FROM of the SELECT behind UNION ALL.",
        )
    names = _names(cte, first)
    added = _Added(clauses, name, names)
    added.check()
    begun = _wrapped(first.copy(), name, names, added.first())
    body = again.copy()
    body.set("expressions", [*body.expressions, *added.carried(own)])
    if clauses.cycle is not None:
        body = body.where(added.goes_on(own), copy=False)
    inner = [*names, *added.names()]
    gone_on = _wrapped(body, name, inner, added.again(), names)
    supersede(first, begun)
    supersede(again, gone_on)
    title = exp.TableAlias(this=cte.args["alias"].this.copy(), columns=_identifiers(inner))
    cte.set("alias", title)


def _own_table(select: exp.Select, name: str) -> str | None:
    """The alias of the CTE in FROM of its recursive part; None if it is not there, or twice."""
    origin = select.args.get("from_")
    items = [origin.this] if origin is not None else []
    items += [join.this for join in select.args.get("joins") or ()]
    tables = [each for each in items if isinstance(each, exp.Table) and not each.db]
    tables += [join.this for each in tables for join in each.args.get("joins") or ()]
    found = [each.alias_or_name for each in tables if each.name == name]
    return found[0] if len(found) == 1 else None


def _names(cte: exp.CTE, first: exp.Expr) -> list[str]:
    """The names of the columns of the CTE."""
    given: list[str] = cte.alias_column_names
    select = first.unnest()
    listed = select.expressions if isinstance(select, exp.Select) else []
    names = [each.alias_or_name for each in listed]
    if (not listed or "*" in names) and not given:
        raise SqlError(
            f"SEARCH and CYCLE need the names of the columns of {cte.alias}.",
            cure=f"Write {cte.alias} (a, b, …) AS (…).",
        )
    return [*given, *names[len(given) :]]


@dataclass(frozen=True, slots=True)
class _Added:
    """The columns that the clauses add to the CTE `name` with the columns `columns`."""

    clauses: Clauses
    name: str
    columns: Sequence[str]

    def names(self) -> list[str]:
        search, cycle = self.clauses.search, self.clauses.cycle
        ordered = [] if search is None else [search.order]
        return ordered if cycle is None else [*ordered, cycle.mark, cycle.path]

    def check(self) -> None:
        """Raise SqlError for a column that is not there, and for one that is there twice."""
        for clause in (self.clauses.search, self.clauses.cycle):
            for column in clause.columns if clause is not None else ():
                if column not in self.columns:
                    raise SqlError(
                        f"SEARCH or CYCLE of {self.name} names the unknown column {column}.",
                        cure=f"Name one of {', '.join(self.columns)}.",
                    )
        for name in self.names():
            if [*self.columns, *self.names()].count(name) > 1:
                raise SqlError(
                    f"SEARCH or CYCLE of {self.name} sets the column {name} twice, or one that"
                    " the query has.",
                    cure="Choose another name.",
                )

    def first(self) -> list[exp.Expr]:
        """The values of the columns in the rows of the first part."""
        found: list[exp.Expr] = []
        search, cycle = self.clauses.search, self.clauses.cycle
        if search is not None and search.depth:
            found.append(_function("list_value", self._row(search.columns)))
        elif search is not None:
            found.append(self._row(search.columns, exp.cast(exp.Literal.number(0), "BIGINT")))
        if cycle is not None:
            found += [read_expression(cycle.other), exp.Array(expressions=[self._text(cycle)])]
        return found

    def again(self) -> list[exp.Expr]:
        """Their values in the rows of the recursive part, over those of the row before."""
        found: list[exp.Expr] = []
        search, cycle = self.clauses.search, self.clauses.cycle
        if search is not None and search.depth:
            found.append(
                _function("list_append", self._column(search.order), self._row(search.columns))
            )
        elif search is not None:
            before = _function(
                "struct_extract", self._column(search.order), exp.Literal.string("f1")
            )
            deeper = exp.Add(this=before, expression=exp.Literal.number(1))
            found.append(self._row(search.columns, exp.cast(deeper, "BIGINT")))
        if cycle is not None:
            path = self._column(cycle.path)
            known = _function("list_contains", path, self._text(cycle))
            found += [
                exp.Case(
                    ifs=[exp.If(this=known, true=read_expression(cycle.found))],
                    default=read_expression(cycle.other),
                ),
                _function("list_append", path.copy(), self._text(cycle)),
            ]
        return found

    def carried(self, own: str) -> list[exp.Expr]:
        """The columns of the row before, in the list of the recursive part."""
        return [
            exp.alias_(exp.column(_quoted(each), table=_quoted(own)), each, quoted=True)
            for each in self.names()
        ]

    def goes_on(self, own: str) -> exp.Expr:
        """The condition that the row before has no mark."""
        assert self.clauses.cycle is not None
        mark = exp.column(_quoted(self.clauses.cycle.mark), table=_quoted(own))
        marks = exp.Array(expressions=[read_expression(self.clauses.cycle.found)])
        return exp.Not(this=_function("list_contains", marks, mark))

    def _column(self, name: str) -> exp.Column:
        return exp.column(_quoted(name), table=_quoted(self.name))

    def _row(self, columns: Sequence[str], *before: exp.Expr) -> exp.Expr:
        return _function("row", *before, *map(self._column, columns))

    def _text(self, cycle: Cycle) -> exp.Expr:
        """The text of the row of these columns."""
        parts: list[exp.Expr] = []
        for column in map(self._column, cycle.columns):
            parts += [exp.Literal.string("," if parts else "("), call("field_of_row", column)]
        return _function("concat", *parts, exp.Literal.string(")"))


def _wrapped(
    query: exp.Expr,
    name: str,
    columns: Sequence[str],
    added: Sequence[exp.Expr],
    kept: Sequence[str] | None = None,
) -> exp.Select:
    """A SELECT of the columns of a query that are `kept`, and of those that are added."""
    title = exp.TableAlias(this=_quoted(name), columns=_identifiers(columns))
    source = exp.Subquery(this=query.unnest(), alias=title)
    shown = [exp.column(_quoted(each), table=_quoted(name)) for each in kept or columns]
    items = [*shown, *(exp.alias_(each, f"added_{i}") for i, each in enumerate(added))]
    return exp.Select(expressions=items).from_(source, copy=False)


def _identifiers(names: Iterable[str]) -> list[exp.Identifier]:
    return list(map(_quoted, names))


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _function(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))
