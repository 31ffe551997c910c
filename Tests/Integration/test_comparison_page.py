"""docs/comparison.md leads who moves over to settings that there are. Its conf files and commands are run by
test_documented_commands.py."""

import json
import re

from paths import REPOSITORY
from pki import attestgate


def settings(schema):
    """Every key by its path, without what stands for the names and members of lists."""
    def walk(node, path):
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
        for key, value in node.get("properties", {}).items():
            yield ".".join([*path, key])
            yield from walk(value, [*path, key])
        for key in ["items", "additionalProperties"]:
            if isinstance(node.get(key), dict):
                yield from walk(node[key], path)
        for key in ["patternProperties"]:
            for value in node.get(key, {}).values():
                yield from walk(value, path)
        for key in ["anyOf", "oneOf", "allOf"]:
            for value in node.get(key, []):
                yield from walk(value, path)
    return set(walk(schema, []))


def test_each_directive_leads_to_a_setting_that_there_is():
    known = settings(json.loads(attestgate("schema").stdout))
    page = (REPOSITORY / "docs" / "comparison.md").read_text().split("## Directive by directive")[1]
    lines = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(lines) > 30
    for *others, here in lines:
        named = re.findall(r"`((?:%s)(?:\.[a-z_.]+)?)`" % "|".join(key for key in known if "." not in key), here)
        assert [name for name in named if name not in known] == [], others
        # What has no setting says why in words.
        assert named or re.search("none|nothing|`attestgate ", here), others
