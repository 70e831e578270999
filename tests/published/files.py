"""The published files, at fixed commits, and the folder that keeps them.

The files are not a part of this project: they are fetched when they are asked for.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hornbeam_server.schema.ddl.sources import Source

QUERIES = Path(__file__).parent / "queries"
TIMEOUT_S = 120.0
_WORD = re.compile(r"'[^']*'|\b[a-z]+(?:_[a-z]+)*\b(?!\()")


@dataclass(frozen=True)
class Published:
    """A database in the form of one dialect. `paths` are given to the command in this order;
    `included` are read by it. `queries` is the file of its queries; `renamed` maps the names in
    it to the names of this form. `joined`: names are written without underscores."""

    name: str
    source: Source
    repository: str
    commit: str
    paths: tuple[str, ...]
    queries: str
    included: tuple[str, ...] = ()
    joined: bool = False
    without: tuple[str, ...] = ()
    """The views of the queries that this form cannot keep, for want of foreign keys."""
    renamed: Mapping[str, str] = field(default_factory=dict)

    def files(self, folder: Path) -> list[Path]:
        """The files of the command, fetched into `folder` if they are not there."""
        for path in self.included:
            self._fetched(folder, path)
        return [self._fetched(folder, path) for path in self.paths]

    def _fetched(self, folder: Path, path: str) -> Path:
        file = folder / f"{self.repository.replace('/', '+')}@{self.commit[:12]}" / path
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            url = f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{path}"
            part = file.with_name(file.name + ".part")
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, part.open("wb") as out:
                while block := answer.read(1 << 20):
                    out.write(block)
            part.rename(file)
        return file

    def statements(self) -> tuple[list[str], list[str]]:
        """The declarations of immediate views, and the queries."""
        text = _WORD.sub(lambda word: self._word(word.group()), self._queries())
        found = [statement.strip() for statement in text.split(";\n") if statement.strip()]
        views = [each for each in found if each.startswith("CREATE MATERIALIZED VIEW")]
        kept = [each for each in views if each.split()[3] not in self.without]
        return kept, [each for each in found if each not in views]

    def _queries(self) -> str:
        return (QUERIES / f"{self.queries}.sql").read_text()

    def _word(self, word: str) -> str:
        if word.startswith("'"):
            return word
        joined = word.replace("_", "") if self.joined else word
        return self.renamed.get(word, joined)


def _chinook(form: str, source: Source, **how: object) -> Published:
    return Published(
        f"Chinook, {form}",
        source,
        "lerocha/chinook-database",
        "7f67772503d71ba90f19283c38e93923addb43fa",
        (f"ChinookDatabase/DataSources/Chinook_{form}.sql",),
        "chinook",
        **how,  # type: ignore[arg-type]
    )


def _bytebase(dialect: str, form: str, source: Source) -> Published:
    """Employees of Bytebase: 10 000 of the employees, in tables with names in the singular."""
    folder = f"{form}/dataset_large"
    loads = ("department", "employee", "dept_emp", "dept_manager", "title", "salary1")
    loaded = tuple(f"{folder}/load_{name}.sql" for name in loads)
    elapsed = () if source is Source.POSTGRES else (f"{folder}/show_elapsed.sql",)
    return Published(
        f"Employees of Bytebase, {dialect}",
        source,
        "bytebase/employee-sample-database",
        "c3d0a6e1b6623b19d213b754b3a5104dcfdff65b",
        (f"{folder}/employee.sql",),
        "employees",
        included=(*loaded, *elapsed),
        renamed={
            "employees": "employee",
            "departments": "department",
            "titles": "title",
            "salaries": "salary",
            "salary": "amount",
        },
    )


def _sakila(form: str, data: str, source: Source) -> Published:
    folder = f"{form}-sakila-db/{form}-sakila"
    return Published(
        f"Sakila, {form}",
        source,
        "jOOQ/sakila",
        "e089a5b1ec9af0df7a9c6a5d47d49fa1736a4e84",
        (f"{folder}-schema.sql", f"{folder}-{data}.sql"),
        "sakila",
    )


_SAMPLES = "morenoh149/postgresDBSamples"
_SAMPLES_COMMIT = "2bdc9539762092912655e1b82b7433d3151389dc"
_EMPLOYEES = ("departments", "employees", "dept_emp", "dept_manager", "titles")
PUBLISHED = (
    _chinook("PostgreSql", Source.POSTGRES),
    _chinook("PostgreSql_SerialPKs", Source.POSTGRES),
    _chinook("MySql", Source.MYSQL, joined=True),
    _chinook("MySql_AutoIncrementPKs", Source.MYSQL, joined=True),
    _chinook("Sqlite", Source.SQLITE, joined=True),
    _chinook("Sqlite_AutoIncrementPKs", Source.SQLITE, joined=True),
    _chinook("SqlServer", Source.SQLSERVER, joined=True),
    _chinook("SqlServer_AutoIncrementPKs", Source.SQLSERVER, joined=True),
    Published(
        "Northwind, PostgreSQL",
        Source.POSTGRES,
        "pthom/northwind_psql",
        "cd0ef28d66369fbe177778e604e4be0f153c9e5c",
        ("northwind.sql",),
        "northwind",
    ),
    Published(
        "Northwind, SQLite",
        Source.SQLITE,
        "jpwhite3/northwind-SQLite3",
        "4f56e7f5906dfd23b25244c5bfe8fb5da6402efd",
        ("src/create.sql",),
        "northwind",
        joined=True,
        renamed={"order_details": '"order details"'},
    ),
    Published(
        "Northwind of Access, MySQL",
        Source.MYSQL,
        "dalers/mywind",
        "0036c3ca2f2a010b77c7880a3b4badf85dbcfc7a",
        ("northwind.sql", "northwind-data.sql"),
        "northwind_access",
    ),
    Published(
        "Pagila",
        Source.POSTGRES,
        "devrimgunduz/pagila",
        "eddcfc4513dab4239ee1acbdf52beb1f5fcf50ac",
        ("pagila-schema.sql", "pagila-data.sql"),
        "sakila",
    ),
    Published(
        "Pagila of 2024",
        Source.POSTGRES,
        "devrimgunduz/pagila",
        "e0e35a666f31a786b9d3c06cb83799fc46db25d4",
        ("pagila-schema.sql", "pagila-data.sql"),
        "sakila",
        without=("paid_of_customer",),
    ),
    Published(
        "Pagila of xzilla",
        Source.POSTGRES,
        "xzilla/pagila",
        "eb65be5bc01833c4a4b716e611b82d0f680e359a",
        ("pagila-schema.sql", "pagila-data.sql"),
        "sakila",
        without=("paid_of_customer",),
    ),
    Published(
        "Pagila 0.10.1",
        Source.POSTGRES,
        _SAMPLES,
        _SAMPLES_COMMIT,
        ("pagila-0.10.1/pagila-schema.sql", "pagila-0.10.1/pagila-data.sql"),
        "sakila",
    ),
    Published(
        "World, PostgreSQL",
        Source.POSTGRES,
        _SAMPLES,
        _SAMPLES_COMMIT,
        ("worldDB-1.0/world.sql",),
        "world",
    ),
    _sakila("cockroachdb", "insert-data", Source.POSTGRES),
    _sakila("postgres", "insert-data-using-copy", Source.POSTGRES),
    _sakila("mysql", "insert-data", Source.MYSQL),
    _sakila("sqlite", "insert-data", Source.SQLITE),
    _sakila("sql-server", "insert-data", Source.SQLSERVER),
    Published(
        "Sakila of test_db, MySQL",
        Source.MYSQL,
        "datacharmer/test_db",
        "3c7fa05e04b4c339d91a43b7029a210212d48e6c",
        ("sakila/sakila-mv-schema.sql", "sakila/sakila-mv-data.sql"),
        "sakila",
    ),
    Published(
        "Employees, MySQL",
        Source.MYSQL,
        "datacharmer/test_db",
        "3c7fa05e04b4c339d91a43b7029a210212d48e6c",
        ("employees.sql",),
        "employees",
        included=(
            *(f"load_{name}.dump" for name in _EMPLOYEES),
            *(f"load_salaries{number}.dump" for number in (1, 2, 3)),
            "show_elapsed.sql",
        ),
    ),
    _bytebase("PostgreSQL", "postgres", Source.POSTGRES),
    _bytebase("MySQL", "mysql", Source.MYSQL),
)
