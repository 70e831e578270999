"""The corpora of others, each at one commit, fetched into a cache outside of the checkout.

SQLLOGIC_REPOSITORIES names a folder with git repositories (`owner+name`) that are read instead of
https://github.com, on machines without a network.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.sqllogic.databases import Hornbeam
from tests.sqllogic.runner import Style

GITHUB = "https://github.com"
FETCH_S = 600.0
SAMPLE, SEED = 2, "hornbeam"
"""The number of files that a sample has of each folder, and the seed that chooses them."""
OWN = Path(__file__).parent / "files"
_DUCKDB = (
    *("aggregate", "conjunction", "constraints", "create", "cte", "delete", "filter"),
    *("generated_columns", "insert", "join", "limit", "merge", "order", "projection", "returning"),
    *("select", "setops", "subquery", "topn", "update", "upsert", "window"),
)
_SQLITE = "src/main/resources/test"
_WHOLE = ("evidence", *(f"select{number}.test" for number in range(1, 6)))
_SAMPLED = ("index", "random")

_REGRESS = "src/test/regress"
_SCRIPTS = (
    *("aggregates", "alter_table", "arrays", "boolean", "btree_index", "case", "char", "combocid"),
    *("constraints", "create_index", "create_table", "create_table_like", "create_view", "date"),
    *("delete", "domain", "drop_if_exists", "enum", "equivclass", "errors", "expressions"),
    *("fast_default", "float4", "float8", "foreign_key", "generated", "groupingsets", "hash_func"),
    *("horology", "identity", "index_including", "insert", "insert_conflict", "int2", "int4"),
    *("int8", "interval", "join", "json", "json_encoding", "jsonb", "limit", "matview", "merge"),
    *("misc_functions", "name", "namespace", "numeric", "numeric_big", "numerology", "prepare"),
    *("random", "rangefuncs", "regex", "returning", "rowtypes", "select", "select_distinct"),
    *("select_distinct_on", "select_having", "select_implicit", "select_into", "sequence"),
    *("strings", "subselect", "temp", "text", "time", "timestamp", "timestamptz", "transactions"),
    *("truncate", "tsrf", "unicode", "union", "updatable_views", "update", "uuid", "varchar"),
    *("window", "with"),
)
"""PostgreSQL's tests of what an embedded database without users and functions of its own may have.
The others are about types that Hornbeam does not have (geometry, networks, ranges, bits, money,
XML, full text, TIMETZ), roles and rights, functions, triggers and rules, inheritance and
partitions, cursors, COPY and psql itself, paths of SQL/JSON, collations, the system catalog, plans,
statistics and VACUUM, and kinds of indexes and of storage."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Files of one repository: those below `folders` whose names end with one of `endings`.
    `sampled`: folders of which each subfolder gives `SAMPLE` files. `records`: at most so many of
    each file are asked. `needed`: folders with files that they need."""

    name: str
    repository: str
    commit: str
    folders: tuple[str, ...]
    endings: tuple[str, ...]
    style: Style
    engines: frozenset[str] = Hornbeam.engines
    records: int = 1_000
    needed: tuple[str, ...] = ()
    sampled: tuple[str, ...] = ()

    @property
    def cache(self) -> str:
        """The name of its folder in the cache."""
        sample = f"-{SAMPLE}-{SEED}" if self.sampled else ""
        return f"{self.repository.replace('/', '+')}@{self.commit[:12]}{sample}"


CORPORA = (
    Corpus(
        "DuckDB",
        "duckdb/duckdb",
        "044a04a7cd39e6e8235f756597ae42dde084e5e5",
        tuple(f"test/sql/{folder}" for folder in _DUCKDB),
        (".test",),
        Style("duckdb"),
        frozenset({"hornbeam"}),
    ),
    Corpus(
        "SQLite",
        "hydromatic/sql-logic-test",
        "0a809c530457bf0e56d637ef19fcaabd2964fd67",
        tuple(f"{_SQLITE}/{name}" for name in _WHOLE),
        (".test",),
        Style("sqlite"),
        records=500,
        sampled=tuple(f"{_SQLITE}/{name}" for name in _SAMPLED),
    ),
    Corpus(
        "RisingLight",
        "risinglightdb/risinglight",
        "930e0b8c1f5e50c94247b350217f85b49304f75b",
        ("tests/sql",),
        (".slt",),
        Style("words", two_blanks=True),
    ),
    Corpus(
        "RisingWave",
        "risingwavelabs/risingwave",
        "448c6570b1b9d636736708340f61a85900c2b7d7",
        ("e2e_test/batch",),
        (".slt", ".slt.part"),
        Style("words", two_blanks=True),
    ),
    Corpus(
        "CockroachDB",
        "cockroachdb/cockroach",
        "55278988862b21307349065948c6bf1c33fd027e",
        ("pkg/sql/logictest/testdata/logic_test",),
        ("",),
        Style("cockroach"),
        Hornbeam.engines - {"postgresql"},
    ),
    Corpus(
        "PostgreSQL",
        "postgres/postgres",
        "05a5a1775c89f6beb326725282e7eea1373cbec8",
        tuple(f"{_REGRESS}/sql/{name}.sql" for name in _SCRIPTS),
        (".sql",),
        Style("psql"),
        needed=tuple(f"{_REGRESS}/{name}" for name in ("sql", "expected", "data")),
    ),
)
OURS = Corpus("Hornbeam", "", "", ("",), (".slt",), Style("duckdb", messages=True))


class Unreachable(Exception):
    """A corpus cannot be fetched."""


def folder_of(corpus: Corpus, *, fetch: bool = True) -> Path:
    """The folder with the files of the corpus. Fetches them on the first call. Raises
    Unreachable."""
    if not corpus.repository:
        return OWN
    found = _cache() / corpus.cache
    if found.exists():
        return found
    if not fetch:
        raise Unreachable(f"{corpus.name}'s files have not been fetched: run make sqllogic.")
    part = found.with_name(f"{found.name}.{os.getpid()}")
    part.mkdir(parents=True)
    try:
        local = os.environ.get("SQLLOGIC_REPOSITORIES")
        if local:
            _take(corpus, Path(local) / corpus.repository.replace("/", "+"), part)
        else:
            _download(corpus, part)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(part)
        output = getattr(error, "stderr", None) or b""
        reason = output.decode(errors="replace").strip().splitlines()[-1:] or [str(error)]
        raise Unreachable(f"{corpus.repository} cannot be fetched: {reason[0]}") from error
    part.rename(found)
    return found


def files(corpus: Corpus, folder: Path) -> Iterator[str]:
    """The paths of the corpus's files below its folder."""
    for name in (*corpus.folders, *corpus.sampled):
        start = folder / name
        found = [start] if start.is_file() else sorted(start.rglob("*"))
        yield from (
            str(path.relative_to(folder))
            for path in found
            if path.is_file() and path.name.endswith(corpus.endings)
        )


