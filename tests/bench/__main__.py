"""`make bench-run`: what a run costs, and how long the gate takes around the engine; on a stack of its own, held against the bounds."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/e2e")]

from faults import Faults  # noqa: E402
from gate import World  # noqa: E402
from local.deploy import FUNCTIONS, deploy_gate  # noqa: E402
from local.stack import Stack  # noqa: E402
from mischief import configure_provider, own_mirror  # noqa: E402

from . import cost  # noqa: E402
from .calls import Calls, by_group, by_process  # noqa: E402
from .clock import Clock  # noqa: E402
from .starts import measure  # noqa: E402

LAPS, TRANSITIONS = 5, 14
MIRROR = ROOT / "target/test-provider/mirror"
# The most calls: by the gate's functions, from a proposal to its end; by the runner; and by what follows the streams, an object in the
# archive for each event and what an announcement takes for each change.
CALLS = {"functions": 60, "runner": 22, "followers": 44}


def events_of(world, run):
    """What each function can be asked without an effect: about a run that has ended, or about nothing."""
    step = {"run": run.id}
    waiting = {**step, "token": "A" * 64}
    known = {name: step for name in ("prepare", "intake", "project", "guard", "review", "authorize", "conclude")}
    return {
        **known, "admit": waiting, "request-approval": waiting,
        "api": {"rawPath": "/v1/gate", "requestContext": {"requestId": "bench", "http": {"method": "GET"}}}}


def starts(world, run):
    """Start and warm time of every function."""
    functions = world.stack.client("lambda")
    pages = functions.get_paginator("list_functions").paginate()
    deployed = {each["FunctionName"]: each for page in pages for each in page["Functions"]}
    events = events_of(world, run)
    found = []
    for function in FUNCTIONS:
        configuration = next((each for name, each in deployed.items() if name.endswith(f"-{function}")), None)
        if configuration is not None:
            found.append(measure(world.stack, function, configuration, events.get(function, {"Records": []})))
    return found


def counted(faults, world, folder):
    """What one approved run is, by the layer that notes each call: the run, its calls, its execution's history."""
    calls = Calls(faults)
    shop = world.workspace(folder / "shop", spec={"secrets": []})
    for number in range(2):  # in the first every process starts
        calls.forget()
        shop.configure(f'resource "terraform_data" "order" {{ input = "order {number}" }}\n')
        run = shop.waiting()
        run.decision()
        run.wait("applied")
    run.settled()
    world.quiet()
    return run, calls.of(run.id), cost.history(world.stack, run)


def timed(world, folder):
    """Laps of the smallest plan that a provider has a part in: the gate's programs as they are released, the engine's own time beside it."""
    clock = Clock(folder, world.gate.engine)
    shop = world.workspace(folder / "shop")

    def proposed(number):
        configure_provider(shop, MIRROR, f'resource "sample_thing" "order" {{\n  name = "order {number}"\n}}')
        return shop.propose()

    with world.runner(engines=[clock.engine], provider_mirror=own_mirror(world, MIRROR)):
        laps = [
            clock.lap(lambda number=number: proposed(number), lambda run: run.wait("awaiting_approval"), lambda run: run.decision(), lambda run: run.wait("applied"))
            for number in range(LAPS + 1)]
    run, _ = laps[-1]
    run.settled()
    return run, [lap for _, lap in laps[1:]]  # in the first every process starts


@contextlib.contextmanager
def stage(name):
    """A stack with a gate, and a folder that engines can read: (faults, world, folder)."""
    with Stack.start(name) as stack, tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o755)
        Faults.prepare(stack)
        yield Faults(stack), World(stack, deploy_gate(stack)), pathlib.Path(folder)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--sites", action="store_true", help="name every call")
    parser.add_argument("--programs", type=pathlib.Path, help="the released programs whose times are taken; without it none are")
    arguments = parser.parse_args()
    with stage("bench") as (faults, world, folder):
        run, made, events = counted(faults, world, folder)
        price = cost.price(world.stack, events, made, json.loads((pathlib.Path(__file__).parent / "prices.json").read_text()))
    print(cost.table(made, cost.transitions(events), price))
    if arguments.sites:
        for process, sites in by_process(made).items():
            print("\n".join([f"\n{process}: {len(sites)}", *(f"   {site}" for site in sites)]))
    groups = by_group(made)
    held = [("transitions", cost.transitions(events), TRANSITIONS), *((f"calls of AWS by {group}", groups[group], most) for group, most in CALLS.items())]
    if arguments.programs:
        os.environ["PLANGATE_PROGRAMS"] = str(arguments.programs.resolve())
        with stage("bench-time") as (_, world, folder):
            run, laps = timed(world, folder)
            begun = starts(world, run)
        print("\nfunction           first answer    afterwards   (ms; the emulator's answers included)")
        for start in begun:
            print(f"{start.function:18} {start.first:12.0f} {start.warm:13.1f}   {start.answered}")
        whole, engine, gate = (statistics.median(getattr(lap, part) for lap in laps) for part in ("whole", "engine", "gate"))
        print(f"\na run of {whole:.2f} s (median of {LAPS}): the engine {engine:.2f} s, the gate around it {gate:.2f} s, {gate / engine:.2f} of the engine's")
        held.append(("the gate's time by the engine's", gate / engine, 1.0))
    broken = [f"{what} {figure}, more than {bound}" for what, figure, bound in held if figure > bound]
    for line in broken:
        print(f"out of bounds: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
