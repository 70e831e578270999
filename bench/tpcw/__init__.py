"""CloudTPS's evaluation with TPC-W, whose data and browsers are those of the demo."""

from pathlib import Path

CART_AND_ORDER_TOTALS = Path(__file__).with_name("cart_and_order_totals.sql")
