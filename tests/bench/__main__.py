"""`make bench-run`: what a run costs, and how long the gate takes around the engine; on a stack of its own, held against the bounds."""

import argparse
import json
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

from . import cost  # noqa: E402
from .calls import FOLLOWERS, Calls, by_process  # noqa: E402
from .clock import Clock  # noqa: E402
from .starts import measure  # noqa: E402

# More calls than these for the steps of a run, for its proposal and its approval, and from the runner: something is read twice again.
LAPS, TRANSITIONS, CALLS = 5, 14, 95


def proposed(shop, number):
    """A change that has something to apply, each time."""
    shop.configure(f'resource "terraform_data" "order" {{ input = "order {number}" }}\n')
    return shop.propose()


def events_of(world, run):
    """What each function can be asked without an effect: about a run that has ended, or about nothing."""
    step = {"run": run.id}
    waiting = {**step, "token": "A" * 64}
    known = {name: step for name in ("prepare", "intake", "project", "guard", "review", "authorize", "conclude")}
    return {**known, "admit": waiting, "request-approval": waiting}


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


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--sites", action="store_true", help="name every call")
    parser.add_argument("--no-starts", action="store_true", help="leave out how long functions take to start")
    arguments = parser.parse_args()
    with Stack.start("bench") as stack, tempfile.TemporaryDirectory() as folder:
        Faults.prepare(stack)
        faults = Faults(stack)
        calls = Calls(faults)
        pathlib.Path(folder).chmod(0o755)
        world = World(stack, deploy_gate(stack))
        clock = Clock(folder, world.gate.engine)
        shop = world.workspace(pathlib.Path(folder) / "shop", spec={"secrets": []})
        with world.runner(engines=[clock.engine]):
            world.quiet()
            laps, run = [], None
            for number in range(LAPS + 1):
                calls.forget()
                run, lap = clock.lap(
                    lambda number=number: proposed(shop, number), lambda run: run.wait("awaiting_approval"), lambda run: run.decision(),
                    lambda run: run.wait("applied"))
                if number:  # in the first every process starts
                    laps.append(lap)
            run.settled()
            world.quiet()
            made = calls.of(run.id)
            steps = [call for call in made if call.process not in FOLLOWERS]
        events = cost.history(stack, run)
        transitions = cost.transitions(events)
        price = cost.price(stack, events, made, json.loads((pathlib.Path(__file__).parent / "prices.json").read_text()))
        begun = [] if arguments.no_starts else starts(world, run)
        print(cost.table(made, transitions, price))
        if arguments.sites:
            for process, sites in by_process(made).items():
                print(f"\n{process}: {len(sites)}")
                for site in sites:
                    print(f"   {site}")
        if begun:
            print("\nfunction           first answer    afterwards   (ms; debug builds, the emulator's answers included)")
            for start in begun:
                print(f"{start.function:18} {start.first:12.0f} {start.warm:13.1f}   {start.answered}")
        whole, engine = statistics.median(lap.whole for lap in laps), statistics.median(lap.engine for lap in laps)
        gate = statistics.median(lap.gate for lap in laps)
        print(f"\na run of {whole:.2f} s (median of {LAPS}): the engine {engine:.2f} s, the gate around it {gate:.2f} s, {gate / engine:.2f} of the engine's")
    broken = [
        f"{what} {figure}, more than {bound}"
        for what, figure, bound in (("transitions", transitions, TRANSITIONS), ("calls of AWS for its steps", len(steps), CALLS))
        if figure > bound]
    for line in broken:
        print(f"out of bounds: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
