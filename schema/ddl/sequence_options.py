"""Reads SQL's options of sequences, also of identity columns: START, INCREMENT, bounds, RESTART.

The input is tokens, since the parser understands only a part of the syntax. Options that are not
possible for an identity column (CYCLE gives numbers a second time) are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.model import DeclaredSequence, Identity
from hornbeam_server.schema.namespaces import joined
from hornbeam_server.schema.sequences import default_bounds
from hornbeam_server.schema.types import SMALLINT, ColumnType, Kind

Refuse = Callable[[str, int, str], NoReturn]
"""Raises an error; the arguments are the refused text, its offset, and the cure."""
_DIALECT = Dialect.get_or_raise("postgres")
_WHOLE = "Write a whole number."
_KNOWN = (
    "Write AS type, START WITH, INCREMENT BY, MINVALUE, MAXVALUE, CYCLE, OWNED BY, or leave it out."
)
_NOT_OF_IDENTITIES = {"AS", "OWNED", "SEQUENCE"}
"""Options of a sequence that its identity column does not take together with others."""
BIGINT = ColumnType(Kind.BIGINT)
_INTEGER = ColumnType(Kind.INTEGER)
_TYPES = {
    **dict.fromkeys(("BIGINT", "INT8"), BIGINT),
    **dict.fromkeys(("INTEGER", "INT", "INT4"), _INTEGER),
    **dict.fromkeys(("SMALLINT", "INT2"), SMALLINT),
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a sequence; `name` is its SEQUENCE NAME. `restart`: the options have RESTART,
    with `restart_at` if a number follows. `owner`: the relation and column of OWNED BY."""

    name: str = ""
    start: int | None = None
    increment: int = 1
    least: int | None = None
    most: int | None = None
    restart: bool = False
    restart_at: int | None = None
    type: ColumnType = BIGINT
    cycle: bool = False
    owner: tuple[str, str] | None = None

    def identity(self, *, always: bool = False) -> Identity:
        last = self.most if self.increment > 0 else self.least
        return Identity(self.first, self.increment, last, always)

    def without_restart(self) -> Options:
        return replace(self, restart=False, restart_at=None)

    @property
    def first(self) -> int:
        """The first number."""
        bound, default = (self.least, 1) if self.increment > 0 else (self.most, -1)
        return next(n for n in (self.restart_at, self.start, bound, default) if n is not None)

    def declared(self, name: str) -> DeclaredSequence:
        """The sequence of this name."""
        least, most = default_bounds(self.type, self.increment)
        least = least if self.least is None else self.least
        most = most if self.most is None else self.most
        return DeclaredSequence(
            name, self.type, self.first, self.increment, least, most, self.cycle, self.owner
        )


def options_of(sequence: DeclaredSequence) -> Options:
    """The options with which a sequence is declared."""
    return Options(
        start=sequence.start,
        increment=sequence.increment,
        least=sequence.least,
        most=sequence.most,
        type=sequence.type,
        cycle=sequence.cycle,
        owner=sequence.owner,
    )


def read_options(
    tokens: Sequence[Token], refuse: Refuse, before: Options = Options(), *, identity: bool = False
) -> Options:
    """Read the options from tokens, as changes of the options `before`. `identity`: they are those
    of an identity column. Raises the error of `refuse`."""
    return _Reader(tokens, refuse, identity).read(before)


def checked_options(sql: str, before: DeclaredSequence, refuse: Refuse) -> str:
    """The options of ALTER SEQUENCE without RESTART, which is checked with the others. Raises the
    error of `refuse`."""
    tokens = _DIALECT.tokenize(sql)
    if not any(token.text.upper() == "RESTART" for token in tokens):
        return sql
    found = read_options(tokens, refuse, options_of(before))
    at = next(i for i, token in enumerate(tokens) if token.text.upper() == "RESTART")
    end = at + 1
    if found.restart_at is not None:
        while tokens[end].token_type is not TokenType.NUMBER:
            end += 1
        end += 1
    return " ".join(sql[token.start : token.end + 1] for token in [*tokens[:at], *tokens[end:]])


def changed_identity(sql: str, before: Identity, refuse: Refuse) -> Identity:
    """An identity after options of ALTER COLUMN (`SET GENERATED ALWAYS SET INCREMENT BY 2`) or of
    ALTER SEQUENCE, which has no SET. A RESTART among them is checked, and changes nothing here.
    Raises the error of `refuse`."""
    tokens, always, at = _DIALECT.tokenize(sql), before.always, 0
    options: list[Token] = []
    while at < len(tokens):
        words = [token.text.upper() for token in tokens[at : at + 4]]
        if words[0] in _NOT_OF_IDENTITIES:
            refuse(words[0], tokens[at].start, "Change the column.")
        if words[:2] != ["SET", "GENERATED"]:
            options += tokens[at : at + (words[0] != "SET")]
            at += 1
        elif words[2:3] == ["ALWAYS"] or words[2:] == ["BY", "DEFAULT"]:
            always = words[2] == "ALWAYS"
            at += 3 if always else 4
        else:
            refuse("GENERATED", tokens[at + 1].start, "Write SET GENERATED ALWAYS or BY DEFAULT.")
    least, most = (None, before.last) if before.increment > 0 else (before.last, None)
    known = Options(start=before.start, increment=before.increment, least=least, most=most)
    found = read_options(options, refuse, known, identity=True).without_restart()
    return _turned(found, before).identity(always=always)


def _turned(found: Options, before: Identity) -> Options:
    """The options whose increment may have changed its sign. PostgreSQL keeps the bound at the
    other end, which is its default where the first number does not show that it is another."""
    up = found.increment > 0
    if up == (before.increment > 0):
        return found
    if up and found.most is None and before.start < 0:
        return replace(found, most=-1)
    if not up and found.least is None and before.start > 0:
        return replace(found, least=1)
    return found


