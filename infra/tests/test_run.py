"""The state machine's ways, walked on the laptop stack with functions that answer from a script."""

import pytest

PLANNED = ["admit", "prepare", "runner", "intake", "project", "guard"]


def test_a_run_that_a_person_approves_takes_twelve_states(gate):
    run = gate.start("MachineApplicableArn").answer("admit").answer("request-approval")
    status, calls, concluded, entered = run.end()
    assert (status, calls) == ("SUCCEEDED", [*PLANNED, "request-approval", "authorize", "runner", "conclude"])
    assert concluded == [{"run": run.id}]
    assert len(entered) == 12
    told = dict(run.calls()[::-1])  # of each the first
    assert {name: set(event) for name, event in told.items() if name not in ("conclude", "runner")} == {
        **dict.fromkeys(["prepare", "intake", "project", "guard", "authorize"], {"run"}), **dict.fromkeys(["admit", "request-approval"], {"run", "token"})}
    assert [event["phase"] for name, event in run.calls() if name == "runner"] == ["plan", "apply"]


@pytest.mark.parametrize(("machine", "script", "last"), [
    ("MachineApplicableArn", {"project": [{"changes": False}]}, "project"),
    ("MachinePlanOnlyArn", {"guard": [{"route": "planned", "seconds_left": 0}]}, "guard"),
    ("MachineApplicableArn", {"guard": [{"route": "approved", "seconds_left": 600}]}, "guard"),
    ("MachineApplicableArn", {"guard": [{"route": "sideways", "seconds_left": 600}]}, "guard"),
])
def test_a_run_ends_without_an_apply_when_there_is_nothing_to_decide_or_nothing_known(gate, machine, script, last):
    run = gate.start(machine, **script).answer("admit")
    status, calls, concluded, _ = run.end()
    assert (status, calls[-2:], concluded) == ("SUCCEEDED", [last, "conclude"], [{"run": run.id}])
    assert calls.count("runner") == 1


def test_a_clean_review_needs_no_person(gate):
    run = gate.start("MachineApplicableArn", guard=[{"route": "review", "seconds_left": 600}], review=[{"route": "approved", "seconds_left": 500}])
    status, calls, _, entered = run.answer("admit").end()
    assert (status, calls) == ("SUCCEEDED", [*PLANNED, "review", "authorize", "runner", "conclude"])
    assert len(entered) == 13


@pytest.mark.parametrize("verdict", [{"route": "ask", "seconds_left": 500}, {}, {"route": "review", "seconds_left": 500}, "ReviewerBroken"])
def test_any_other_review_asks_a_person(gate, verdict):
    run = gate.start("MachineApplicableArn", guard=[{"route": "review", "seconds_left": 600}], review=[verdict])
    status, calls, concluded, entered = run.answer("admit").answer("request-approval").end()
    assert (status, calls[6:]) == ("SUCCEEDED", ["review", "request-approval", "authorize", "runner", "conclude"])
    assert concluded == [{"run": run.id}]
    assert len(entered) <= 14


def test_when_nobody_decides_authorize_reads_the_record_all_the_same(gate):
    run = gate.start("MachineApplicableArn", guard=[{"route": "ask", "seconds_left": 1}], authorize=["Expired"]).answer("admit")
    status, calls, concluded, _ = run.end()
    assert (status, calls[6:]) == ("SUCCEEDED", ["request-approval", "authorize", "conclude"])
    assert concluded == [{"run": run.id, "error": "Expired"}]


def test_a_run_that_is_frozen_waits_with_a_token_and_costs_two_states_for_each_freeze_that_it_meets(gate):
    run = gate.start("MachineApplicableArn", prepare=["Frozen"], authorize=["Frozen"])
    run.answer("admit").answer("admit", time=2).answer("request-approval").answer("request-approval", time=2)
    status, calls, _, entered = run.end()
    assert (status, calls[:4], calls[-3]) == ("SUCCEEDED", ["admit", "prepare", "admit", "prepare"], "authorize")
    assert calls[-7:-3] == ["guard", "request-approval", "authorize", "request-approval"]
    assert len(entered) == 12 + 4


@pytest.mark.parametrize(("function", "answer"), [
    ("admit", "NotAdmitted"), ("prepare", "RecordInvalid"), ("intake", "PlanFailed"), ("project", "ProjectionFailed"), ("guard", "RecordInvalid"),
    ("request_approval", "Rejected")])
def test_a_named_failure_comes_to_the_conclusion_without_its_cause(gate, function, answer):
    run = gate.start("MachineApplicableArn", **{function: [answer]})
    if function != "admit":
        run.answer("admit")
    status, calls, concluded, _ = run.end()
    assert (status, calls[-2]) == ("SUCCEEDED", function.replace("_", "-"))
    assert concluded == [{"run": run.id, "error": answer}]


@pytest.mark.parametrize(("function", "answer"), [("prepare", {}), ("project", {}), ("guard", {"route": "ask"}), ("authorize", {"task_role": 1})])
def test_an_answer_that_lacks_something_fails_the_run_and_not_the_execution(gate, function, answer):
    run = gate.start("MachineApplicableArn", **{function: [answer]}).answer("admit")
    if function == "authorize":
        run.answer("request-approval")
    status, calls, concluded, _ = run.end()
    assert (status, calls[-1], concluded) == ("SUCCEEDED", "conclude", [{"run": run.id, "error": "States.QueryEvaluationError"}])


@pytest.mark.parametrize("phase", ["plan", "apply"])
def test_a_runner_that_fails_is_not_started_again(gate, phase):
    run = gate.start("MachineApplicableArn", exit={phase: 1}).answer("admit")
    if phase == "apply":
        run.answer("request-approval")
    status, calls, concluded, _ = run.end()
    assert (status, calls[-2:], concluded) == ("SUCCEEDED", ["runner", "conclude"], [{"run": run.id, "error": "States.TaskFailed"}])
    assert [event["phase"] for name, event in run.calls() if name == "runner"].count(phase) == 1


def test_a_function_is_called_again_when_an_aws_service_failed(gate):
    run = gate.start("MachineApplicableArn", project=["Unavailable", {"changes": False}]).answer("admit")
    status, calls, concluded, _ = run.end()
    assert (status, calls[4:], concluded) == ("SUCCEEDED", ["project", "project", "conclude"], [{"run": run.id}])


def test_a_conclusion_that_fails_fails_the_execution_so_that_the_sweeper_hears_of_it(gate):
    status, calls, _, _ = gate.start("MachineApplicableArn", admit=["NotAdmitted"], conclude=["RecordInvalid"]).end()
    assert (status, calls[:2]) == ("FAILED", ["admit", "conclude"])
