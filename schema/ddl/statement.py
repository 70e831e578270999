"""One statement of a DDL file: its tokens, its parser, the places of its parts, and refusals."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.ddl.expressions import (
    NO_TYPES,
    Part,
    default_of,
    domain_casts,
    element_of,
    expression,
    is_word,
    parts_of,
    without,
)
from hornbeam_server.schema.ddl.scan import Piece
from hornbeam_server.schema.ddl.sequence_options import Options, read_options
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.spaces import Spaces, is_catalog
from hornbeam_server.schema.drafts import Expression, Name, Place
from hornbeam_server.schema.qualifying import Edit, edited, qualifications, type_qualifications
from hornbeam_server.schema.sequences import sequences_in, with_renamed_sequence
from hornbeam_server.schema.sqltext import CODE_POINTS, no_fallback_warnings, tokenize
from hornbeam_server.schema.trees import unlink_unfinished

DIALECT = Dialect.get_or_raise("postgres")
_BEFORE = ("db", "catalog")
_QUOTED = {TokenType.IDENTIFIER, TokenType.STRING}
STATEMENTS = (
    "a DDL file holds CREATE TABLE, CREATE INDEX, CREATE [MATERIALIZED] VIEW, CREATE DOMAIN, CREATE"
    " and ALTER SEQUENCE, and ALTER TABLE that adds or drops columns or constraints, or changes a"
    " column"
)
_READ = (["TABLE"], ["INDEX"], ["UNIQUE"], ["MATERIALIZED"], ["VIEW"])
"""Words after CREATE."""
_WITH_DATA = (["WITH", "NO", "DATA"], ["WITH", "DATA"])


@dataclass(frozen=True)
class Statement:
    """One statement: its tokens, its parser, and the mapping from a node to its place. Offsets
    count from the beginning of `text`, which is at `origin` in the file."""

    text: str
    origin: Place
    tokens: Sequence[Token]
    spaces: Spaces
    types: Mapping[str, str] = field(default_factory=lambda: NO_TYPES)
    """The types of the domains that are declared above, by the names of the domains."""

    @classmethod
    def of(cls, piece: Piece, types: Mapping[str, str] = NO_TYPES) -> Statement:
        """Raises SchemaError when the tokens of the statement cannot be read."""
        text = piece.text
        tokens = tokenize(piece.spaces.source.dialect, text, piece.place)
        return cls(text, piece.place, tokens, piece.spaces, types)

    @property
    def source(self) -> Source:
        return self.spaces.source

    @property
    def options(self) -> dict[int, tuple[int, int]]:
        """The parenthesised options after AS IDENTITY, which the parser only partly understands:
        offset of AS → positions of the parentheses in `tokens`."""
        found = {}
        for i, (word, identity, opening) in enumerate(
            zip(self.tokens, self.tokens[1:], self.tokens[2:], strict=False)
        ):
            said = word.token_type is TokenType.ALIAS and identity.text.upper() == "IDENTITY"
            if said and opening.token_type is TokenType.L_PAREN:
                found[word.start] = (i + 2, self._closing(i + 2))
        return found

    def _closing(self, opening: int) -> int:
        depth = 0
        for i, token in enumerate(self.tokens[opening:], opening):
            depth += (token.token_type is TokenType.L_PAREN) - (
                token.token_type is TokenType.R_PAREN
            )
            if not depth:
                return i
        raise self.place(self.tokens[opening].start).error(
            "( is not closed.", cure="Close it behind the options of the identity."
        )

    def options_behind(self, offset: int) -> Options:
        """The options of the first AS IDENTITY after `offset`."""
        first, last = self.options.get(self.keyword("AS", offset), (0, 0))
        return read_options(self.tokens[first + 1 : last], self.refuse, identity=True)

    def parse(self) -> exp.Expr:
        parser = self.source.dialect.parser(error_level=ErrorLevel.RAISE)
        try:
            with no_fallback_warnings():
                self._check_behind()
                (tree,) = parser.parse(list(without(self._tokens, self._parts)), self.text)
        except ParseError as error:
            unlink_unfinished(error)
            raise self._syntax_error(error) from None
        except RecursionError:
            raise self.place(self.start).error(
                "This statement is nested too deeply.", cure="Write it with fewer parentheses."
            ) from None
        except (AttributeError, IndexError, TypeError, ValueError, TokenError) as error:
            # The parser itself fails with these errors on some invalid statements.
            reason = str(error).split("\n", maxsplit=1)[0]
            raise self.place(self.start).error(
                f"This statement cannot be parsed: {reason}", cure="Correct its syntax."
            ) from error
        assert tree is not None
        return tree

    @cached_property
    def _tokens(self) -> Sequence[Token]:
        """The tokens without the options of identities, and without what says how NULLs compare in
        an index, which the parser knows in constraints only."""
        tokens = list(_without(self.tokens, self.options))
        is_index = "INDEX" in [token.text.upper() for token in tokens[:3]]
        kept = {"", _EQUAL_NULLS} if not is_index else {""}
        return [token for token, phrase in _with_nulls(tokens) if phrase in kept]

    @property
    def nulls_distinct(self) -> bool:
        """Whether CREATE INDEX leaves NULLs distinct."""
        return all(phrase != _EQUAL_NULLS for _, phrase in _with_nulls(self.tokens))

    def require_collation(self, node: exp.Expr) -> None:
        """Refuse COLLATE with a collation that orders text otherwise than by code point."""
        named = node.expression if isinstance(node, exp.Collate) else node.this
        if named.name not in CODE_POINTS:
            cure = "Text is ordered by code point: leave COLLATE out, or compare lower(column)."
            self.refuse(f"COLLATE {named.name}", self.offset(named), cure)

    @cached_property
    def _parts(self) -> Sequence[Part]:
        """The expressions among `_tokens`."""
        return parts_of(self._tokens)

    def _check_behind(self) -> None:
        """Refuse words behind expressions that the parser reads otherwise, or not at all."""
        tokens = self._tokens
        for part in self._parts:
            behind = tokens[part.closing + 1 : part.closing + 2]
            stored = bool(behind) and is_word(behind[0], "STORED")
            if part.generated and tokens[part.opening - 2].text.upper() == "DEFAULT":
                cure = "Write GENERATED ALWAYS AS (expression) STORED."
                self.refuse("BY DEFAULT AS an expression", tokens[part.opening - 2].start, cure)
            if self.source is not Source.SQLSERVER and part.generated and not stored:
                raise self.place(tokens[part.closing].start).error(
                    "STORED is missing behind the expression of a generated column.",
                    cure="Write STORED, or leave the column out and compute the value in queries.",
                )

    def expression(self, number: exp.Expr) -> Expression:
        """The expression in whose place the parser has read `number`."""
        tokens = self._tokens
        part = self._parts[int(number.unnest().name)]
        inside = tokens[part.opening + 1 : part.closing]
        place = self.place(tokens[part.opening].start)
        if not inside:
            raise place.error("The parentheses are empty.", cure="Write an expression into them.")
        return expression(inside, self.text, self.place(inside[0].start), self.source, self.types)

    def default_expression(self, column: int) -> Expression:
        """The expression behind the DEFAULT of the column that is named at offset `column`."""
        first = self._index(self.keyword("DEFAULT", column)) + 1
        inside = default_of(self.tokens[first:])
        place = self.place(inside[0].start)
        found = expression(inside, self.text, place, self.source, self.types)
        return replace(found, sql=self._with_full_sequences(found.sql))

    def _with_full_sequences(self, sql: str) -> str:
        """The expression, whose sequences have their full names, in one form."""
        for name in sequences_in(sql):
            sql = with_renamed_sequence(sql, name, self.spaces.found(name))
        return sql

    def without_data(self) -> Statement:
        """The statement without WITH [NO] DATA at its end: a view always has its rows."""
        words = [token.text.upper() for token in self.tokens]
        behind = next((n for n in (3, 2) if words[-n:] in _WITH_DATA), 0)
        return replace(self, tokens=self.tokens[: len(words) - behind])

    def condition(self, after: int) -> Expression:
        """The condition behind the first WHERE from offset `after` on, to the end."""
        first = self._index(self.keyword("WHERE", after)) + 1
        inside = self.tokens[first:]
        return expression(inside, self.text, self.place(inside[0].start), self.source, self.types)

    def element(self, after: int, number: int) -> Expression:
        """The expression that is the element `number` of the first list in parentheses from offset
        `after` on. The order of an index behind it is left out."""
        inside = element_of(self.tokens[self._index(after) :], number)
        return expression(inside, self.text, self.place(inside[0].start), self.source, self.types)

    def _syntax_error(self, error: ParseError) -> Exception:
        """The error at the offending token. The parser reports its *last* character's place."""
        found = error.errors[0]
        end = (found["line"], found["col"])
        token = next((t for t in self.tokens if (t.line, t.col) == end), self.tokens[-1])
        place = self.place(token.start)
        line = self.text.split("\n")[place.line - self.origin.line].strip()
        problem = str(found["description"]).split(" but got", maxsplit=1)[0].lower()
        return place.error(
            f"Syntax error at {token.text}: {problem}.",
            cure=f"Correct the line: {line}.",
            name=token.text,
        )

    def place(self, offset: int) -> Place:
        return self.origin.behind(self.text, offset)

    @property
    def start(self) -> int:
        return self.tokens[0].start

    def beginning(self) -> str:
        """The first words of the statement, in one line."""
        return " ".join(self.text[self.start : self.tokens[:10][-1].end + 1].split())

    def offset(self, node: exp.Expr) -> int:
        """Offset of the first identifier or literal of `node`, otherwise of the statement."""
        starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        return min(starts, default=self.start)

    def keyword(self, word: str, after: int) -> int:
        """Offset of the first `word` from offset `after` on, or `after` if there is none."""
        for token in self.tokens[self._index(after) :]:
            if token.text.upper() == word and token.token_type not in _QUOTED:
                return token.start
        return after

    def keyword_before(self, words: Collection[str], offset: int) -> int:
        """Offset of the last of `words` before `offset`, or `offset` if there is none."""
        for token in reversed(self.tokens[: self._index(offset)]):
            if token.text.upper() in words and token.token_type not in _QUOTED:
                return token.start
        return offset

    def behind(self, offset: int) -> Place:
        """Place of the token after the token at `offset`."""
        index = min(self._index(offset) + 1, len(self.tokens) - 1)
        return self.place(self.tokens[index].start)

    def quoted_behind(self, offset: int) -> str:
        """The name in quotes that is the token after the token at `offset`; "" for other tokens."""
        index = min(self._index(offset) + 1, len(self.tokens) - 1)
        token = self.tokens[index]
        return token.text if token.token_type is TokenType.IDENTIFIER else ""

    def _behind_as(self) -> Sequence[Token]:
        for token, following in self._outside():
            if token.token_type is TokenType.ALIAS:
                return self.tokens[self._index(following.start) :]
        return ()

    def query(self, tree: exp.Expr) -> str:
        """The text behind the first AS outside parentheses, which the parser has read as `tree`. It
        has the types of domains for their names behind `::`, and relations have the names by which
        they are found without a search path."""
        tokens = self._behind_as()
        casts = (
            Edit(tokens[at].start, tokens[end - 1].end + 1, type_)
            for at, end, type_ in domain_casts(tokens, self.types)
            if tokens[at - 1].token_type is TokenType.DCOLON
        )
        found = self.spaces.in_query
        edits = [*qualifications(tree, found), *type_qualifications(tokens, found), *casts]
        return edited(self.text[: tokens[-1].end + 1], edits)[tokens[0].start :]

    def has_query(self) -> bool:
        """Is there an AS outside parentheses?"""
        return bool(self._behind_as())

    def outside_columns(self) -> Token:
        """The token after the list of columns, otherwise the token after CREATE."""
        for token, following in self._outside():
            if token.token_type is TokenType.R_PAREN:
                return following
        return self.tokens[1]

    def _outside(self) -> Iterator[tuple[Token, Token]]:
        """Tokens outside parentheses, each with the next token. The closing parenthesis of an
        outermost pair counts as outside."""
        depth = 0
        for token, following in pairwise(self.tokens):
            depth += (token.token_type is TokenType.L_PAREN) - (
                token.token_type is TokenType.R_PAREN
            )
            if not depth:
                yield token, following

    def _index(self, offset: int) -> int:
        return bisect_left(self.tokens, offset, key=lambda token: token.start)

    def name(self, node: exp.Expr | None) -> Name:
        """An identifier, folded to lower case unless it is quoted."""
        if not isinstance(node, exp.Identifier):
            what = node.sql("postgres") if node is not None else "nothing"
            self.refuse(
                what, self.offset(node) if node is not None else self.start, "Write a name."
            )
        exact = node.args.get("quoted") and not self.source.folds_quoted
        text = node.name if exact else node.name.lower()
        return Name(text, self.place(self.offset(node)))

    def table(self, node: exp.Expr | None) -> Name:
        if not isinstance(node, exp.Table):
            what = node.sql(DIALECT) if node is not None else "a reference to nothing"
            offset = self.offset(node) if node is not None else self.start
            self.refuse(what, offset, "Write the name of a relation.")
        named = self.name(node.this)
        schema, catalog = (self.name(p).text if p else "" for p in map(node.args.get, _BEFORE))
        if catalog and not is_catalog(catalog, self.source):
            what, cure = node.sql(), "Leave out the part before the schema."
            self.refuse(f"The name {what}", self.offset(node), cure)
        full = self.spaces.full([schema, named.text] if schema else [named.text])
        if self.spaces.parted(full)[1] != named.text:
            raise named.place.error(
                f'The name "{named.text}" begins with the name of a schema and a dot.',
                cure=f"Write {full} for the relation in the schema, or choose another name.",
                name=named.text,
            )
        return Name(full, self.place(self.offset(node)))

    def beside(self, relation: Name, name: Name) -> Name:
        """The full name of an index of the relation, in whose schema it is."""
        return Name(self.spaces.beside(relation.text, name.text), name.place)

    def names(self, nodes: Sequence[exp.Expr]) -> tuple[Name, ...]:
        return tuple(self.name(node) for node in nodes)

    def only(self, node: exp.Expr, parts: set[str], cure: str, at: int | None = None) -> None:
        """Refuse a node with parts other than `parts`, since these would be ignored silently."""
        for part, value in node.args.items():
            if value and part not in parts and not part.startswith("_"):
                written = node.sql(DIALECT, comments=False)
                what = written if len(written) < 40 else part.upper()
                self.refuse(what, self.offset(node) if at is None else at, cure)

    def included(self, node: exp.Expr, cure: str, at: int | None = None) -> tuple[Name, ...]:
        """The columns of INCLUDE after PRIMARY KEY and UNIQUE. USING INDEX … is refused."""
        if (parameters := node.args.get("include")) is None:
            return ()
        self.only(parameters, {"include"}, cure, self.offset(node) if at is None else at)
        return self.names(parameters.args.get("include") or ())

    def refuse(self, what: str, offset: int, cure: str) -> NoReturn:
        raise self.place(offset).error(f"{what} is not supported here.", cure=cure, name=what)


