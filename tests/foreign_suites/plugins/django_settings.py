"""Settings of Django for its own tests, as far as those that are run here need any."""

from typing import Final

SECRET_KEY: Final = "of tests alone"
ROOT_URLCONF: Final = "urls"
SITE_ID: Final = 1
LANGUAGE_CODE: Final = "en"
STATIC_URL: Final = "static/"
USE_TZ: Final = False
DATABASES: Final = {
    name: {"ENGINE": "django.db.backends.sqlite3"} for name in ("default", "other")
}
PASSWORD_HASHERS: Final = ["django.contrib.auth.hashers.MD5PasswordHasher"]
MIGRATION_MODULES: Final = dict.fromkeys(("auth", "contenttypes", "sessions"))
INSTALLED_APPS: Final = [
    *(
        f"django.contrib.{name}"
        for name in ("contenttypes", "auth", "sites", "sessions", "messages", "staticfiles")
    ),
    "django.contrib.admin.apps.SimpleAdminConfig",
    *("async", "servers", "signals", "test_client", "view_tests"),
]
MIDDLEWARE: Final = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES: Final = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": ["tests/templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.debug",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
