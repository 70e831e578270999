"""The page that shows the REST interface and tries it out: Swagger UI.

Its script and its styles are those of the package fastapi-offline, which the lock file pins; the
page loads nothing from another server. Administrators type keys into this page, so its policy lets
no other script run in it, however that script was injected.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import Response
from starlette.responses import FileResponse

from hornbeam_server.api.rest.dependencies import tagged
from hornbeam_server.api.rest.page_headers import PAGE_HEADERS
from hornbeam_server.api.security.roles import needs

router = tagged("pages")
PUBLIC = needs(None)
_ASSETS = Path(str(files("fastapi_offline"))) / "static"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hornbeam: REST interface</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_START = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#page",
  deepLinking: true,
  validatorUrl: null,
});
"""


@router.get("/docs", include_in_schema=False, openapi_extra=PUBLIC)
async def docs() -> Response:
    return Response(_PAGE, media_type="text/html", headers=PAGE_HEADERS)


@router.get("/docs/start.js", include_in_schema=False, openapi_extra=PUBLIC)
async def start() -> Response:
    return Response(_START, media_type="text/javascript", headers=PAGE_HEADERS)


@router.get("/docs/swagger-ui-bundle.js", include_in_schema=False, openapi_extra=PUBLIC)
async def script() -> Response:
    return FileResponse(
        _ASSETS / "swagger-ui-bundle.js", media_type="text/javascript", headers=PAGE_HEADERS
    )


@router.get("/docs/swagger-ui.css", include_in_schema=False, openapi_extra=PUBLIC)
async def styles() -> Response:
    return FileResponse(_ASSETS / "swagger-ui.css", media_type="text/css", headers=PAGE_HEADERS)
