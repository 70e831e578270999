"""Chromium of the machine, driven by Playwright, which would otherwise download a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.programs import chromium_program

TIMEOUT_MS = 20_000


@contextmanager
def chromium() -> Iterator[Browser]:
    program = chromium_program()
    if program is None:
        pytest.fail("The tests of the console need Chromium: python -m tests.programs installs it.")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        # Tests run as root, and without a GPU.
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def new_page(browser: Browser, address: str, **options: object) -> Iterator[Page]:
    """A page of a fresh context. When it is closed, no script may have failed in it, and the page
    may have sent no request to another server."""
    context = browser.new_context(base_url=address, **options)
    context.set_default_timeout(TIMEOUT_MS)
    page, failed, foreign = context.new_page(), [], []
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.on(
        "console",
        lambda said: failed.append(said.text) if "Content Security Policy" in said.text else None,
    )
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((address, "blob:", "data:")) else foreign.append(request)
        ),
    )
    try:
        yield page
        assert (failed, foreign) == ([], [])
    finally:
        context.close()
