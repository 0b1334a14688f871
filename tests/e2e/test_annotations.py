"""Notes to what is recorded of a run, after its end: added for good, and nothing else is changed."""

import pytest
from auditor import Auditor

TEXT = "agreed in ticket 17, not 71 \u202e(see the log)"


@pytest.fixture
def ended(workspace):
    run = workspace().waiting()
    run.reject()
    return run.ended_well("rejected")


def test_a_run_that_has_ended_is_corrected_by_notes_beside_it_and_stays_what_it_was(world, ended):
    run, bob, auditor = ended, world.person("bob"), Auditor(world)
    world.grant("carol", [run.workspace.id], ("read", "administer"))
    record, before = world.item(f"RUN#{run.id}", "RUN"), run.events()
    decided = next(event["seq"] for event in before if event["what"]["type"] == "decided")

    noted = bob.cli("annotate", run.id, "--note", TEXT, "--corrects", decided).json["annotation"]
    assert (noted["seq"], noted["corrects"], noted["by"]["person"]) == (len(before) + 1, decided, "bob")
    world.person("carol").cli("annotate", run.id, "--note", "seen in the estate")

    assert world.item(f"RUN#{run.id}", "RUN") == record, "body, version and all"
    events = run.events()
    assert events[:-2] == before
    assert events[-2]["what"] == {"type": "run-annotated", "note": TEXT, "corrects": decided}
    assert (events[-2]["actor"]["person"], events[-1]["actor"]["person"]) == ("bob", "carol")
    run.one_terminal_status()  # which the ledger still anchors where it was

    shown = bob.cli("show", run.id).json
    assert [(each["note"], each.get("corrects")) for each in shown["annotations"]] == [(TEXT, decided), ("seen in the estate", None)]
    assert bob.cli("audit", run.id).json["verified"] is True
    auditor.archived()
    auditor.call("Witness")
    assert auditor.verify()["findings"] == []


def test_who_may_not_writes_no_note_and_what_is_no_note_is_refused(world, ended):
    run, path = ended, f"/v1/runs/{ended.id}/annotations"
    before = len(run.events())
    request = {"request_id": "annotate-1", "note": "a word"}
    for name in ("mallory", "carol"):
        assert world.person(name).refused("POST", path, request) == (403, "not-permitted")
    bob = world.person("bob")
    for wrong in ({"note": ""}, {"note": "two\nlines"}, {"note": "x" * 1001}, {"corrects": before + 1}, {"corrects": 0}, {"more": 1}, {"request_id": "x"}):
        assert bob.refused("POST", path, {**request, **wrong}) == (400, "invalid-request"), wrong
    assert len(run.events()) == before
    first = bob.ask("POST", path, request, 201)
    assert bob.ask("POST", path, request, 201) == first, "sent again it is one"
    assert len(run.events()) == before + 1
