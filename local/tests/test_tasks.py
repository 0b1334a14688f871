"""ECS tasks without Docker: environment, credentials, output, and how they end."""

import json
import os
import pathlib
import sys
import urllib.error
import urllib.request

import pytest

from local.stack import ACCOUNT, REGION, wait_for


def run(lab, cluster, definition, **more):
    answer = lab.ecs.run_task(cluster=cluster, taskDefinition=definition, launchType="FARGATE", **more)
    assert not answer["failures"]
    return answer["tasks"][0]["taskArn"]


def stopped(lab, cluster, task):
    def look():
        found = lab.ecs.describe_tasks(cluster=cluster, tasks=[task])["tasks"][0]
        return found if found["lastStatus"] == "STOPPED" else None
    return wait_for(look, 30, "the task's end")


def test_a_container_sees_its_own_environment_alone(lab):
    cluster, definition = lab.task(lab.image("env | sort; pwd; ls -A; echo done"))
    task = run(lab, cluster, definition, overrides={
        "containerOverrides": [{"name": "runner", "environment": [{"name": "PLANGATE_RUN", "value": "run-1"}]}]})
    lines = lab.lines(task, until="done")
    names = {line.split("=")[0] for line in lines if "=" in line}
    assert names == {
        "PATH", "HOME", "HOSTNAME", "PWD", "AWS_EXECUTION_ENV", "AWS_REGION", "AWS_DEFAULT_REGION", "FROM_DEFINITION", "PLANGATE_RUN",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN"} | ({"SHLVL", "_"} & names)
    home = next(line.removeprefix("HOME=") for line in lines if line.startswith("HOME="))
    assert lines[-2:] == [home, "done"]  # the working directory is the home, and empty
    stopped(lab, cluster, task)
    assert not pathlib.Path(home).exists()


def test_a_command_is_appended_to_the_fixed_entrypoint(lab):
    cluster, definition = lab.task(lab.image('for word in "$@"; do echo "<$word>"; done; echo done'), command=["of definition"])
    assert lab.lines(run(lab, cluster, definition), until="done") == ["<of definition>", "done"]
    overrides = {"containerOverrides": [{"name": "runner", "command": ["a b", "$(id)"]}]}
    assert lab.lines(run(lab, cluster, definition, overrides=overrides), until="done") == ["<a b>", "<$(id)>", "done"]


def test_a_container_has_the_credentials_of_the_overridden_role(lab):
    who = f"""#!{sys.executable}
import boto3, os
sts = boto3.client("sts", endpoint_url="{lab.stack.endpoint}")
print(sts.get_caller_identity()["Arn"], flush=True)
print("done", flush=True)
"""
    cluster, definition = lab.task(lab.program(who))
    other = lab.role("apply", "ecs-tasks.amazonaws.com", path="/plangate/apply/")
    task = run(lab, cluster, definition, overrides={"taskRoleArn": other})
    said = lab.lines(task, until="done")[0]
    assert said == f"arn:aws:sts::{ACCOUNT}:assumed-role/{other.rsplit('/', 1)[-1]}/{task.rsplit('/', 1)[-1]}"


def test_credentials_need_the_containers_own_token(lab):
    cluster, definition = lab.task(lab.image("env; echo done; sleep 60"))
    task = run(lab, cluster, definition)
    environment = dict(line.split("=", 1) for line in lab.lines(task, until="done") if "=" in line)
    address = environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
    right = urllib.request.Request(address, headers={"Authorization": environment["AWS_CONTAINER_AUTHORIZATION_TOKEN"]})
    with urllib.request.urlopen(right) as answer:
        assert set(json.load(answer)) == {"RoleArn", "AccessKeyId", "SecretAccessKey", "Token", "Expiration"}
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address)
    lab.ecs.stop_task(cluster=cluster, task=task)
    stopped(lab, cluster, task)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(right)


