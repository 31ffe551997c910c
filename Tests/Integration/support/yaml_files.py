"""Conf files as editors read them: by the core schema of YAML 1.2, in which `off` is text."""

import re

import yaml


class Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}


for tag, pattern, first in [
    ("null", r"(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"(true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"[-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)$", list("-+.0123456789")),
]:
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)


def parsed(text):
    return yaml.load(text, Loader)