def sample(paths: Iterable[str], seed: str = SEED) -> list[str]:
    """`SAMPLE` of the paths of each folder, or all if it has fewer. The same seed chooses the same
    paths."""

    def rank(path: str) -> str:
        return hashlib.sha256(f"{seed} {path}".encode()).hexdigest()

    by_folder: dict[str, list[str]] = {}
    for path in paths:
        by_folder.setdefault(str(Path(path).parent), []).append(path)
    return sorted(path for some in by_folder.values() for path in sorted(some, key=rank)[:SAMPLE])


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hornbeam" / "sqllogictest"


def _download(corpus: Corpus, folder: Path) -> None:
    """The files at the commit, without the rest of the repository."""
    git = ("git", "-C", str(folder))
    url = f"{GITHUB}/{corpus.repository}"
    _run("git", "init", "--quiet", str(folder))
    _run(*git, "remote", "add", "origin", url)
    _run(*git, "fetch", "--quiet", "--depth", "1", "--filter=blob:none", "origin", corpus.commit)
    chosen = (*corpus.folders, *corpus.needed, *_sampled(corpus, git, "FETCH_HEAD"))
    _run(*git, "sparse-checkout", "set", "--no-cone", *chosen)
    _run(*git, "checkout", "--quiet", "FETCH_HEAD")
    shutil.rmtree(folder / ".git")


def _sampled(corpus: Corpus, git: Sequence[str], commit: str) -> list[str]:
    """The paths of the sample, in a repository that may have no contents of files yet."""
    if not corpus.sampled:
        return []
    listed = _run(*git, "ls-tree", "-r", "--name-only", commit, "--", *corpus.sampled).decode()
    return sample(path for path in listed.splitlines() if path.endswith(corpus.endings))


def _take(corpus: Corpus, repository: Path, folder: Path) -> None:
    """The files at the commit, from a repository on this machine. It may lack large files."""
    git = ("git", "-C", str(repository / "repo" if (repository / "repo").exists() else repository))
    names = (*corpus.folders, *corpus.needed, *_sampled(corpus, git, corpus.commit))
    listed = _run(*git, "ls-tree", "-r", corpus.commit, "--", *names).decode()
    for line in listed.splitlines():
        entry, _, name = line.partition("\t")
        if not name.endswith(corpus.endings) and not name.startswith(corpus.needed):
            continue
        found = subprocess.run(
            (*git, "cat-file", "blob", entry.split()[2]), check=False, capture_output=True
        )
        if not found.returncode:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(found.stdout)


def _run(*command: str) -> bytes:
    done = subprocess.run(command, check=True, capture_output=True, timeout=FETCH_S)
    return done.stdout
