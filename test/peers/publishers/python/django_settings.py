# SPDX-License-Identifier: Apache-2.0
ROOT_URLCONF = "django_app"
ALLOWED_HOSTS = ["*"]
SECRET_KEY = "of a test"
