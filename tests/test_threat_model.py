"""The threat model in docs/threat-model.md: every row says how an attack ends, and each test that it names exists."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
MODEL = (ROOT / "docs/threat-model.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| (`.+`) \|$", MODEL, re.M)
NAMED = re.findall(r"`([^`\s]+::[^`\s]+)`", MODEL)


def test_every_attack_has_its_end_and_a_test_that_shows_it():
    sections = re.findall(r"^### .+?$(.*?)(?=^##|\Z)", MODEL.split("## Who attacks")[1], re.M | re.S)
    assert len(sections) == 12
    for section in sections:
        assert "::" in section, f"nothing shows how this ends: {section[:80]}"
    lines = [line for line in MODEL.split("## Who attacks")[1].splitlines() if line.startswith("| ") and not line.startswith("| attack ")]
    assert len(lines) == len(ROWS), "a row lacks a test"
    assert all(re.findall(r"`[^`]+::[^`]+`", shown) for _, _, shown in ROWS)


def test_every_named_test_exists():
    assert len(NAMED) > 100
    for name in NAMED:
        path, _, test = name.partition("::")
        text = (ROOT / path).read_text()
        assert re.search(rf"^\s*(?:async )?(?:fn|def) {test}\(", text, re.M), f"the threat model names {name}"