def test_a_role_that_does_not_trust_ecs_is_refused(lab):
    cluster, definition = lab.task(lab.image("exit 0"))
    stranger = lab.role("stranger", "lambda.amazonaws.com")
    elsewhere = lab.role("elsewhere", "ecs-tasks.amazonaws.com", condition={"StringEquals": {"aws:SourceAccount": "999999999999"}})
    here = lab.role("here", "ecs-tasks.amazonaws.com", condition={
        "StringEquals": {"aws:SourceAccount": ACCOUNT}, "ArnLike": {"aws:SourceArn": f"arn:aws:ecs:{REGION}:{ACCOUNT}:*"}})
    for role in (stranger, elsewhere):
        with pytest.raises(lab.ecs.exceptions.ClientException, match="unable to assume the role"):
            run(lab, cluster, definition, overrides={"taskRoleArn": role})
    stopped(lab, cluster, run(lab, cluster, definition, overrides={"taskRoleArn": here}))


def test_output_reaches_the_log_line_by_line_while_the_task_runs(lab):
    cluster, definition = lab.task(lab.image("echo first; echo second >&2; while [ ! -e go ]; do sleep 0.05; done; printf last"))
    task = run(lab, cluster, definition)
    assert lab.lines(task, until="second") == ["first", "second"]
    container = lab.container(cluster, task)
    (container / "go").touch()
    assert lab.lines(task, until="last") == ["first", "second", "last"]


def test_stop_task_lets_the_main_process_finish_and_tells_nobody_else(lab):
    # A child that took the signal would say so; the main process waits for it to be sure.
    script = """
        sh -c "trap 'echo child told' TERM; while [ -d . ]; do sleep 0.05; done" &
        trap 'echo main told; exit 7' TERM
        echo ready
        while :; do sleep 0.05; done
    """
    cluster, definition = lab.task(lab.image(script))
    task = run(lab, cluster, definition)
    lab.lines(task, until="ready")
    answer = lab.ecs.stop_task(cluster=cluster, task=task, reason="the run was canceled")["task"]
    assert answer["desiredStatus"] == "STOPPED"
    ended = stopped(lab, cluster, task)
    assert ended["containers"][0]["exitCode"] == 7
    assert (ended["stopCode"], ended["stoppedReason"]) == ("UserInitiated", "the run was canceled")
    assert lab.lines(task, until="main told") == ["ready", "main told"]


def test_a_container_that_does_not_stop_is_killed_with_all_it_started(lab):
    # The grandchild leaves the session and the process group: only a PID namespace would still hold it.
    script = f"""
        trap '' TERM
        {sys.executable} -c 'import os, time; os.setsid(); print("grandchild", os.getpid(), flush=True); time.sleep(600)' &
        wait_for() {{ while :; do sleep 0.05; done; }}; wait_for
    """
    cluster, definition = lab.task(lab.image(script), stop_timeout=2)
    task = run(lab, cluster, definition)
    pid = int(wait_for(lambda: lab.lines(task), 20, "a line")[0].split()[1])
    assert pathlib.Path(f"/proc/{pid}").exists()
    lab.ecs.stop_task(cluster=cluster, task=task)
    assert stopped(lab, cluster, task)["containers"][0]["exitCode"] == 137
    assert not pathlib.Path(f"/proc/{pid}").exists()


def test_nothing_outlives_the_main_process(lab):
    cluster, definition = lab.task(lab.image("sleep 600 & echo $!; exit 0"))
    task = run(lab, cluster, definition)
    assert stopped(lab, cluster, task)["containers"][0]["exitCode"] == 0
    pid = int(wait_for(lambda: lab.lines(task), 20, "a line")[0])
    assert not os.path.exists(f"/proc/{pid}")


def test_overrides_are_capped(lab):
    cluster, definition = lab.task(lab.image("exit 0"))
    long = {"containerOverrides": [{"name": "runner", "environment": [{"name": "LONG", "value": "x" * 8192}]}]}
    with pytest.raises(lab.ecs.exceptions.InvalidParameterException, match="8192"):
        run(lab, cluster, definition, overrides=long)


def test_a_cluster_must_exist(lab):
    _, definition = lab.task(lab.image("exit 0"))
    with pytest.raises(lab.ecs.exceptions.ClusterNotFoundException):
        run(lab, f"nowhere-{lab.id}", definition)
