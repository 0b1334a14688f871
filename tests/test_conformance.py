"""The ledger in docs/conformance.md: every requirement has its row, and what a row names exists."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
LEDGER = (ROOT / "docs/conformance.md").read_text()
ROWS = {int(match[1]): match[2].split("|") for match in re.finditer(r"^\| R(\d+) (.*)\|$", LEDGER, re.M)}


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_every_requirement_has_its_row():
    assert sorted(ROWS) == list(range(1, 57))


def test_every_place_exists():
    for number, (_, places, _) in ROWS.items():
        paths = [name for name in names(places) if "/" in name and " " not in name]
        assert paths, f"R{number} says nowhere where it lives"
        for path in paths:
            assert (ROOT / path).is_file(), f"R{number} names {path}"


def test_every_test_exists():
    for number, (_, _, tests) in ROWS.items():
        assert names(tests), f"R{number} has no test"
        for name in names(tests):
            path, _, test = name.partition("::")
            text = (ROOT / path).read_text()
            assert re.search(rf"^\s*(?:async )?(?:fn|def) {test}\(", text, re.M), f"R{number} names {name}"
