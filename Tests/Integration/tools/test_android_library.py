"""The trust client for Android, clients/android: it compiles without the Android SDK, its unit tests pass, and it is like
the client for iOS."""

import re

import pytest

from support import vectors
from support.java import CLIENT, TESTS, javac, sources
from support.paths import REPOSITORY

# The rows of docs/clients.md: the Swift file with its enum, and Java's enum in the file of that name.
ENUMS = {
    "EnrolmentRecord": ("Enrolment/EnrolmentRecord", "Step", "Step"),
    "EnrolmentExchange": ("Enrolment/EnrolmentExchange", "Action", "Kind"),
    "ProofExchange": ("ProofExchange", "Action", "Action"),
    "ClientDataForm": ("Enrolment/ClientDataForm", "ClientDataForm", "ClientDataForm"),
    "EnrolmentAdvice": ("Enrolment/EnrolmentAnswer", "EnrolmentAdvice", "EnrolmentAdvice"),
    "EnrolmentFailure": ("Enrolment/EnrolmentAnswer", "EnrolmentFailure", "Reason"),
    "AttestorFault": ("HardwareKey", "AttestorFault", "Reason"),
    "RequestFault": ("AttestedRequest", "RequestFault", "Reason"),
}


def page(name):
    return (REPOSITORY / "docs" / f"{name}.md").read_text()


def block(text, name):
    """The lines of an enum, without those of what it contains."""
    start = re.search(rf"\benum {name}\b[^{{]*{{", text).end()
    content, depth = "", 0
    for character in text[start:]:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            return re.sub(r"/\*.*?\*/|//.*", "", content, flags=re.DOTALL if "/*" in content else 0)
        content += character if depth == 0 else ""
    raise AssertionError(f"{name} has no end")


def swift_cases(file, name):
    text = (REPOSITORY / "Sources" / "TrustClient" / f"{file}.swift").read_text()
    return re.findall(r"(?m)^\s*case (\w+)", block(text, name))


def java_cases(file, name):
    text = (CLIENT / "main/java/org/attestgate/trustclient" / f"{file}.java").read_text()
    constants = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.findall(r"\b[A-Z][A-Z_]+\b", block(constants, name).split(";")[0])


def upper(name):
    return re.sub(r"([A-Z])", r"_\1", name).upper()


def test_its_unit_tests_pass(java):
    names = [path.stem for path in sources("test/java") if path.stem.endswith("Test")]
    assert len(names) >= 7
    printed = java.run(
        "org.junit.runner.JUnitCore", *(f"org.attestgate.trustclient.{name}" for name in names),
        options=[f"-Dvectors={vectors.path('android')}"])
    assert "\nOK (" in printed


def test_its_lines_have_at_most_120_columns():
    for path in (CLIENT.parent).rglob("*.java"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert len(line) <= 120 and line == line.rstrip() and "\t" not in line, f"{path}:{number}"


def test_the_code_of_the_page_compiles(java, tmp_path):
    blocks = re.findall(r"```java\n(.*?)```", page("android"), re.DOTALL)
    assert len(blocks) == 2
    assert len(blocks[0].splitlines()) < 60
    for code in blocks:
        file = tmp_path / f"{re.search(r'class (.+?) ', code)[1]}.java"
        file.write_text(code)
        javac([file], tmp_path / "classes", TESTS, java.library, java.stubs)


@pytest.mark.parametrize("subject", ENUMS)
def test_both_clients_have_the_names_of_the_page(subject):
    row = next(line for line in page("clients").splitlines() if line.startswith("| ") and f"`{subject}`" in line)
    both, only_java = (re.findall(r"`(\w+)`", cell) for cell in row.strip("|").split(" | ")[1:])
    file, swift, java = ENUMS[subject]
    assert sorted(both) == sorted(swift_cases(file, swift))
    assert sorted(map(upper, both + only_java)) == sorted(java_cases(subject, java))


def test_the_java_client_has_the_types_of_the_swift_client():
    declared = r"(?m)^public (?:final |indirect )?(?:actor|enum|protocol|struct) (\w+)"
    swift = {name for file in (REPOSITORY / "Sources" / "TrustClient").rglob("*.swift")
             for name in re.findall(declared, file.read_text())}
    java = {path.stem for path in sources("main") if re.search(r"(?m)^public ", path.read_text())}
    # A certificate's key is made by the attestor, and one exchange need not serve both platforms.
    assert swift - java == {"CertificateKey", "KeyAttestation", "KeyBindingClientData", "KeyBindingProof"}
