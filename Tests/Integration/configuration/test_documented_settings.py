"""Settings that the pages name in backticks, such as `limits.head`, exist in the conf file's schema."""

import json
import re

from support.documented import PAGES
from support.pki import attestgate

# Files may be called like a section of the conf file.
FILE_ENDINGS = {"yaml", "yml", "json", "sqlite", "mark", "lock"}


def settings(schema):
    """Returns the path of every key, without the names of upstreams and the indices of lists."""
    def walk(node, path):
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
        for key, value in node.get("properties", {}).items():
            yield ".".join([*path, key])
            yield from walk(value, [*path, key])
        for key in ["items", "additionalProperties"]:
            if isinstance(node.get(key), dict):
                yield from walk(node[key], path)
        for value in node.get("patternProperties", {}).values():
            yield from walk(value, path)
        for key in ["anyOf", "oneOf", "allOf"]:
            for value in node.get(key, []):
                yield from walk(value, path)
    return set(walk(schema, []))


def test_each_setting_that_a_page_names_exists():
    known = settings(json.loads(attestgate("schema").stdout))
    sections = "|".join(key for key in known if "." not in key)
    named, unknown = 0, []
    for page in PAGES:
        text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
        for name in re.findall(rf"`((?:{sections})(?:\.[a-z0-9_]+)+)`", text):
            if name.rsplit(".", 1)[1] in FILE_ENDINGS:
                continue
            named += 1
            if name not in known:
                unknown.append(f"{page.name}: {name}")
    assert named > 100
    assert unknown == []
