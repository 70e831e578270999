"""The pages Statements and Transactions."""

from __future__ import annotations

import re
import threading

import pytest
from playwright.sync_api import expect

from tests.api.api_world import PLAN, world
from tests.console.chromium import new_page

READ = "SELECT o_id FROM orders WHERE o_c_id = ?"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with world(tmp_path_factory.mktemp("activity")) as served:
        assert served.apply(**PLAN).status_code == 200
        served.transact("INSERT INTO customer (c_id, c_name) VALUES (1, 'Ann')")
        served.transact("INSERT INTO orders VALUES (1, 1, 5), (2, 1, 6)")
        yield served


@pytest.fixture
def page(browser, served):
    served.client.delete("/v1/statements")
    for number in range(3):
        served.rows(f"SELECT o_id FROM orders WHERE o_c_id = {number}")
    served.rows("SELECT count(*) FROM orders")
    with new_page(browser, str(served.client.base_url).rstrip("/")) as page:
        yield page


def rows(page, caption):
    found = page.locator(f"[aria-label='{caption}'] tbody tr")
    return [row.locator("td").all_inner_texts() for row in found.all()]


def test_the_statements_are_shown_with_their_counts(page):
    page.goto("/#/statements")
    page.wait_for_selector("[aria-label='Statements'] tbody")
    page.select_option("#order", "calls")
    expect(page.locator("[aria-label='Statements'] tbody tr").first).to_contain_text(READ)
    first, second = rows(page, "Statements")
    assert (first[0], first[1], first[2], first[6], first[8]) == (
        READ,
        "3",
        "0",
        "2",
        "orders__by_o_c_id",
    )
    assert second[0] == "SELECT count(*) FROM orders"
    page.fill("#filter", "COUNT(")
    expect(page.locator("[aria-label='Statements'] tbody tr")).to_have_count(1)
    page.fill("#filter", "nowhere")
    expect(page.locator(".empty")).to_have_text("No statement has this text.")
    page.fill("#filter", "")
    page.click(f"text={READ}")
    expect(page.locator("#sql")).to_have_value(READ)


def test_the_counts_begin_again(page, served):
    page.goto("/#/statements")
    page.click("text=Forget the counts")
    page.click("dialog >> button:text-is('Forget them')")
    expect(page.locator(".empty")).to_contain_text("No statement has ended")
    assert not served.client.get("/v1/statements").json()["statements"]


def test_views_are_planned_for_the_reads_that_were_counted(page, served):
    served.rows("SELECT c_name, o_id FROM customer, orders WHERE c_id = o_c_id AND c_name = 'Ann'")
    page.goto("/#/statements")
    page.click("text=Plan views for these reads")
    workload = "SELECT c_name, o_id FROM customer, orders WHERE c_id = o_c_id AND c_name = ?;"
    expect(page.locator("#plan-workload")).to_have_value(re.compile(re.escape(workload)))
    with page.expect_request("**/v1/schema/plan") as asked:
        page.click("form button:text-is('Plan')")
    body = asked.value.post_data_json
    assert '"count":3' in body["query_log"]
    page.wait_for_selector(".panel:has-text('Methods')")


def test_a_transaction_that_waits_is_shown(page, served):
    page.goto("/#/transactions")
    expect(page.locator(".empty").first).to_contain_text("No transaction is under way.")
    sql = "UPDATE customer SET c_name = ? WHERE c_id = 1"
    waiting = threading.Thread(target=served.transact, args=(sql, "Ann"))
    with served.holding_root("customer", 1):
        waiting.start()
        row = page.locator("[aria-label='Transactions under way'] tbody tr")
        expect(row).to_contain_text("root customer (1)")
        expect(row).to_contain_text(sql)
        expect(row).to_contain_text("waits")
        expect(page.locator("[aria-label='Locks'] tbody tr")).to_contain_text("root customer (1)")
    waiting.join()
    expect(page.locator("[aria-label='Transactions under way']")).to_have_count(0)


def test_slots_are_shown_on_a_cluster(page, served):
    status = served.client.get("/v1/status").json()
    hot = [{"slot": 7, "owner": "a", "work_per_minute": 12.5}]
    nodes = {"name": "a", "leads": True, "assignment": 1, "members": [], "hot_slots": hot}
    nodes |= {"dead": [], "moving_slots": 0, "gate_closed": False}
    page.route("**/v1/status", lambda route: route.fulfill(json=status | {"nodes": nodes}))
    page.goto("/#/transactions")
    page.wait_for_selector("[aria-label='Slots']")
    assert rows(page, "Slots") == [["7", "a", "12.5"]]


def test_a_reader_is_told_which_role_is_needed(opened, shop):
    for name in ("statements", "transactions"):
        page = opened(shop.reader, f"/#/{name}")
        expect(page.locator("main .problem")).to_contain_text("403")