_EQUAL_NULLS = "NULLS NOT DISTINCT"


def _with_nulls(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """The tokens, each with the phrase NULLS [NOT] DISTINCT of which it is a word, or ""."""
    words = [token.text.upper() for token in tokens]
    phrases = (_EQUAL_NULLS, "NULLS DISTINCT") if "NULLS" in words else ()
    phrase, end = "", 0
    for i, token in enumerate(tokens):
        for each in phrases:
            length = each.count(" ") + 1
            if " ".join(words[i : i + length]) == each and token.token_type not in _QUOTED:
                phrase, end = each, i + length
        yield token, phrase if i < end else ""


def _without(tokens: Sequence[Token], options: Mapping[int, tuple[int, int]]) -> Iterator[Token]:
    cut = [range(first, last + 1) for first, last in options.values()]
    return (token for i, token in enumerate(tokens) if not any(i in part for part in cut))


def refuse_unread(statement: Statement) -> NoReturn:
    """Refuse a statement that the parser does not understand and returns as plain text."""
    tokens = statement.tokens
    words = [token.text.upper() for token in tokens]
    backtick = next((token for token in tokens if token.text == "`"), None)
    if backtick is not None:
        cure = 'Write names as they are, or "quoted"; --dialect mysql reads a file of MySQL.'
        statement.refuse("The quote `", backtick.start, cure)
    with_data = next((n for n in (3, 2) if words[-n:] in _WITH_DATA), None)
    if with_data is not None:
        what = " ".join(words[-with_data:])
        statement.refuse(what, tokens[-with_data].start, f"Leave out {what}.")
    if words[0] == "CREATE" and words[1:2] in _READ:
        raise statement.place(statement.start).error(
            f"This CREATE {words[1]} is not understood.",
            cure="Correct its syntax.",
            name=words[1],
        )
    statement.refuse(statement.beginning(), statement.start, STATEMENTS)
