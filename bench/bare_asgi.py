"""A server that gives stored answers: the floor of what an answer over HTTP costs in Python.

`python -m bench.bare_asgi PORT FOLDER` answers a POST to `/NAME` with the content of FOLDER/NAME.
It reads the body of the request, and does nothing else: no routes, limits or authentication.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn
from starlette.types import Receive, Scope, Send


class Stored:
    """An ASGI application of stored answers, by path."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        body = self._answers[scope["path"]]
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def main() -> None:
    port, folder = sys.argv[1:]
    answers = {f"/{file.name}": file.read_bytes() for file in Path(folder).iterdir()}
    uvicorn.run(
        Stored(answers),
        port=int(port),
        http="httptools",
        loop="uvloop",
        lifespan="off",
        access_log=False,
        log_level="error",
    )


if __name__ == "__main__":
    main()