class _Reader:
    def __init__(self, tokens: Sequence[Token], refuse: Refuse, identity: bool) -> None:
        self._tokens = tokens
        self._refuse = refuse
        self._identity = identity
        self._at = 0

    def read(self, found: Options) -> Options:
        while self._at < len(self._tokens):
            found = self._option(found)
        self._check(found)
        return found

    def _check(self, found: Options) -> None:
        made = found.declared("")
        least, most = found.least, found.most
        if not self._identity:
            least, most = made.least, made.most
            numbers = found.type.declared_integers
            for name, bound in (("MINVALUE", least), ("MAXVALUE", most)):
                if bound not in numbers:
                    self._refuse_all(f"{name} {bound} of {found.type.ddl()}", "Use a wider type.")
            if least >= most:
                what = f"MINVALUE {least} with MAXVALUE {most}"
                self._refuse_all(what, "Give a smaller MINVALUE than MAXVALUE.")
        low = least is not None and made.start < least
        if low or (most is not None and made.start > most):
            beyond = f"MINVALUE {least}" if low else f"MAXVALUE {most}"
            self._refuse_all(
                f"A first number {made.start} beyond {beyond}", "Begin within the bounds."
            )

    def _refuse_all(self, what: str, cure: str) -> NoReturn:
        self._refuse(what, self._tokens[0].start if self._tokens else 0, cure)

    def _option(self, found: Options) -> Options:
        token = self._tokens[self._at]
        match self._word():
            case "SEQUENCE" if self._is("NAME"):
                return replace(found, name=self._name())
            case "START":
                self._is("WITH")
                return replace(found, start=self._number())
            case "INCREMENT":
                self._is("BY")
                return self._with_increment(found, token)
            case "MINVALUE":
                return replace(found, least=self._number())
            case "MAXVALUE":
                return replace(found, most=self._number())
            case "RESTART":
                at = self._number() if self._is("WITH") or self._is_number() else None
                return replace(found, restart=True, restart_at=at)
            case word:
                return self._other_option(word, token, found)

    def _other_option(self, word: str, token: Token, found: Options) -> Options:
        if word == "AS":
            return self._with_type(found)
        if word == "OWNED" and self._is("BY"):
            return replace(found, owner=self._owner())
        if word == "CACHE":
            # It has no effect: nodes always reserve numbers in blocks.
            if (number := self._number()) < 1:
                self._refuse(f"CACHE {number}", token.start, "Give a number from 1.")
            return found
        if word == "NO" and self._is("MINVALUE"):
            return replace(found, least=None)
        if word == "NO" and self._is("MAXVALUE"):
            return replace(found, most=None)
        without = word == "NO" and self._is("CYCLE")
        if not without and word != "CYCLE":
            self._refuse(f"{token.text} of a sequence", token.start, _KNOWN)
        if not without and self._identity:
            self._refuse("CYCLE", token.start, "Leave it out: numbers are given once.")
        return replace(found, cycle=not without)

    def _with_increment(self, found: Options, token: Token) -> Options:
        number = self._number()
        if not number:
            self._refuse("INCREMENT BY 0", token.start, "Give another number than 0.")
        return replace(found, increment=number)

    def _with_type(self, found: Options) -> Options:
        """The options with AS type. Bounds that are those of the old type are the new type's."""
        word = self._word()
        if word not in _TYPES:
            token = self._tokens[self._at - 1]
            cure = "Write SMALLINT, INTEGER or BIGINT."
            self._refuse(f"Type {token.text} of a sequence", token.start, cure)
        least, most = default_bounds(found.type, found.increment)
        return replace(
            found,
            type=_TYPES[word],
            least=None if found.least == least else found.least,
            most=None if found.most == most else found.most,
        )

    def _owner(self) -> tuple[str, str] | None:
        """The relation, with its schema if the name has one, and the column; None for OWNED BY
        NONE."""
        if self._is("NONE"):
            return None
        parts = self._parts()
        if len(parts) < 2:
            token = self._tokens[self._at - 1]
            self._refuse(f"OWNED BY {token.text}", token.start, "Write OWNED BY table.column.")
        return joined(*parts[-3:-1]) if len(parts) > 2 else parts[0], parts[-1]

    def _word(self) -> str:
        if self._at >= len(self._tokens):
            last = self._tokens[-1]
            self._refuse(f"{last.text} at the end", last.start, _KNOWN)
        self._at += 1
        return self._tokens[self._at - 1].text.upper()

    def _is(self, word: str) -> bool:
        """Skip `word` if it is the next token; return whether it was."""
        rest = self._tokens[self._at : self._at + 1]
        found = bool(rest) and rest[0].text.upper() == word
        self._at += found
        return found

    def _is_number(self) -> bool:
        return any(
            token.text in {"-", "+"} or token.token_type is TokenType.NUMBER
            for token in self._tokens[self._at : self._at + 1]
        )

    def _number(self) -> int:
        sign = -1 if self._is("-") else 1
        if sign > 0:
            self._is("+")
        text = self._word()
        if not text.isdecimal():
            token = self._tokens[self._at - 1]
            self._refuse(f"{token.text} of a sequence", token.start, _WHOLE)
        return sign * int(text)

    def _name(self) -> str:
        """The last part of a name."""
        return self._parts()[-1]

    def _parts(self) -> list[str]:
        parts = [self._part()]
        while self._is("."):
            parts.append(self._part())
        return parts

    def _part(self) -> str:
        self._word()
        token = self._tokens[self._at - 1]
        return token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower()
