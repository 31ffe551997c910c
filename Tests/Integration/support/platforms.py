"""The platforms whose phones prove requests, each in its own way, for suites that are the same for all of them."""

import pytest

from support.gateway import APP

ANDROID_APP = "android:org.example.app"
# The app of a platform's phones.
APPS = {"ios": APP, "android": ANDROID_APP}
PLATFORMS = list(APPS)


def platform_of(app):
    return "android" if app.startswith("android:") else "ios"


def only(platform):
    """Runs a test of such a suite for one platform."""
    return pytest.mark.parametrize("platform", [platform], indirect=True)
