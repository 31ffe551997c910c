"""What is linked into what: the promises of docs/architecture.md that only the package's description can keep."""

import json
import subprocess

import pytest

from support.paths import ENVIRONMENT, PATIENCE, REPOSITORY

# Client-side code, which has no business in a server: a fault there would be a way to make proofs in the gateway.
CLIENT_SIDE = {"TrustClient", "DeviceSimulator", "CCurl"}


@pytest.fixture(scope="module")
def targets():
    done = subprocess.run(
        ["swift", "package", "dump-package"], cwd=REPOSITORY, capture_output=True, text=True, env=ENVIRONMENT,
        timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return {target["name"]: target for target in json.loads(done.stdout)["targets"]}


def dependencies(target, kind, platform):
    """The names of what a target depends on for a platform; `kind` is `byName` and `target` for modules, `product` for others."""
    for dependency in target["dependencies"]:
        for found, (name, *_, condition) in dependency.items():
            if found in kind and (condition is None or platform in condition["platformNames"]):
                yield name


def closure(targets, name, platform="linux"):
    """All modules of the package that `name` is linked with on a platform, itself included."""
    found, waiting = set(), [name]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += dependencies(targets[module], ("byName", "target"), platform)
    return found


def products(targets, modules, platform="linux"):
    """The products of other packages that these modules use."""
    return {product for module in modules for product in dependencies(targets[module], "product", platform)}


def test_the_gateway_is_linked_with_nothing_of_the_client_side(targets):
    modules = closure(targets, "attestgate")
    assert "Gateway" in modules
    assert modules & CLIENT_SIDE == set()


def test_an_app_needs_no_system_library(targets):
    modules = closure(targets, "TrustClient", "ios")
    assert modules == {"TrustClient", "RequestProof", "Vocabulary", "Encoding"}
    assert products(targets, modules, "ios") == set()
    assert "Cryptography" in closure(targets, "TrustClient", "linux"), "conditions of platforms are read"


def test_an_app_runs_from_ios_14_on(targets):
    """The compiler of this machine cannot build for iOS, so what iOS 14 lacks is looked for by name."""
    for module in closure(targets, "TrustClient", "ios"):
        for path in (REPOSITORY / "Sources" / module).rglob("*.swift"):
            text = path.read_text()
            for name in [
                "import Synchronization", "InlineArray<", "Mutex<", "Atomic<", "Glibc", "UTF8Span", "String(validating:"]:
                assert name not in text, f"{path} uses {name}"
