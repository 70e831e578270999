"""The options of a connection, from its URL and from arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hornbeam.errors import InterfaceError
from hornbeam.isolation import DEFAULT_LEVEL, level_of
from hornbeam.settings import SNAPSHOT, consistency_of
from hornbeam.transport import Target, parse_url

DEFAULT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Options:
    """The options that `connect` explains."""

    autocommit: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    use_views: bool = True
    max_staleness_s: float | None = None
    isolation: str = DEFAULT_LEVEL
    search_path: Sequence[str] | None = None
    consistency: str = SNAPSHOT


DEFAULTS = Options()


def target_and_options(url: str, given: Options) -> tuple[Target, Options]:
    """The database of a URL, and the options; those of the URL replace the arguments. Raises
    InterfaceError."""
    target = parse_url(url)
    options = dict(target.options)
    staleness = options.pop("max_staleness_s", given.max_staleness_s)
    path = given.search_path
    if "search_path" in options:
        path = [part.strip() for part in options.pop("search_path").split(",")]
    found = Options(
        autocommit=_flag(options.pop("autocommit", given.autocommit)),
        use_views=_flag(options.pop("use_views", given.use_views)),
        timeout_s=_seconds("timeout_s", options.pop("timeout_s", given.timeout_s)),
        max_staleness_s=None if staleness is None else _seconds("max_staleness_s", staleness),
        isolation=level_of(options.pop("isolation", given.isolation)),
        search_path=path,
        consistency=consistency_of(options.pop("consistency", given.consistency)),
    )
    if options:
        raise InterfaceError(f"Unknown options in the URL: {', '.join(options)}")
    return target, found


def _flag(value: str | bool) -> bool:
    text = str(value).lower()
    if text not in {"1", "true", "yes", "0", "false", "no"}:
        raise InterfaceError(f"{value!r} is neither true nor false.")
    return text in {"1", "true", "yes"}


def _seconds(name: str, value: str | float) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InterfaceError(f"{name} must be a positive number, not {value!r}.")
    return seconds
