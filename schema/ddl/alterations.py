"""ALTER TABLE, INDEX, VIEW, SEQUENCE, TYPE, DOMAIN and SCHEMA, RENAME TABLE and DROP as statements:
what they ask for.

`read_alteration` only parses. `node/alterations.py` carries the actions out on a schema. A type, a
default, an added column and an added constraint stay text, which the reader of DDL files reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.spaces import Spaces
from hornbeam_server.schema.drafts import Place
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.model import DATABASE, PUBLIC
from hornbeam_server.schema.sqltext import tokenize


@dataclass(frozen=True, slots=True)
class Text:
    """A part of the statement, which begins at `offset`."""

    sql: str
    offset: int


@dataclass(frozen=True, slots=True)
class AddElement:
    """ADD COLUMN or ADD of a constraint. `column`: the name of a column; "" for a constraint.
    `guarded`: a column that exists is left as it is."""

    text: Text
    column: str
    guarded: bool


@dataclass(frozen=True, slots=True)
class DropElement:
    """DROP COLUMN, or DROP CONSTRAINT with `constraint`."""

    name: str
    constraint: bool
    guarded: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class SetType:
    column: str
    type: Text
    using: Text | None


@dataclass(frozen=True, slots=True)
class SetDefault:
    """SET DEFAULT, or DROP DEFAULT without `default`. `column` is "" for a domain."""

    column: str
    default: Text | None


@dataclass(frozen=True, slots=True)
class SetNotNull:
    """SET NOT NULL, or DROP NOT NULL. `column` is "" for a domain."""

    column: str
    not_null: bool


@dataclass(frozen=True, slots=True)
class SetIdentity:
    """ADD GENERATED … AS IDENTITY, or DROP IDENTITY without `identity`."""

    column: str
    identity: Text | None
    guarded: bool


@dataclass(frozen=True, slots=True)
class ChangeIdentity:
    """SET GENERATED …, and SET of options of an identity column, as text."""

    column: str
    options: Text


@dataclass(frozen=True, slots=True)
class DropExpression:
    column: str
    guarded: bool


@dataclass(frozen=True, slots=True)
class RenameElement:
    """RENAME COLUMN, or RENAME CONSTRAINT with `constraint`."""

    old: str
    new: str
    constraint: bool


@dataclass(frozen=True, slots=True)
class RenameTo:
    new: str


@dataclass(frozen=True, slots=True)
class SetSchema:
    """SET SCHEMA: the table, view or sequence moves to the schema `space`."""

    space: str


@dataclass(frozen=True, slots=True)
class SetOptions:
    """The options of ALTER SEQUENCE, as text."""

    options: Text


@dataclass(frozen=True, slots=True)
class AddLabel:
    """ADD VALUE of ALTER TYPE: before or after the label `next_to`, at the end without it.
    `guarded`: a label that exists is left as it is."""

    label: str
    guarded: bool
    next_to: str | None = None
    before: bool = False


@dataclass(frozen=True, slots=True)
class RenameLabel:
    """RENAME VALUE of ALTER TYPE."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Validate:
    """VALIDATE CONSTRAINT, which has no effect: every constraint is validated when it is added."""

    constraint: str


Action = (
    AddElement
    | DropElement
    | SetType
    | SetDefault
    | SetNotNull
    | SetIdentity
    | ChangeIdentity
    | DropExpression
    | RenameElement
    | RenameTo
    | SetSchema
    | SetOptions
    | AddLabel
    | RenameLabel
    | Validate
)


@dataclass(frozen=True, slots=True)
class Alteration:
    """ALTER `kind` `name` …. `guarded`: IF EXISTS."""

    kind: str
    name: str
    guarded: bool
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Removal:
    """DROP `kind` `names`. `guarded`: IF EXISTS."""

    kind: str
    names: tuple[str, ...]
    guarded: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class Renames:
    """MySQL's RENAME TABLE: pairs of an old and a new name, one after the other."""

    pairs: tuple[tuple[str, str], ...]


