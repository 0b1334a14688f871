"""The audit as auditors check it: archived as it happens, witnessed, exported, verified offline; and every kind of tampering found."""

import json

import pytest
from auditor import Auditor, sealed

pytestmark = pytest.mark.xdist_group("audit")  # what they look at is played once


@pytest.fixture(scope="module")
def auditor(world):
    return Auditor(world)


@pytest.fixture(scope="module")
def estate(world, auditor, tmp_path_factory):
    """A run that was applied and one that was rejected, witnessed and exported: (export, workspace, applied, rejected)."""
    folder = tmp_path_factory.mktemp("audit")
    shop = world.workspace(folder / "shop")
    rejected = shop.waiting()
    rejected.reject()
    rejected.ended_well("rejected")
    applied = shop.applied()
    applied.ended_well("applied")
    auditor.archived()
    auditor.call("Witness")
    yield auditor.export(folder / "export"), shop, applied, rejected


def rewritten(lines, place, change):
    """The chain made anew from `place` on, as one would who can compute digests; gives its new end."""
    previous = lines[place - 2]["digest"] if place > 1 else None
    for line in lines[place - 1:]:
        event = json.loads(line["event"])
        if line["seq"] == place:
            change(event)
        line["event"], line["digest"] = sealed({**event, "previous": previous})
        previous = line["digest"]
    return {"seq": lines[-1]["seq"], "digest": previous}


def other_time(event):
    event["at"] = "2020-01-01T00:00:00Z"


def test_what_happened_is_archived_witnessed_and_verified_live_and_offline(world, auditor, estate):
    export, shop, applied, rejected = estate
    report = export.verify()
    assert (report["findings"], report["pending"]) == ([], 0)
    assert report["witnesses"] >= 1 and report["witnessed_at"]
    chains = {chain for chain, _, _ in auditor.events()}
    assert {f"run/{applied.id}", f"run/{rejected.id}", f"ws/{shop.id}", "gate"} <= chains
    # Another reading of the same: each event of the table is in the archive byte for byte, under the lock.
    s3 = world.stack.client("s3")
    for chain, place, event in auditor.events():
        if chain == f"run/{applied.id}":
            key = auditor.key(chain, place)
            assert world.object(key, auditor.bucket) == event
            assert s3.get_object_retention(Bucket=auditor.bucket, Key=key)["Retention"]["Mode"] == "COMPLIANCE"
    told = {line["what"]["type"] for line in (json.loads(each["event"]) for each in export.lines(f"table/run/{applied.id}.jsonl"))}
    assert {"run-proposed", "run-admitted", "plan-ordered", "plan-received", "plan-projected", "guardrails-evaluated", "approval-requested",
            "decided", "apply-ordered", "apply-received", "run-ended"} <= told
    # Live, while the gate goes on.
    later = shop.propose()
    live = auditor.verify()
    assert live["findings"] == []
    later.ended_well("no_changes")


TAMPERING = {
    "an event changed": ("table", lambda e, c: e.change(f"table/{c}.jsonl", lambda v: v[2].update(event=v[2]["event"].replace('"at":"2', '"at":"3'))), 3, "table", "changed"),
    "an event missing": ("table", lambda e, c: e.change(f"table/{c}.jsonl", lambda v: v.pop(2)), 3, "table", "missing"),
    "an event twice": ("table", lambda e, c: e.change(f"table/{c}.jsonl", lambda v: v.insert(3, v[2])), 3, "table", "inserted"),
    "two events changed places": ("table", lambda e, c: e.change(f"table/{c}.jsonl", lambda v: swap(v, 2, 3)), 3, "table", "replaced"),
    "an older valid copy in its place": ("table", lambda e, c: e.change(f"table/{c}.jsonl", lambda v: v[4].update(event=v[3]["event"], digest=v[3]["digest"])), 5, "table", "replaced"),
    "the tail cut off": ("table", lambda e, c: e.change(f"table/{c}.jsonl", lambda v: v.__delitem__(slice(4, None))), 5, "table", "cut-off"),
    "the tail cut off, the end set back": ("end", lambda e, c: (e.change(f"table/{c}.jsonl", lambda v: v.__delitem__(slice(4, None))), set_back(e, c, 4)), 5, "table", "cut-off"),
    "the chain and its end rewritten": ("end", lambda e, c: rewrite(e, c, 3), 3, "table", "rewritten"),
    "the end alone rewritten": ("end", lambda e, c: e.change_end(c, lambda head: {**head, "digest": "sha256:" + "0" * 64}), -1, "end", "changed"),
    "the end gone": ("end", lambda e, c: e.change_end(c, lambda head: None), -1, "end", "missing"),
    "an archived event changed": ("archive", lambda e, c: e.change(f"archive/{c}.jsonl", lambda v: v[2].update(event=v[2]["event"].replace('"seq":3', '"seq":33'))), 3, "archive", "replaced"),
    "an archived event missing": ("archive", lambda e, c: e.change(f"archive/{c}.jsonl", lambda v: v.pop(2)), 3, "archive", "missing"),
    "an archived event covered": ("archive", lambda e, c: e.change(f"archive/{c}.jsonl", lambda v: v[2].update(later_versions=1)), 3, "archive", "covered"),
    "all of it cut off everywhere": ("witness", lambda e, c: cut_everywhere(e, c, 4), 5, "both", "cut-off"),
    "all of it rewritten everywhere": ("witness", lambda e, c: rewrite_everywhere(e, c, 3), -1, "both", "rewritten"),
}


