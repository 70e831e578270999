"""The console: pages that show the database to people, at `/`.

All that the pages show comes through the public REST interface, with the API key that the user
types.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Request, Response
from starlette.responses import RedirectResponse

from hornbeam_server.api.rest.console_files import CONSOLE_FILES, CONSOLE_PATHS, FOLDER, START
from hornbeam_server.api.rest.dependencies import settings_of, tagged
from hornbeam_server.api.rest.page_headers import PAGE_HEADERS
from hornbeam_server.api.security.roles import needs
from hornbeam_server.schema.errors import NotFound

router = tagged("console")
PUBLIC = needs(None)
IfNoneMatch = Annotated[str, Header()]


@router.get("/", include_in_schema=False, openapi_extra=PUBLIC)
async def start_page(request: Request, if_none_match: IfNoneMatch = "") -> Response:
    """The console; the page of the REST interface if the console is switched off."""
    if not settings_of(request).console:
        return RedirectResponse("docs", headers=PAGE_HEADERS)
    return _answer(START, if_none_match)


@router.get(FOLDER + "{name}", include_in_schema=False, openapi_extra=PUBLIC)
async def console_file(name: str, request: Request, if_none_match: IfNoneMatch = "") -> Response:
    if not settings_of(request).console or FOLDER + name not in CONSOLE_PATHS:
        raise NotFound(f"There is no file {name} of the console.")
    return _answer(name, if_none_match)


def _answer(name: str, known: str) -> Response:
    """The file, or 304 if the browser has it. Browsers ask each time, so that all files of a page
    are of one version."""
    file = CONSOLE_FILES[name]
    headers = {**PAGE_HEADERS, "ETag": file.etag, "Cache-Control": "no-cache"}
    if file.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
