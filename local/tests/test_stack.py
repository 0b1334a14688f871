"""The stack itself: alone on the machine or not, it starts, and leaves nothing."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from local.stack import ROOT, STATE, Stack, StackError, _group_alive, _start_time, wait_for


def name(part):
    return f"{part}-{os.getpid()}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"


def test_two_stacks_know_nothing_of_each_other():
    with Stack.start(name("one")) as one, Stack.start(name("two")) as two:
        assert one.port != two.port
        one.client("ssm").put_parameter(Name="/here", Value="one", Type="String")
        assert two.client("ssm").get_parameters(Names=["/here"])["InvalidParameters"] == ["/here"]
    assert not _group_alive(one.pid) and not _group_alive(two.pid)
    assert not one.directory.exists() and not two.directory.exists()


def test_a_name_is_taken_once_and_a_stopped_stack_is_gone():
    with Stack.start(name("once")) as stack, pytest.raises(RuntimeError, match="running already"):
        Stack.start(stack.name)
    stack.stop()  # again, without harm
    with pytest.raises(StackError, match="make up"):
        Stack.load(stack.name)


def test_a_stack_follows_its_owner_into_death(lab):
    script = textwrap.dedent(f"""
        import sys, time
        from local.stack import Stack
        from local.tests.conftest import Lab
        stack = Stack.start({name("orphan")!r})
        lab = Lab(stack)
        cluster, definition = lab.task(lab.image("trap '' TERM; echo here; sleep 600"))
        task = lab.ecs.run_task(cluster=cluster, taskDefinition=definition)["tasks"][0]["taskArn"]
        lab.lines(task, until="here")
        print(stack.pid, flush=True)
        time.sleep(600)
    """)
    owner = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    emulator = int(owner.stdout.readline())
    directory = STATE / name("orphan")
    assert len(list((directory / "containers").iterdir())) == 1
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    wait_for(lambda: not _group_alive(emulator), 20, "the emulator's end")
    wait_for(lambda: not processes_under(directory), 20, "the container's end")
    Stack._sweep()
    wait_for(lambda: not directory.exists(), 20, "the removal of what was left")


def processes_under(directory):
    """The processes whose working directory lies in a stack's."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*/cwd"):
        try:
            if str(process.readlink()).startswith(f"{directory}/"):
                found.append(process)
        except OSError:
            continue
    return found


def test_stopping_a_stack_ends_its_tasks_and_functions(lab):
    with Stack.start(name("busy")) as stack:
        busy = type(lab)(stack)
        function = busy.function("idle", "def handle(event): return os.getpid()")
        pid = int(busy.lambdas.invoke(FunctionName=function)["Payload"].read())
        cluster, definition = busy.task(busy.image("trap '' TERM; echo here; sleep 600"))
        busy.lines(busy.ecs.run_task(cluster=cluster, taskDefinition=definition)["tasks"][0]["taskArn"], until="here")
        assert _start_time(pid)
    assert _start_time(pid) is None
    assert not processes_under(stack.directory)


def test_the_command_line_starts_prints_the_way_and_stops():
    def local(*arguments):
        return subprocess.run([sys.executable, "-m", "local.stack", *arguments, name("cli")], cwd=ROOT, capture_output=True, text=True)

    up = local("up")
    try:
        assert up.returncode == 0, up.stderr
        assert local("env").stdout == up.stdout
        variables = dict(line.removeprefix("export ").split("=", 1) for line in up.stdout.splitlines())
        caller = subprocess.run([pathlib.Path(sys.executable).parent / "aws", "sts", "get-caller-identity"], capture_output=True,
                                text=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables})
        assert "111122223333" in caller.stdout, caller.stderr
    finally:
        assert local("down").returncode == 0
    gone = local("env")
    assert (gone.returncode, gone.stderr) == (1, f"error: there is no stack `{name('cli')}`; start it with: make up\n")
