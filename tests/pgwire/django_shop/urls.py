from django.urls import path

from tests.pgwire.django_shop.admin import admin

urlpatterns = [path("admin/", admin.site.urls)]
