"""docs/reviewer.md: its causes are those of the code, in the code's words."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]


def test_every_cause_is_there_in_its_words_and_no_other():
    code = (ROOT / "shared/gate/src/review.rs").read_text()
    causes = dict(re.findall(r'^    /// (.+)\n    \w+ = "([\w-]+)",$', code, re.M))
    told = dict(re.findall(r"^\| `([\w-]+)` \| (.+\.) \|$", (ROOT / "docs/reviewer.md").read_text(), re.M))
    assert told == {code: meaning for meaning, code in causes.items()}
    assert len(told) >= 30
