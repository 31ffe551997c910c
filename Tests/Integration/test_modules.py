"""What is linked into what: the promises of docs/architecture.md that only the package's description can keep."""

import json
import subprocess

import pytest

from paths import ENVIRONMENT, PATIENCE, REPOSITORY

# Client-side code, which has no business in a server: a fault there would be a way to make proofs in the gateway.
CLIENT_SIDE = {"TrustClient", "DeviceSimulator", "CCurl"}


@pytest.fixture(scope="module")
def targets():
    done = subprocess.run(
        ["swift", "package", "describe", "--type", "json"], cwd=REPOSITORY, capture_output=True, text=True,
        env=ENVIRONMENT, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return {target["name"]: target for target in json.loads(done.stdout)["targets"]}


def closure(targets, name):
    """All modules of the package that `name` is linked with, itself included."""
    found, waiting = set(), [name]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += targets[module].get("target_dependencies", [])
    return found


def products(targets, modules):
    """The products of other packages that these modules use."""
    return {product for module in modules for product in targets[module].get("product_dependencies", [])}


def test_the_gateway_is_linked_with_nothing_of_the_client_side(targets):
    modules = closure(targets, "attestgate")
    assert "Gateway" in modules
    assert modules & CLIENT_SIDE == set()
    assert "Crypto" not in products(targets, modules)


def test_an_app_needs_no_system_library(targets):
    modules = closure(targets, "TrustClient")
    assert modules == {"TrustClient", "RequestProof", "Vocabulary"}
    assert [name for name in modules if targets[name]["type"] == "system-target"] == []
    assert products(targets, modules) == {"Crypto"}
    assert targets["CCurl"]["type"] == "system-target", "system libraries are recognised by their type"


def test_an_app_runs_from_ios_14_on(targets):
    """The compiler of this machine cannot build for iOS, so what iOS 14 lacks is looked for by name."""
    for module in closure(targets, "TrustClient"):
        for path in (REPOSITORY / targets[module]["path"]).rglob("*.swift"):
            text = path.read_text()
            for name in ["import Synchronization", "InlineArray<", "Mutex<", "Atomic<", "Glibc"]:
                assert name not in text, f"{path} uses {name}"
