"""`attestgate schema`: what editors learn from it, held against what `attestgate check` says."""

import json
import subprocess

import jsonschema
import pytest

from support.least_conf import CONF
from support.paths import BINARY, REPOSITORY
from support.pki import attestgate
from support.yaml_files import parsed

CONFS = sorted([*(REPOSITORY / "conf").glob("*.yaml"), *(REPOSITORY / "conf/examples").rglob("*.yaml")])


@pytest.fixture(scope="module")
def schemas():
    def schema(*arguments):
        done = attestgate("schema", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        schema = json.loads(done.stdout)
        jsonschema.Draft202012Validator.check_schema(schema)
        return jsonschema.Draft202012Validator(schema)
    return schema(), schema("--part")


def faults(validator, text):
    return [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(parsed(text))]


@pytest.mark.parametrize("path", CONFS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_conf_file_of_the_project_matches_the_schema(schemas, path):
    assert faults(schemas[0], path.read_text()) == []


def test_the_smallest_conf_file_matches_the_schema(schemas, pki):
    assert faults(schemas[0], CONF.format(pki=pki.directory)) == []


def test_an_included_file_needs_no_required_section_and_allows_no_unknown_one(schemas):
    whole, part = schemas
    text = "limits:\n  connections: 10\n"
    assert faults(whole, text) and faults(part, text) == []
    assert faults(part, "limits:\n  conections: 10\n")


# Each refused by the program and by the schema.
BROKEN = {
    "an unknown key": ("    path: /records", "    pth: /records"),
    "an unknown section": ("upstreams:", "upstream:"),
    "a missing section": ("routes:", "strip_headers:"),
    "a missing key": ("    host: localhost\n", ""),
    "text for a list": ("[127.0.0.1:9000]", "127.0.0.1:9000"),
    "a list for text": ("    path: /records", "    path: [/records]"),
    "a list for a mapping": ("  records:\n    servers: [", "  records:\n    - ["),
    "a server without a port": ("[127.0.0.1:9000]", "[127.0.0.1]"),
    "an empty list": ("[127.0.0.1:9000]", "[]"),
    "a server twice": ("[127.0.0.1:9000]", "[127.0.0.1:9000, 127.0.0.1:9000]"),
    "a duration without a unit": ("[127.0.0.1:9000]", "[127.0.0.1:9000]\n    idle_timeout: 60"),
    "a duration with an unknown unit": ("[127.0.0.1:9000]", "[127.0.0.1:9000]\n    idle_timeout: 60sec"),
    "a number out of range": ("[127.0.0.1:9000]", "[127.0.0.1:9000]\n    connections: 70000"),
    "a number in quotes": ("[127.0.0.1:9000]", "[127.0.0.1:9000]\n    connections: '10'"),
    "a fraction": ("[127.0.0.1:9000]", "[127.0.0.1:9000]\n    connections: 1.5"),
    "an unknown name": ("require: certificate", "require: certificat"),
    "a method in lower case": ("    path: /records", "    path: /records\n    methods: [get]"),
    "a path without a slash": ("    path: /records", "    path: records"),
    "a host in capitals": ("host: localhost", "host: LOCALHOST"),
    "a name with a blank": ("name: records", "name: my records"),
    "an upstream with a capital": ("  records:\n    servers", "  Records:\n    servers"),
    "a size with a foreign unit": ("    path: /records", "    path: /records\n    content_limit: 1MB"),
    "a rate without a period": ("    path: /records", "    path: /records\n    rate: 100"),
    "no value": ("host: localhost", "host:"),
    "a section within another": ("    require: certificate", "    require: certificate\n    limits: {}"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_form_is_refused_by_schema_and_program(schemas, pki, tmp_path, name):
    old, new = BROKEN[name]
    text = CONF.format(pki=pki.directory)
    assert old in text
    text = text.replace(old, new, 1)
    path = tmp_path / "attestgate.yaml"
    path.write_text(text)
    done = attestgate("check", "--config", path)
    assert done.returncode == 1 and ": error: " in done.stderr
    assert faults(schemas[0], text)


def test_every_default_matches_its_setting(schemas):
    schema = schemas[0].schema
    settings = [
        setting for section in [schema, *schema["$defs"].values()] for setting in section["properties"].values()]
    defaults = [setting for setting in settings if "default" in setting]
    assert len(defaults) > 60
    for setting in defaults:
        validator = jsonschema.Draft202012Validator({"$defs": schema["$defs"], **setting})
        assert not list(validator.iter_errors(setting["default"])), setting


def test_the_schema_is_printed_without_a_conf_file_or_an_environment():
    done = subprocess.run([BINARY, "schema"], env={}, capture_output=True)
    assert done.returncode == 0 and json.loads(done.stdout)["title"] == "An AttestGate configuration file"
