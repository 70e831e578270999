"""Reads SQL's options of sequences, for identity columns: START, INCREMENT, bounds, RESTART.

The input is tokens, since the parser understands only a part of the syntax. Options that are not
possible here (CYCLE gives numbers a second time) are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.model import Identity

Refuse = Callable[[str, int, str], NoReturn]
"""Raises an error; the arguments are the refused text, its offset, and the cure."""
_WHOLE = "Write a whole number."
_KNOWN = "Write START WITH, INCREMENT BY, MINVALUE, MAXVALUE, or leave it out."


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a sequence; `name` is its SEQUENCE NAME. `restart`: the options have RESTART,
    with `restart_at` if a number follows."""

    name: str = ""
    start: int | None = None
    increment: int = 1
    least: int | None = None
    most: int | None = None
    restart: bool = False
    restart_at: int | None = None

    def identity(self, *, always: bool = False) -> Identity:
        first, last = (self.least, self.most) if self.increment > 0 else (self.most, self.least)
        default = 1 if self.increment > 0 else -1
        start = next(n for n in (self.restart_at, self.start, first, default) if n is not None)
        return Identity(start, self.increment, last, always)


def read_options(tokens: Sequence[Token], refuse: Refuse) -> Options:
    """Read the options from tokens. Raises the error of `refuse`."""
    return _Reader(tokens, refuse).read()


class _Reader:
    def __init__(self, tokens: Sequence[Token], refuse: Refuse) -> None:
        self._tokens = tokens
        self._refuse = refuse
        self._at = 0

    def read(self) -> Options:
        found = Options()
        while self._at < len(self._tokens):
            found = self._option(found)
        self._check(found)
        return found

    def _check(self, found: Options) -> None:
        start = found.identity().start
        low = found.least is not None and start < found.least
        high = found.most is not None and start > found.most
        if low or high:
            bound = f"MINVALUE {found.least}" if low else f"MAXVALUE {found.most}"
            self._refuse(
                f"A first number {start} beyond {bound}",
                self._tokens[0].start,
                "Begin within the bounds.",
            )

    def _option(self, found: Options) -> Options:
        token = self._tokens[self._at]
        match self._word():
            case "SEQUENCE" if self._is("NAME"):
                found = replace(found, name=self._name())
            case "START":
                self._is("WITH")
                found = replace(found, start=self._number())
            case "INCREMENT":
                self._is("BY")
                found = replace(found, increment=self._number())
                if not found.increment:
                    self._refuse("INCREMENT BY 0", token.start, "Give another number than 0.")
            case "MINVALUE":
                found = replace(found, least=self._number())
            case "MAXVALUE":
                found = replace(found, most=self._number())
            case "RESTART":
                at = self._number() if self._is("WITH") or self._is_number() else None
                found = replace(found, restart=True, restart_at=at)
            case word:
                self._without_meaning(word, token)
        return found

    def _without_meaning(self, word: str, token: Token) -> None:
        """Skip an option that has no effect, or refuse it. CACHE has no effect: nodes always
        reserve numbers in blocks."""
        match word:
            case "AS":
                self._word()
            case "OWNED" if self._is("BY"):
                self._name()
            case "CACHE":
                self._number()
            case "NO" if self._is("MINVALUE") or self._is("MAXVALUE") or self._is("CYCLE"):
                pass
            case "CYCLE":
                self._refuse("CYCLE", token.start, "Leave it out: numbers are given once.")
            case _:
                self._refuse(f"{token.text} of a sequence", token.start, _KNOWN)

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
        self._word()
        while self._is("."):
            self._word()
        token = self._tokens[self._at - 1]
        return token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower()
