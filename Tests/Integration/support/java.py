"""The trust client for Android, compiled for the JVM: the library, its software phone, its unit tests."""

import subprocess
from pathlib import Path

from support.paths import PATIENCE, REPOSITORY

CLIENT = REPOSITORY / "clients" / "android" / "src"
# Debian's packages junit4, libhamcrest-java, libokhttp-java and libokio-java.
LIBRARIES = [Path("/usr/share/java") / f"{name}.jar" for name in ("junit4", "hamcrest", "okhttp", "okio")]
# API level 26 has the library of Java 8, so that no newer class or method is used by mistake.
SHIPPED = ["--release", "8", "-Xlint:all,-options,-serial,-classfile"]
TESTS = ["--release", "11", "-Xlint:all,-serial,-classfile"]


def sources(*folders):
    return sorted(path for folder in folders for path in (CLIENT / folder).rglob("*.java"))


def class_path(*folders):
    return ":".join(map(str, [*folders, *LIBRARIES]))


def javac(files, directory, options, *folders):
    """Compiles; warnings are errors."""
    directory.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["javac", "-J-Xmx256m", *options, "-Werror", "-cp", class_path(*folders), "-d", directory, *map(str, files)],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


class Java:
    """The classes in a directory."""

    def __init__(self, directory):
        self.library = directory / "library"
        self.stubs = directory / "stubs"
        self.tests = directory / "tests"
        # The core needs nothing but the platform.
        javac(sources("main"), self.library, SHIPPED)
        javac(sources("test/stubs"), self.stubs, SHIPPED)
        javac(sources("android", "okhttp", "software"), self.library, SHIPPED, self.library, self.stubs)
        javac(sources("test/java"), self.tests, TESTS, self.library, self.stubs)

    def command(self, name, *arguments, options=()):
        # Its programs are short: the compiler that begins early is faster.
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options]
        path = class_path(self.library, self.tests, self.stubs)
        return ["java", *options, "-cp", path, name, *map(str, arguments)]

    def run(self, name, *arguments, timeout=4 * PATIENCE, **options):
        """Runs a program to its end. - Returns: what it printed."""
        done = subprocess.run(
            self.command(name, *arguments, **options), capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
