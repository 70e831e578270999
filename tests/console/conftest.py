from types import SimpleNamespace

import pytest

from tests.console.chromium import chromium, new_page
from tests.console.console_world import shop_world


@pytest.fixture(scope="module")
def browser():
    """Not one for all files: Playwright runs an event loop in this thread until it is stopped, and
    asynchronous tests of other files cannot run in it."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A served database that requires keys, with rows."""
    with shop_world(tmp_path_factory.mktemp("console")) as served:
        yield served


@pytest.fixture
def opened(browser, shop):
    """A function that opens the console with an API key; None: without one."""
    contexts = []

    def open_(key, path="/", **options):
        context = new_page(browser, shop.address, **options)
        page = context.__enter__()
        contexts.append(context)
        if key is not None:
            page.add_init_script(f"sessionStorage.setItem('hornbeam.key', '{key}')")
        page.goto(path)
        return page

    yield open_
    for context in contexts:
        context.__exit__(None, None, None)


@pytest.fixture(scope="module")
def modules(browser, shop):
    """Call functions of the console's modules in the browser."""
    with new_page(browser, shop.address) as page:
        page.goto("/console/mark.svg")
        yield SimpleNamespace(
            call=lambda module, name, *given: page.evaluate(
                "async ([module, name, given]) =>"
                " (await import(`/console/${module}.js`))[name](...given)",
                [module, name, list(given)],
            ),
            run=page.evaluate,
        )
