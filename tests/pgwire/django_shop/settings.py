"""Settings for a database on the port of the environment."""

import os

SECRET_KEY = "not secret"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["DATABASE"],
        "USER": os.environ["DATABASE_USER"],
        "HOST": "127.0.0.1",
        "PORT": os.environ["PORT"],
    }
}
INSTALLED_APPS = (
    *("django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes"),
    *("django.contrib.sessions", "django.contrib.messages", "django.contrib.postgres"),
    "tests.pgwire.django_shop.Shop",
)
MIGRATION_MODULES = dict.fromkeys(("admin", "auth", "contenttypes", "sessions"))
"""Their tables are created at once, which takes a quarter of the time."""
MIDDLEWARE = (
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
)
PROCESSORS = (
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
)
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": PROCESSORS},
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ("django.contrib.auth.hashers.MD5PasswordHasher",)
ROOT_URLCONF = "tests.pgwire.django_shop.urls"
STATIC_URL = "/static/"
ALLOWED_HOSTS = ("testserver",)
TIME_ZONE = "Europe/Berlin"
