"""The console in a real browser, over a real server with API keys."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.ipc
import pytest
from playwright.sync_api import expect

from tests.console.console_world import BIG, HOSTILE, MANY

AXE = (Path(__file__).parent / "axe/axe.min.js").read_text()


def run(page, sql, *, key="Control+Enter"):
    """Run a statement, and wait until it has ended."""
    page.fill("#sql", sql)
    page.evaluate(  # what an earlier statement has left
        "document.querySelector('.said').textContent = '';"
        "document.querySelector('.result').replaceChildren()"
    )
    page.focus("#sql")
    page.keyboard.press(key)
    page.wait_for_selector(".said:not(:empty), .result .problem")
    page.wait_for_selector(".toolbar .primary:text-is('Run')")


def cells(page, row=0):
    return page.locator(".grid .body .row").nth(row).locator("[role=gridcell]").all_inner_texts()


def said(page):
    return page.inner_text(".said")


@pytest.fixture
def sql(opened, shop):
    return opened(shop.root, "/#/sql")


# ---------------------------------------------------------------- keys


def test_without_a_key_the_console_asks_for_one_and_then_shows_the_page(opened, shop):
    page = opened(None)
    page.wait_for_selector("dialog[open]")
    page.fill("#key", "hb_000000000000_wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .problem")
    assert page.evaluate("sessionStorage.getItem('hornbeam.key')") is None
    page.fill("#key", shop.root)
    page.keyboard.press("Enter")
    page.wait_for_selector(".well")
    expect(page.locator("dialog")).to_have_count(0)
    assert shop.root not in page.url
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie").find("hb_") < 0


def test_the_key_is_in_no_address(opened, shop):
    page = opened(None)
    addresses = []
    page.on("request", lambda request: addresses.append(request.url))
    page.fill("#key", shop.root)
    page.keyboard.press("Enter")
    page.wait_for_selector(".well")
    assert addresses
    assert not [url for url in addresses if "hb_" in url or shop.root in url]


# ---------------------------------------------------------------- overview


def test_the_overview_says_that_all_is_well_and_shows_rates(opened, shop):
    page = opened(shop.root)
    expect(page.locator(".well")).to_have_text("All is well.")
    page.wait_for_selector(".sparkline .line", state="attached")
    expect(page.locator(".tile")).to_have_count(6)
    expect(page.locator("main")).to_contain_text("customer__orders")
    assert page.title() == "Overview · Hornbeam"


def test_the_overview_names_what_is_wrong(opened, shop):
    page = opened(None)
    status = shop.secured.request(shop.root, "GET", "/v1/status").json()
    status["views"] = {"customer__orders": "quarantined"}
    page.route("**/v1/status", lambda route: route.fulfill(json=status))
    page.evaluate(f"sessionStorage.setItem('hornbeam.key', '{shop.root}')")
    page.reload()
    expect(page.locator(".unwell")).to_have_text("1 thing needs your attention.")
    expect(page.locator(".concerns")).to_contain_text("customer__orders is quarantined")


def test_the_overview_of_a_key_with_grants_shows_only_those(opened, shop):
    page = opened(shop.limited)
    page.wait_for_selector(".well")
    expect(page.locator("main")).not_to_contain_text("customer")


# ---------------------------------------------------------------- SQL


def test_a_query_shows_its_rows_and_the_view_that_serves_it(sql):
    run(
        sql,
        "SELECT c_name, o_id, o_total FROM customer, orders WHERE c_id = o_c_id AND c_name = 'bob'",
    )
    assert cells(sql) == ["bob", "2", "6.00"]
    assert said(sql).startswith("1 row in ")
    sql.wait_for_selector(".plan .tag.view")
    expect(sql.locator(".plan .steps")).to_contain_text("customer__orders")


def test_the_plan_says_why_no_view_serves_a_join(sql):
    run(
        sql,
        "SELECT 1 FROM orders o JOIN customer ON c_id = o.o_c_id JOIN orders p ON p.o_c_id = c_id",
    )
    sql.wait_for_selector(".plan .notes li")


def test_without_views_the_relations_serve_the_query(sql):
    sql.uncheck("#use-views")
    run(sql, "SELECT c_name, o_id FROM customer, orders WHERE c_id = o_c_id AND c_name = 'bob'")
    sql.wait_for_selector(".plan .steps li")
    expect(sql.locator(".plan .tag.view")).to_have_count(0)


def test_rows_are_text_and_never_html(sql):
    run(sql, "SELECT c_name FROM customer WHERE c_id = 3")
    assert cells(sql) == [HOSTILE]
    expect(sql.locator(".grid img, .grid script")).to_have_count(0)
    run(sql, f'SELECT 1 AS "{HOSTILE.replace(chr(34), chr(34) * 2)}"')
    expect(sql.locator(".grid .head")).to_contain_text(HOSTILE)
    run(sql, f"SELECT '{HOSTILE.replace(chr(39), '')}' FROM nowhere")
    assert sql.title() == "SQL · Hornbeam"
    expect(sql.locator(".problem img")).to_have_count(0)


def test_numbers_keep_all_digits_and_null_differs_from_the_empty_text(sql):
    run(sql, f"SELECT k_id, k_text, k_date FROM kinds WHERE k_id = {BIG}")
    assert cells(sql) == [str(BIG), "", "NULL"]
    sql.locator(".grid .cell.null").wait_for()


def test_many_rows_scroll_while_few_are_elements(sql):
    run(sql, "SELECT o_id FROM orders WHERE o_id >= 100 ORDER BY o_id")
    assert said(sql).startswith(f"{MANY:,} rows in ")
    assert sql.locator(".grid .body .row").count() < 100
    sql.focus(".grid")
    sql.keyboard.press("Control+End")
    expect(sql.locator("#active-cell")).to_have_text(str(100 + MANY - 1))
    sql.keyboard.press("Enter")
    expect(sql.locator("dialog .value")).to_have_text(str(100 + MANY - 1))
    sql.keyboard.press("Escape")
    expect(sql.locator("dialog")).to_have_count(0)


def test_an_error_is_shown_with_its_cure(sql):
    run(sql, "SELECT c_nam FROM customer")
    shown = sql.inner_text(".result .problem")
    assert "c_nam" in shown
    assert re.search(r"[a-z-]+ \(4\d\d\)$", shown)


def test_parameters_have_fields_with_their_types(sql):
    sql.fill("#sql", "SELECT c_name FROM customer WHERE c_id = ?")
    sql.fill(".parameters input", "2")
    sql.focus("#sql")
    sql.keyboard.press("Control+Enter")
    sql.wait_for_selector(".said:not(:empty)")
    assert cells(sql) == ["bob"]
    expect(sql.locator(".parameters small")).to_have_text("integer")


def test_a_write_is_confirmed_first_and_reports_what_it_changed(sql, shop):
    sql.fill(
        "#sql", "INSERT INTO customer (c_id, c_name) VALUES (50, 'new') RETURNING c_id, c_name"
    )
    sql.focus("#sql")
    sql.keyboard.press("Control+Enter")
    sql.click("dialog >> text=Cancel")
    assert (
        shop.secured.query(shop.root, "SELECT * FROM customer WHERE c_id = 50").json()["rows"] == []
    )
    sql.focus("#sql")
    sql.keyboard.press("Control+Enter")
    sql.click("dialog >> text=Run it")
    sql.wait_for_selector(".said:not(:empty)")
    assert said(sql).startswith("INSERT 0 1. Stored rows changed: customer 1")
    assert cells(sql) == ["50", "new"]


def test_a_write_with_an_unknown_outcome_is_sent_again_under_the_same_key(sql):
    keys = []

    def cut(route):
        keys.append(route.request.headers["idempotency-key"])
        route.abort() if len(keys) == 1 else route.continue_()

    sql.route("**/v1/transactions", cut)
    for shown in (".result .problem", ".said:has-text('INSERT 0 1')"):
        sql.fill("#sql", "INSERT INTO customer (c_id, c_name) VALUES (51, 'x')")
        sql.focus("#sql")
        sql.keyboard.press("Control+Enter")
        sql.click("dialog >> text=Run it")
        sql.wait_for_selector(shown)
    assert said(sql).startswith("INSERT 0 1")
    assert len(set(keys)) == 1


def test_a_reader_is_refused_to_write_with_the_reason(opened, shop):
    page = opened(shop.reader, "/#/sql")
    page.fill("#sql", "DELETE FROM orders")
    page.focus("#sql")
    page.keyboard.press("Control+Enter")
    page.click("dialog >> text=Run it")
    expect(page.locator(".result .problem")).to_contain_text("needs the role writer")


def test_a_key_with_grants_reads_what_it_may_and_is_refused_the_rest(opened, shop):
    page = opened(shop.limited, "/#/sql")
    run(page, "SELECT o_total FROM orders WHERE o_id = 2")
    assert cells(page) == ["6.00"]
    run(page, "SELECT c_name FROM customer")
    expect(page.locator(".result .problem")).to_contain_text("no grant to read customer")
    page.fill("#sql", "select * from cus")
    page.keyboard.press("Control+ ")
    assert page.locator(".completions").is_hidden()


def test_completion_by_keyboard(sql):
    sql.wait_for_load_state("networkidle")  # the names have come
    sql.focus("#sql")
    sql.keyboard.type("select * from custom")
    sql.wait_for_selector(".completions:not([hidden])")
    sql.keyboard.press("Tab")
    sql.keyboard.type(" where customer.c_e")
    sql.wait_for_selector(".completions:not([hidden])")
    sql.keyboard.press("Tab")
    assert sql.input_value("#sql") == "select * from customer where customer.c_email"
    sql.keyboard.type(" is null")
    sql.keyboard.press("Control+Enter")
    sql.wait_for_selector(".said:not(:empty)")


def test_a_link_holds_the_text_and_runs_nothing(sql, opened, shop):
    run(sql, "SELECT 1 + 1 AS two, 'ä&#?'")
    page = opened(shop.root, sql.url.removeprefix(shop.address))
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    assert page.input_value("#sql") == "SELECT 1 + 1 AS two, 'ä&#?'"
    page.wait_for_timeout(200)
    assert not [url for url in asked if url.endswith(("/v1/query", "/v1/explain"))]


def test_history_gives_a_statement_back(sql):
    run(sql, "SELECT 11")
    run(sql, "SELECT 22")
    sql.click("text=History")
    assert sql.locator(".history code").all_inner_texts() == ["SELECT 22", "SELECT 11"]
    sql.click("dialog >> text=SELECT 11")
    assert sql.input_value("#sql") == "SELECT 11"


def test_a_statement_is_cancelled_at_the_server(sql, shop):
    sql.fill(
        "#sql",
        "SELECT count(*) FROM orders a, orders b, orders c WHERE a.o_total < b.o_total + c.o_total",
    )
    sql.focus("#sql")
    sql.keyboard.press("Control+Enter")
    sql.wait_for_selector(".toolbar .primary:disabled")
    sql.wait_for_timeout(500)
    sql.keyboard.press("Escape")
    sql.wait_for_selector(".said:has-text('Cancelled after')")
    assert sql.is_enabled("text=Run")


def test_explain_does_not_run_and_analyze_measures(sql):
    run(sql, "DELETE FROM orders", key="Control+Shift+Enter")
    assert said(sql) == "Explained, not run."
    run(sql, "EXPLAIN ANALYZE SELECT * FROM customer WHERE c_id = 1")
    expect(sql.locator(".plan")).to_contain_text("1 row")
    run(sql, "SELECT count(*) FROM orders WHERE o_id >= 100")
    assert cells(sql) == [str(MANY)]


def test_downloads_have_all_rows_and_all_digits(sql):
    run(sql, f"SELECT k_id, k_text, k_date FROM kinds WHERE k_id IN (7, {BIG}) ORDER BY k_id")

    def saved(name):
        with sql.expect_download() as download:
            sql.click(f".toolbar button:text-is('{name}')")
        return Path(download.value.path()).read_bytes()

    assert saved("CSV").decode() == f'k_id,k_text,k_date\r\n7,"a,""b",\r\n{BIG},"",\r\n'
    assert json.loads(saved("JSON"))["rows"] == [[7, 'a,"b', None], [BIG, "", None]]
    table = pyarrow.ipc.open_stream(saved("Arrow")).read_all()
    assert table.column("k_id").to_pylist() == [7, BIG]


def test_a_change_of_the_schema_is_refused_with_what_to_do(sql):
    run(sql, "DROP TABLE orders")
    expect(sql.locator(".result .problem")).to_contain_text("schema plan")


# ---------------------------------------------------------------- schema


def test_the_graph_leads_to_relations_and_views(opened, shop):
    page = opened(shop.root, "/#/schema")
    page.focus(".graph a.relation[aria-label='relation orders']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".graph .chosen")
    text = page.inner_text(".details")
    assert "o_c_id" in text
    assert "decimal(15,2)" in text
    assert "customer__orders" in text
    assert page.title() == "orders, schema · Hornbeam"


def test_a_relation_shows_its_bytes_on_request(opened, shop):
    page = opened(shop.root, "/#/schema/orders")
    page.click("text=Count the bytes")
    page.wait_for_selector(".details p:has-text('of rows,')")
    assert re.search(
        r"[1-9][0-9.]* kB of rows, [1-9][0-9.]* kB of indexes", page.inner_text(".details")
    )


def test_a_view_says_what_it_serves(opened, shop):
    page = opened(shop.root, "/#/schema/customer__orders")
    page.click("text=Explain the 1 statement of the workload")
    page.wait_for_selector("td:has-text('orders_of_a_customer')")


def test_a_view_says_what_it_costs_and_saves(opened, shop):
    page = opened(shop.root, "/#/schema/customer__orders")
    page.click("text=Estimate for the workload in force")
    page.wait_for_selector("p:has-text('Its worth is')")
    (served,) = page.locator("[aria-label='Saved for readers'] tbody tr").all()
    statement, without, cost = served.locator("td").all_inner_texts()
    assert statement == "orders_of_a_customer"
    assert float(without.replace(",", "")) > float(cost.replace(",", ""))


def test_a_view_is_verified_and_rebuilt_with_confirmation(opened, shop):
    page = opened(shop.root, "/#/schema/customer__orders")
    page.click(".buttons button:text-is('Verify')")
    page.click("dialog >> button:text-is('Cancel')")
    expect(page.locator(".upkeep")).to_have_text("")
    page.click(".buttons button:text-is('Verify')")
    page.click("dialog >> button:text-is('Verify')")
    page.wait_for_selector(".upkeep .well:has-text('0 differences')")
    page.wait_for_selector("[aria-label='Last verification'] td:text-is('customer__orders')")
    before = shop.world.database.catalog.version
    page.click(".buttons button:text-is('Rebuild')")
    page.click("dialog >> button:text-is('Rebuild')")
    page.wait_for_selector(".upkeep:has-text('built again')")
    shop.world.run(shop.world.database.keeper.wait_built())
    page.wait_for_selector(".details .state.readable")
    assert shop.world.database.catalog.version > before


def test_differences_are_shown_by_their_kind(opened, shop):
    page = opened(shop.root, "/#/schema")
    item = {"name": "v", "kind": "view", "rows": 9, "missing": 1, "extra": 2, "different": 0}
    item |= {"misplaced": 0, "repaired": 0, "offending": []}
    report = {"report": {"snapshot": 1, "differences": 3, "checked": [item]}}
    page.route("**/v1/verify", lambda route: route.fulfill(body=json.dumps(report) + "\n"))
    page.click("text=Verify everything")
    page.click("dialog >> button:text-is('Verify')")
    page.wait_for_selector(".upkeep .unwell:has-text('3 differences')")
    assert page.locator(".upkeep td").all_inner_texts() == ["v", "view", "1", "2", "0", "0", ""]


def test_a_key_with_grants_sees_its_part_of_the_schema(opened, shop):
    page = opened(shop.limited, "/#/schema")
    page.wait_for_selector(".graph a")
    expect(page.locator(".graph a")).to_have_count(1)
    page = opened(shop.limited, "/#/schema/customer__orders")
    page.wait_for_selector(".details .problem")
    page = opened(shop.secured.made("reader", {}), "/#/schema")
    page.wait_for_selector(".picture .empty:has-text('more grants')")


def test_a_reader_may_not_rebuild_and_is_refused_with_the_reason(opened, shop):
    page = opened(shop.reader, "/#/schema/customer__orders")
    page.click(".buttons button:text-is('Rebuild')")
    page.click("dialog >> button:text-is('Rebuild')")
    page.wait_for_selector(".upkeep .problem:has-text('needs the role admin')")


# ---------------------------------------------------------------- plan


def test_the_plan_in_force_is_shown_and_changes_nothing(opened, shop):
    page = opened(shop.root, "/#/plan")
    expect(page.locator("#plan-ddl")).to_have_value(re.compile("customer"))
    page.click("form button:text-is('Plan')")
    page.wait_for_selector("h2:text-is('No change')")
    statements = page.locator("[aria-label='Statements'] tbody tr").all_inner_texts()
    assert [text.split()[0] for text in statements] == ["orders_of_a_customer"]
    assert page.locator("[aria-label='Methods'] tbody tr").count() >= 1
    expect(page.locator(".graph .node")).to_have_count(4)


def test_a_changed_schema_is_planned_and_applied(opened, shop):
    page = opened(shop.root, "/#/plan")
    expect(page.locator("#plan-ddl")).to_have_value(re.compile("customer"))
    ddl = page.input_value("#plan-ddl")
    page.set_input_files(
        "input[type=file] >> nth=0",
        {
            "name": "schema.sql",
            "mimeType": "text/plain",
            "buffer": f"{ddl}\nCREATE TABLE note (n_id INTEGER PRIMARY KEY);".encode(),
        },
    )
    expect(page.locator("#plan-ddl")).to_have_value(re.compile("note"))
    page.click("form button:text-is('Plan')")
    page.wait_for_selector("[aria-label='Changes'] td:text-is('note')")
    page.click(".buttons >> text=Apply")
    page.click("dialog >> button:text-is('Cancel')")
    assert "note" not in shop.world.database.catalog.schema
    page.click(".buttons >> text=Apply")
    page.click("dialog >> button:text-is('Apply')")
    page.wait_for_selector(".well:has-text('is in force')")
    assert "note" in shop.world.database.catalog.schema
    page.fill("#plan-ddl", ddl)
    page.click("form button:text-is('Plan')")
    page.click(".buttons >> text=Apply")
    page.click("dialog >> button:text-is('Apply')")
    page.wait_for_selector("[role=status] .problem")
    assert "note" in shop.world.database.catalog.schema
    page.click(".buttons >> text=Apply")
    page.check("#allow-drop")
    page.click("dialog >> button:text-is('Apply')")
    page.wait_for_selector(".well:has-text('is in force')")
    assert "note" not in shop.world.database.catalog.schema


def test_all_problems_of_a_schema_are_shown_with_their_places(opened, shop):
    page = opened(shop.root, "/#/plan")
    page.fill("#plan-ddl", "CREATE TABLE a (x NOSUCH);\nCREATE TABLE b (y INT REFERENCES c (z));")
    page.click("form button:text-is('Plan')")
    page.wait_for_selector("[aria-label='All problems'] tbody tr >> nth=1")
    expect(page.locator("[aria-label='All problems']")).to_contain_text("<ddl> 2:")


def test_plans_are_for_administrators(opened, shop):
    page = opened(shop.reader, "/#/plan")
    expect(page.locator("#plan-ddl")).to_have_value(re.compile("customer"))
    page.click("form button:text-is('Plan')")
    page.wait_for_selector(".problem:has-text('needs the role admin')")


# ---------------------------------------------------------------- keys


def test_an_administrator_creates_and_revokes_a_key(opened, shop):
    page = opened(shop.root, "/#/keys")
    page.click("text=Create a key")
    page.fill("#key-name", "till")
    page.select_option("#key-role", "writer")
    page.fill("#key-grants", "orders: write\nnothing: read")
    page.click("dialog >> text=Create >> nth=-1")
    page.wait_for_selector("dialog .problem:has-text('nothing')")
    page.fill("#key-grants", "orders: write")
    page.click("dialog >> text=Create >> nth=-1")
    key = page.inner_text("dialog .secret")
    assert shop.secured.query(key, "SELECT count(*) FROM orders").status_code == 200
    page.click("text=I have kept it")
    page.wait_for_selector("td:text-is('till')")
    assert key not in page.content()
    page.click("[aria-label^='Revoke till']")
    page.click("dialog >> button:text-is('Revoke')")
    page.wait_for_selector("[role=status]:has-text('is revoked')")
    assert shop.secured.query(key, "SELECT count(*) FROM orders").status_code == 401


def test_keys_are_for_administrators(opened, shop):
    page = opened(shop.reader, "/#/keys")
    page.wait_for_selector(".problem:has-text('needs the role admin')")
    assert page.locator("text=Create a key").is_hidden()


# ---------------------------------------------------------------- for everybody


def test_pages_are_opened_by_keys(opened, shop):
    page = opened(shop.root)
    page.wait_for_selector(".well")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_selector("#sql")
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_contain_text("Run the statement")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1360])
def test_pages_are_accessible(opened, shop, scheme, width):
    page = opened(shop.root, color_scheme=scheme, viewport={"width": width, "height": 900})
    page.wait_for_selector(".well")
    check(page)
    page.goto("/#/schema/orders")
    page.wait_for_selector(".details .panel")
    check(page)
    page.goto("/#/schema/customer__orders")
    page.wait_for_selector(".buttons")
    check(page)
    page.goto("/#/plan")
    expect(page.locator("#plan-ddl")).to_have_value(re.compile("customer"))
    page.click("form button:text-is('Plan')")
    page.wait_for_selector(".buttons")
    check(page)
    page.goto("/#/jobs")
    page.wait_for_selector(".panel")
    check(page)
    page.goto("/#/statements")
    page.wait_for_selector("table")
    check(page)
    page.goto("/#/transactions")
    page.wait_for_selector(".panel")
    check(page)
    page.goto("/#/keys")
    page.wait_for_selector("table")
    page.click("text=Create a key")
    check(page)
    page.keyboard.press("Escape")
    page.goto("/#/sql")
    run(
        page,
        "SELECT c_name, o_id, k_date FROM customer, orders, kinds WHERE c_id = o_c_id AND c_id = 2",
    )
    page.wait_for_selector(".plan .steps")
    check(page)
    run(page, "SELECT nothing FROM nowhere")
    page.click("text=History")
    check(page)


def check(page):
    found = page.evaluate(AXE + "; axe.run({resultTypes: ['violations']})")
    shown = [
        (one["id"], one["help"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in found["violations"]
    ]
    assert shown == []
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"the page is {wide} pixels wider than the window"
