"""The page Jobs: builds, initial loads and batches of groups, with what ends them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.api.api_world import DDL, PLAN, world
from tests.console.chromium import new_page

LIVE = """
CREATE MATERIALIZED VIEW totals WITH (refresh = 'live', interval = '1 h') AS
SELECT o_c_id, count(*) AS orders FROM orders GROUP BY o_c_id;
"""
BUILD = {"name": "customer__orders", "at": 1, "rows": 5, "total": 10, "finished": False}
BUILD |= {"error": "", "elsewhere": False, "scanned": 5}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with world(tmp_path_factory.mktemp("jobs"), resident_refresh=True) as served:
        assert served.apply(**PLAN | {"ddl": DDL + LIVE}).status_code == 200
        yield served


@pytest.fixture
def page(browser, served):
    address = str(served.client.base_url).rstrip("/")
    with new_page(browser, address) as page:
        yield page


def pretend(page, served, **changed):
    """Let the page get this status."""
    status = served.client.get("/v1/status").json() | changed
    page.route("**/v1/status", lambda route: route.fulfill(json=status))


def test_a_group_is_refreshed_on_request(page, served):
    assert served.transact("INSERT INTO customer (c_id, c_name) VALUES (1, 'a')").is_success
    assert served.transact("INSERT INTO orders VALUES (1, 1, 5)").is_success
    page.goto("/#/jobs")
    page.click("[aria-label='Refresh the group live']")
    page.click("dialog >> button:text-is('Refresh')")
    page.wait_for_selector("[role=status]:has-text('live is refreshed')")
    assert served.rows("SELECT * FROM totals") == [[1, 1]]


def test_a_build_shows_its_progress_and_is_cancelled(page, served):
    pretend(page, served, builds=[BUILD])
    page.goto("/#/jobs")
    assert page.get_attribute("progress", "value") == "5"
    sent = []
    page.route(
        "**/v1/builds/**", lambda route: (sent.append(route.request), route.fulfill(json={}))
    )
    page.click("[aria-label='Cancel the build of customer__orders']")
    page.click("dialog >> button:text-is('Cancel the build')")
    page.wait_for_selector("[role=status]:has-text('is cancelled')")
    assert [(request.method, request.url.rpartition("/")[2]) for request in sent] == [
        ("DELETE", "customer__orders")
    ]


def test_a_build_that_has_failed_says_why(page, served):
    pretend(page, served, builds=[BUILD | {"error": "division by zero"}])
    page.goto("/#/jobs")
    page.wait_for_selector("[aria-label='Builds'] .unwell:has-text('division by zero')")
    expect(page.locator("[aria-label^='Cancel the build']")).to_have_count(0)


def test_an_initial_load_shows_its_rows_and_is_cancelled(page, served):
    begun = {"relations": ["kinds"], "identity": "night"}
    assert served.post("/v1/loads", begun).is_success
    page.goto("/#/jobs")
    page.wait_for_selector("[aria-label='Relations that are loaded'] td:text-is('kinds')")
    page.click("text=Cancel the load")
    page.click("dialog >> button:text-is('Cancel the load')")
    page.wait_for_selector("[role=status]:has-text('is cancelled')")
    assert served.client.get("/v1/loads").json() == {"load": None}


def test_without_jobs_the_page_says_so(page, served):
    pretend(page, served, builds=[], groups=[], loading=[])
    page.goto("/#/jobs")
    page.wait_for_selector(".empty:has-text('No initial load is under way.')")
    expect(page.locator(".empty")).to_have_count(3)
