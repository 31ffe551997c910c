"""The trust client for Android, clients/android: it compiles without the Android SDK, and its unit tests pass."""

from support import vectors
from support.java import sources


def test_its_unit_tests_pass(java):
    names = [path.stem for path in sources("test/java") if path.stem.endswith("Test")]
    assert len(names) >= 6
    printed = java.run(
        "org.junit.runner.JUnitCore", *(f"org.attestgate.trustclient.{name}" for name in names),
        options=[f"-Dvectors={vectors.path('android')}"])
    assert "\nOK (" in printed