_PARTS = 3
"""The parts of a name with its schema and its database."""
_SINGLE = "Send it by itself, without other actions."
_FORMS = (
    "Write ADD, DROP COLUMN, DROP CONSTRAINT, ALTER COLUMN … TYPE, … SET DEFAULT, … DROP DEFAULT,"
    " … SET NOT NULL, … DROP NOT NULL, … ADD GENERATED, … DROP IDENTITY, or RENAME."
)
_FORM_OF_NAME = "Only RENAME TO changes it: write ALTER … RENAME TO name."
_FORM_OF_MOVE = "Write ALTER … RENAME TO name, or ALTER … SET SCHEMA name."
_FORM_OF_TYPE = (
    "Write ADD VALUE 'label' [BEFORE 'label' | AFTER 'label'], RENAME VALUE 'label' TO 'label',"
    " RENAME TO name, or SET SCHEMA name."
)
_FORM_OF_DOMAIN = (
    "Write one of ADD [CONSTRAINT name] CHECK (…), DROP CONSTRAINT name, RENAME CONSTRAINT name TO"
    " name, VALIDATE CONSTRAINT name, SET DEFAULT …, DROP DEFAULT, SET NOT NULL, DROP NOT NULL,"
    " RENAME TO name, or SET SCHEMA name."
)
_MOVED = {
    "table": _FORMS,
    "view": _FORM_OF_MOVE,
    "sequence": _FORM_OF_MOVE,
    "type": _FORM_OF_TYPE,
    "domain": _FORM_OF_DOMAIN,
}
"""The kinds that SET SCHEMA moves, with the cure for other actions."""
_OF_OTHERS = {
    "MODIFY": "Write ALTER COLUMN name TYPE type, and SET NOT NULL or SET DEFAULT as actions.",
    "CHANGE": "Write RENAME COLUMN name TO new, and then ALTER COLUMN new TYPE type.",
    "AUTO_INCREMENT": "Write ALTER COLUMN name RESTART WITH number.",
    "ENGINE": "Leave it out.",
    "OWNER": "Leave it out: grants belong to API keys (hornbeam key).",
    "SET": "Leave it out: relations have no storage options. SET SCHEMA stands alone.",
}
"""The cures for actions of MySQL, and of PostgreSQL about what Hornbeam does not have."""
_OF_IDENTITIES = {"GENERATED", "START", "INCREMENT", "MINVALUE", "MAXVALUE", "NO", "CACHE", "CYCLE"}
"""What SET changes of an identity column."""
_CONSTRAINTS = {"CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "EXCLUDE"}


def read_alteration(
    sql: str, file: str = "", spaces: Spaces | None = None
) -> Alteration | Removal | Renames:
    """Parse one statement, with the schemas that are known. Raises SchemaError with its place."""
    origin = Place.at(sql, 0, file)
    tokens = _tokens(sql, origin)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    return _Reader(sql, origin, tokens, spaces or Spaces()).statement()


def _tokens(sql: str, origin: Place) -> list[Token]:
    """The tokens of a statement. The tokenizer takes all that follows RENAME at the beginning as
    one token, so that is read by itself."""
    tokens = tokenize(Source.POSTGRES.dialect, sql, origin)
    if tokens and tokens[0].text.upper() == "RENAME":
        end = tokens[0].end + 1
        return [tokens[0], *tokenize(Source.POSTGRES.dialect, " " * end + sql[end:], origin)]
    return tokens


class _Reader:
    """Reads the tokens from left to right."""

    def __init__(self, sql: str, origin: Place, tokens: Sequence[Token], spaces: Spaces) -> None:
        self._sql, self._origin, self._tokens, self._spaces = sql, origin, tokens, spaces
        self._at = 0

    def statement(self) -> Alteration | Removal | Renames:
        if self._took("DROP"):
            return self._removal("schema" if self._took("SCHEMA") else self._kind())
        if self._took("RENAME"):
            return self._renames()
        if not self._took("ALTER"):
            raise self._refused("Write ALTER, RENAME or DROP.")
        if self._took("SCHEMA"):
            return Alteration("schema", self._name(), False, tuple(self._actions("schema")))
        kind = self._kind()
        guarded = self._took("IF", "EXISTS")
        self._took("ONLY")
        name = self._relation()
        self._took("*")
        actions = tuple(self._actions(kind))
        return Alteration(kind, name, guarded, actions)

    def _kind(self) -> str:
        self._took("MATERIALIZED")
        for kind in ("TABLE", "INDEX", "VIEW", "SEQUENCE", "TYPE", "DOMAIN"):
            if self._took(kind):
                return kind.lower()
        raise self._refused("Write TABLE, INDEX, VIEW, SEQUENCE, TYPE or DOMAIN.")

    def _renames(self) -> Renames:
        self._require("TABLE")
        pairs = [self._pair()]
        while self._took(","):
            pairs.append(self._pair())
        if self._at < len(self._tokens):
            raise self._refused("Give only pairs behind RENAME TABLE: old TO new, old TO new.")
        return Renames(tuple(pairs))

    def _pair(self) -> tuple[str, str]:
        old = self._relation()
        self._require("TO")
        return old, self._new_relation()

    def _removal(self, kind: str) -> Removal:
        self._took("CONCURRENTLY")
        guarded = self._took("IF", "EXISTS")
        read = self._name if kind == "schema" else self._relation
        names = [read()]
        while self._took(","):
            names.append(read())
        cascade = self._cascades()
        if self._at < len(self._tokens):
            raise self._refused(f"Give only names behind DROP {kind.upper()}, separated by commas.")
        return Removal(kind, tuple(names), guarded, cascade)

    def _actions(self, kind: str) -> Iterator[Action]:
        alone = self._action_alone(kind)
        if alone is not None:
            action, cure = alone
            yield action
            if self._at < len(self._tokens):
                raise self._refused(cure)
            return
        if kind != "table":
            raise self._refused(_MOVED.get(kind, _FORM_OF_NAME))
        while True:
            yield self._action()
            if not self._took(","):
                break
        if self._at < len(self._tokens):
            raise self._refused(_FORMS)

    def _action_alone(self, kind: str) -> tuple[Action, str] | None:
        """The only action of its statement, and the cure for what follows it; None for actions of
        which a statement may have several."""
        if self._took("RENAME"):
            return self._rename(kind), f"RENAME is the only action of its statement. {_SINGLE}"
        if kind in _MOVED and self._took("SET", "SCHEMA"):
            only = f"SET SCHEMA is the only action of its statement. {_SINGLE}"
            return SetSchema(self._name()), only
        if kind == "sequence":
            return SetOptions(self._rest()), _MOVED[kind]
        if kind == "type" and self._took("ADD", "VALUE"):
            return self._label(), _FORM_OF_TYPE
        if kind == "domain":
            return self._action_of_domain(), _FORM_OF_DOMAIN
        return None

    def _rename(self, kind: str) -> Action:
        if self._took("TO") or self._took("AS"):
            return RenameTo(self._name())
        if kind == "type" and self._took("VALUE"):
            old = self._string()
            self._require("TO")
            return RenameLabel(old, self._string())
        constraint = kind in {"table", "domain"} and self._took("CONSTRAINT")
        if kind != "table" and not constraint:
            raise self._refused(_MOVED.get(kind, _FORM_OF_NAME))
        if not constraint:
            self._took("COLUMN")
        old = self._name()
        self._require("TO")
        return RenameElement(old, self._name(), constraint)

    def _action_of_domain(self) -> Action:
        if self._took("ADD"):
            return AddElement(self._rest(), "", guarded=False)
        if self._took("DROP", "CONSTRAINT"):
            guarded = self._took("IF", "EXISTS")
            return DropElement(
                self._name(), constraint=True, guarded=guarded, cascade=self._cascades()
            )
        if self._took("VALIDATE", "CONSTRAINT"):
            return Validate(self._name())
        changed = self._default_or_not_null("")
        if changed is None:
            raise self._refused(_FORM_OF_DOMAIN)
        return changed

    def _default_or_not_null(self, column: str) -> SetDefault | SetNotNull | None:
        """SET or DROP of DEFAULT or NOT NULL; None for other actions."""
        if self._took("SET", "DEFAULT"):
            return SetDefault(column, self._rest())
        if self._took("DROP", "DEFAULT"):
            return SetDefault(column, None)
        if self._took("SET", "NOT", "NULL"):
            return SetNotNull(column, not_null=True)
        if self._took("DROP", "NOT", "NULL"):
            return SetNotNull(column, not_null=False)
        return None

    def _label(self) -> AddLabel:
        guarded = self._took("IF", "NOT", "EXISTS")
        label = self._string()
        if self._took("BEFORE"):
            return AddLabel(label, guarded, self._string(), before=True)
        return AddLabel(label, guarded, self._string() if self._took("AFTER") else None)

    def _string(self) -> str:
        """A label, which is a text in quotes."""
        given = self._tokens[self._at : self._at + 1]
        if not given or given[0].token_type is not TokenType.STRING:
            raise self._refused("Write a label in single quotes here.")
        self._at += 1
        return given[0].text

    def _action(self) -> Action:
        if self._took("ADD"):
            return self._addition()
        if self._took("DROP"):
            constraint = self._took("CONSTRAINT")
            if not constraint:
                self._took("COLUMN")
            guarded = self._took("IF", "EXISTS")
            return DropElement(self._name(), constraint, guarded, self._cascades())
        if self._took("VALIDATE", "CONSTRAINT"):
            return Validate(self._name())
        if self._took("ALTER"):
            self._took("COLUMN")
            return self._column_action(self._name())
        raise self._refused(_OF_OTHERS.get(self._word(), _FORMS))

    def _addition(self) -> Action:
        explicit = self._took("COLUMN")
        guarded = self._took("IF", "NOT", "EXISTS")
        if not explicit and not guarded and self._word().partition(" ")[0] in _CONSTRAINTS:
            self._refuse_index()
            return AddElement(self._rest(), "", guarded=False)
        at = self._at
        column = self._name()
        self._at = at
        return AddElement(self._rest(), column, guarded)

    def _refuse_index(self) -> None:
        """Raises SchemaError for a constraint USING INDEX."""
        for at in range(self._at, len(self._tokens) - 1):
            if [t.text.upper() for t in self._tokens[at : at + 2]] == ["USING", "INDEX"]:
                self._at = at
                raise self._refused(
                    "Name the columns: PRIMARY KEY (a, b) or UNIQUE (a, b). The index stays until"
                    " it is dropped.",
                    "USING INDEX",
                )

    def _column_action(self, column: str) -> Action:
        if self._took("SET", "DATA", "TYPE") or self._took("TYPE"):
            type_ = self._rest("USING")
            using = self._rest() if self._took("USING") else None
            return SetType(column, type_, using)
        changed = self._default_or_not_null(column)
        if changed is not None:
            return changed
        if self._took("DROP", "EXPRESSION"):
            return DropExpression(column, self._took("IF", "EXISTS"))
        if self._took("DROP", "IDENTITY"):
            guarded = self._took("IF", "EXISTS")
            return SetIdentity(column, None, guarded)
        if self._took("ADD"):
            return SetIdentity(column, self._rest(), guarded=False)
        words = [token.text.upper() for token in self._tokens[self._at : self._at + 2]]
        if words[:1] == ["SET"] and words[-1] in _OF_IDENTITIES:
            return ChangeIdentity(column, self._rest())
        raise self._refused(_FORMS)

    def _cascades(self) -> bool:
        if self._took("CASCADE"):
            return True
        self._took("RESTRICT")
        return False

    def _word(self) -> str:
        if self._at >= len(self._tokens):
            raise self._refused("The statement ends too early.")
        token = self._tokens[self._at]
        return "" if token.token_type is TokenType.IDENTIFIER else token.text.upper()

    def _took(self, *words: str) -> bool:
        """Skip these words if they follow."""
        following = self._tokens[self._at : self._at + len(words)]
        found = [t.text.upper() for t in following if t.token_type is not TokenType.IDENTIFIER]
        if found != list(words):
            return False
        self._at += len(words)
        return True

    def _require(self, word: str) -> None:
        if not self._took(word):
            raise self._refused(f"Write {word} here.")

    def _new_relation(self) -> str:
        """The full name that a relation or view gets, in a schema that exists."""
        begin = self._at
        parts = self._parts()
        space = self._spaces.space(parts[-2]) if len(parts) > 1 else PUBLIC
        if space not in {PUBLIC, *self._spaces.declared}:
            raise self._origin.behind(self._sql, self._tokens[begin].start).error(
                f"There is no schema {space}.",
                cure=f"Write CREATE SCHEMA {space} first.",
                name=space,
            )
        return self._spaces.full(parts)

    def _relation(self) -> str:
        """The full name of a relation, view or index."""
        return self._spaces.full(self._parts())

    def _parts(self) -> list[str]:
        parts = [self._name()]
        while self._took("."):
            parts.append(self._name())
        if len(parts) > _PARTS or (len(parts) == _PARTS and parts[0] != DATABASE):
            raise self._refused(f"Write at most the schema before a name, not {parts[0]}.")
        return parts

    def _name(self) -> str:
        """A name without a schema."""
        if self._at >= len(self._tokens):
            raise self._refused("Write a name behind it.")
        token = self._tokens[self._at]
        quoted = token.token_type is TokenType.IDENTIFIER
        if not quoted and not token.text.replace("$", "_").isidentifier():
            raise self._refused("Write a name here.")
        self._at += 1
        return token.text if quoted else token.text.lower()

    def _rest(self, *ends: str) -> Text:
        """The text up to the next comma outside of parentheses, or to one of the words `ends`."""
        first, depth = self._at, 0
        while self._at < len(self._tokens):
            kind = self._tokens[self._at].token_type
            if depth == 0 and (kind is TokenType.COMMA or self._word() in ends):
                break
            depth += kind in _OPENING
            depth -= kind in _CLOSING
            self._at += 1
        if self._at == first:
            raise self._refused("The statement ends before it says what to change.")
        start = self._tokens[first].start
        return Text(self._sql[start : self._tokens[self._at - 1].end + 1], start)

    def _refused(self, cure: str, what: str = "") -> SchemaError:
        if self._at < len(self._tokens):
            token = self._tokens[self._at]
            place = self._origin.behind(self._sql, token.start)
            message = f"{what or token.text} is not supported here."
        else:
            place = self._origin.behind(self._sql, len(self._sql))
            message = "The statement ends before it says what to change."
        return place.error(message, cure=cure)


_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET}
