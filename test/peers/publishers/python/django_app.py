# SPDX-License-Identifier: Apache-2.0
"""gunicorn django_app:application, under opentelemetry-instrument."""
import time

from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

import truth_log


def render(_request):
    truth_log.burn(0.02)
    return HttpResponse("done\n")


def wait(_request):
    time.sleep(0.02)
    return HttpResponse("done\n")


urlpatterns = [path("render", render), path("wait", wait)]
application = get_wsgi_application()
