"""A Django application in one file, over PostgreSQL's protocol: models of existing tables.

HORNBEAM_POSTGRESQL_PORT=5432 hornbeam demo --serve    # in one terminal
python examples/django_shop.py runserver               # in another one; http://127.0.0.1:8000/
"""

import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.db import models
from django.http import HttpRequest, JsonResponse
from django.urls import path

settings.configure(
    DEBUG=True,
    SECRET_KEY="only for this example",
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "hornbeam",
            "USER": "django",
            "HOST": "127.0.0.1",
            "PORT": os.environ.get("PGPORT", "5432"),
        }
    },
)
django.setup()


class Customer(models.Model):
    c_id = models.IntegerField(primary_key=True)
    c_uname = models.CharField(max_length=20)

    class Meta:
        app_label, db_table, managed = "shop", "customer", False


class Order(models.Model):
    o_id = models.IntegerField(primary_key=True)
    customer = models.ForeignKey(Customer, models.DO_NOTHING, db_column="o_c_id")
    o_total = models.DecimalField(max_digits=15, decimal_places=2)

    class Meta:
        app_label, db_table, managed = "shop", "orders", False


def orders(request: HttpRequest, name: str) -> JsonResponse:
    """The orders of a customer: a join, which a view answers."""
    found = Order.objects.filter(customer__c_uname=name).order_by("-o_id")
    return JsonResponse({"orders": list(found.values("o_id", "o_total"))})


urlpatterns = [path("customers/<name>/orders", orders)]
if __name__ == "__main__":
    execute_from_command_line(sys.argv)
