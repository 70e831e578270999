"""Screenshots of the console for the documentation: `make console-pictures URL=http://…`.

The server serves the database of `make demo`, without authentication.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from tests.console.chromium import chromium, new_page

FOLDER = Path(__file__).parents[2] / "docs/console"
QUERY = """SELECT c_uname, o_id, o_date, ol_qty, i_title
FROM customer, orders, order_line, item
WHERE c_id = o_c_id AND ol_o_id = o_id AND ol_i_id = i_id AND c_id < 40
ORDER BY o_id"""
READINGS = 12
WRITERS = """
() => {
  const sql = "UPDATE customer SET c_balance = c_balance + ? WHERE c_id = 7";
  const body = JSON.stringify({ statements: [{ sql, parameters: [1] }] });
  const headers = { "Content-Type": "application/json" };
  const write = () => fetch("v1/transactions", { method: "POST", body, headers }).then(write);
  for (let i = 0; i < 5; i++) write();
}
"""
"""Clients that write one row again and again, so that some of them wait."""


def overview(page: Page) -> None:
    page.goto("/")
    page.wait_for_selector(".well, .unwell")
    for _ in range(READINGS):  # so that there are rates
        for _ in range(20):
            page.request.post("/v1/query", data={"sql": "SELECT i_title FROM item WHERE i_id = 7"})
        page.wait_for_timeout(1_000)


def sql(page: Page) -> None:
    page.goto("/#/sql")
    page.fill("#sql", QUERY)
    page.click("text=Run")
    page.wait_for_selector(".plan .steps")
    page.wait_for_selector(".said:not(:empty)")


def schema(page: Page) -> None:
    page.goto("/#/schema/customer__orders")
    page.wait_for_selector(".details .panel")


def keys(page: Page) -> None:
    page.goto("/#/keys")
    page.click("text=Create a key")
    page.fill("#key-name", "shop")
    page.fill("#key-grants", "orders: write\ncustomer: read")


def plan(page: Page) -> None:
    page.goto("/#/plan")
    page.wait_for_selector("#plan-ddl")
    page.wait_for_load_state("networkidle")
    page.click("form button:text-is('Plan')")
    page.wait_for_selector(".buttons", timeout=120_000)
    page.evaluate("document.querySelector('.panel').scrollIntoView()")


def jobs(page: Page) -> None:
    page.goto("/#/jobs")
    page.wait_for_selector(".panel")


def statements(page: Page) -> None:
    for number in range(1, 41):
        for statement in (
            f"SELECT i_title FROM item WHERE i_id = {number}",
            f"SELECT o_id, o_total FROM orders WHERE o_c_id = {number} ORDER BY o_date DESC",
            "SELECT i_subject, count(*) FROM item GROUP BY i_subject",
        ):
            page.request.post("/v1/query", data={"sql": statement})
    page.goto("/#/statements")
    page.wait_for_selector("table")


def transactions(page: Page) -> None:
    page.goto("/#/transactions")
    page.evaluate(WRITERS)
    page.wait_for_selector("[aria-label='Transactions under way'] .unwell")


PAGES = {
    "overview": overview,
    "schema": schema,
    "sql": sql,
    "plan": plan,
    "statements": statements,
    "transactions": transactions,
    "jobs": jobs,
    "keys": keys,
}
COLOURS = 64


def save(page: Page, name: str, folder: Path) -> None:
    """A PNG with few colours, so that it is small."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
    picture.save(folder / f"{name}.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--width", type=int, default=1_280)
    parser.add_argument("--only", choices=PAGES, nargs="*", default=list(PAGES))
    given = parser.parse_args()
    size = {"width": given.width, "height": 800}
    given.folder.mkdir(parents=True, exist_ok=True)
    with (
        chromium() as browser,
        new_page(browser, given.url, color_scheme=given.scheme, viewport=size) as page,
    ):
        for name in given.only:
            PAGES[name](page)
            save(page, name, given.folder)


if __name__ == "__main__":
    main()