def swap(values, one, other):
    values[one]["event"], values[other]["event"] = values[other]["event"], values[one]["event"]


def set_back(export, chain, place):
    lines = export.lines(f"table/{chain}.jsonl")
    export.change_end(chain, lambda head: {"seq": place, "digest": lines[place - 1]["digest"]})


def rewrite(export, chain, place):
    lines = export.lines(f"table/{chain}.jsonl")
    head = rewritten(lines, place, other_time)
    export.write(f"table/{chain}.jsonl", lines)
    export.change_end(chain, lambda _: head)


def cut_everywhere(export, chain, place):
    for store in ("table", "archive"):
        export.change(f"{store}/{chain}.jsonl", lambda values: values.__delitem__(slice(place, None)))
    set_back(export, chain, place)


def rewrite_everywhere(export, chain, place):
    rewrite(export, chain, place)
    events = export.lines(f"table/{chain}.jsonl")
    export.write(f"archive/{chain}.jsonl", [{"seq": each["seq"], "later_versions": 0, "event": each["event"]} for each in events])


@pytest.mark.parametrize("deed", TAMPERING)
def test_each_tampering_with_a_copy_is_found_and_named(estate, tmp_path, deed):
    export, _, applied, _ = estate
    _, mischief, place, source, code = TAMPERING[deed]
    copy, chain = export.copy(tmp_path / "copy"), f"run/{applied.id}"
    length = len(copy.lines(f"table/{chain}.jsonl"))
    mischief(copy, chain)
    assert copy.first() == (chain, length if place == -1 else place, source, code)


def test_a_whole_run_that_is_gone_or_was_put_there_is_found(estate, tmp_path):
    export, _, applied, _ = estate
    copy, chain = export.copy(tmp_path / "gone"), f"run/{applied.id}"
    for store in ("table", "archive"):
        (copy.folder / f"{store}/{chain}.jsonl").unlink()
    copy.change_end(chain, lambda _: None)
    assert copy.first() == (chain, 1, "both", "cut-off")

    copy, forged = export.copy(tmp_path / "forged"), "run/run-" + "0" * 26
    lines = copy.lines(f"table/{chain}.jsonl")
    for line in lines:
        line["event"] = json.dumps({**json.loads(line["event"]), "chain": forged})
    head = rewritten(lines, 1, other_time)
    copy.write(f"table/{forged}.jsonl", lines)
    copy.write(f"archive/{forged}.jsonl", [{"seq": each["seq"], "later_versions": 0, "event": each["event"]} for each in lines])
    copy.write("heads.jsonl", [*copy.lines("heads.jsonl"), {"chain": forged, "head": json.dumps(head)}])
    assert copy.first() == (forged, 1, "both", "never-opened")


def test_witnesses_that_were_tampered_with_are_found(auditor, estate, tmp_path):
    export, *_ = estate
    auditor.call("Witness")
    export = auditor.export(tmp_path / "export")
    number = len(export.lines("witnesses.jsonl"))
    assert number >= 2
    copy = export.copy(tmp_path / "missing")
    copy.change("witnesses.jsonl", lambda values: values.pop(0))
    assert copy.first() == ("witnesses", 1, "witnesses", "missing")
    copy = export.copy(tmp_path / "changed")
    copy.change("witnesses.jsonl", lambda values: values[0].update(event=values[0]["event"].replace('"at":"2', '"at":"3')))
    assert copy.first() == ("witnesses", 2, "witnesses", "unlinked")


def test_what_the_stream_does_not_bring_is_filled_in(world, workspace, auditor):
    functions = world.stack.client("lambda")
    mapping, = functions.list_event_source_mappings(FunctionName="plangate-archive")["EventSourceMappings"]
    auditor.archived()
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    try:
        shop = workspace()
        ledger = f"ws/{shop.id}"
        assert auditor.key(ledger, 1) is None
        filled = auditor.call("Archive")
        assert filled["written"] >= 1 and filled["tampering"] == 0, filled
        assert auditor.key(ledger, 1) is not None
    finally:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)
    auditor.archived()
    assert auditor.verify()["findings"] == []


def test_an_event_that_cannot_be_written_is_a_transition_that_does_not_happen(world, workspace, faults, auditor):
    shop = workspace()
    run = shop.waiting()
    before = world.chain(f"run/{run.id}")
    fault = faults.arm("plangate-api dynamodb.TransactWriteItems*", "fail", workspace=shop.id, times=1000)
    status, answer = world.person("bob").call("POST", f"/v1/runs/{run.id}/decision", {"decision": "approve", "projection": run.digest})
    assert status >= 500, answer
    faults.struck(fault)
    faults.disarm(fault)
    assert world.chain(f"run/{run.id}") == before
    assert run.status == "awaiting_approval" and world.item(f"DEC#{run.id}", "DEC") is None
    run.approve()
    run.ended_well("applied")


def test_strangers_are_recorded_apart_and_bounded(world, auditor):
    stranger = world.stranger("passer-by")
    before = len(world.chain("strangers"))
    for _ in range(60):
        assert stranger.refused("GET", "/v1/runs") == (403, "not-permitted")
    events = world.chain("strangers")
    window, _ = world.item("CHAIN#strangers", "WINDOW")
    assert len(events) - before <= 51 and window["recorded"] <= 50
    assert any("passer-by" in event["what"].get("identity", "") for event in events) or window["left_out"] > 0
    auditor.archived()
    assert auditor.verify()["findings"] == []
