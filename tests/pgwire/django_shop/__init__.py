"""An application of Django with its admin, which `program.py` uses over PostgreSQL's protocol."""

from django.apps import AppConfig


class Shop(AppConfig):
    name = "tests.pgwire.django_shop"
    label = "shop"
