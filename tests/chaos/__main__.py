"""The campaign from the command line: `python -m tests.chaos --seed N --runs M`."""

import argparse
import secrets
import sys
import time

from .campaign import Campaign, Found, Report
from .schedule import draw_schedule, written

STACK_RUNS = 240  # a stack remembers everything; after so many runs a fresh one is faster


def arguments():
    """The command line's arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="what the schedule is drawn from; another each time if left out")
    parser.add_argument("--runs", type=int, default=1000, help="how many proposals")
    parser.add_argument("--workspaces", type=int, default=4)
    parser.add_argument("--batch", type=int, help="plays this batch of the schedule alone")
    parser.add_argument("--no-faults", action="store_true", help="people, attackers and accidents only")
    parser.add_argument("--show", action="store_true", help="writes the schedule out and plays nothing")
    return parser.parse_args()


def main():
    """Plays a campaign; gives the exit code."""
    given = arguments()
    schedule = draw_schedule(given.seed, given.runs, given.workspaces, not given.no_faults)
    if given.show:
        print(written(schedule))
        return 0
    again = f"python -m tests.chaos --seed {given.seed} --runs {given.runs} --workspaces {given.workspaces}" + (" --no-faults" if given.no_faults else "")
    print(f"seed {given.seed}; the same schedule again: {again}", flush=True)
    batches = [batch for batch in schedule.batches if given.batch in (None, batch.number)]
    report, begun = Report(), time.monotonic()
    try:
        while batches:
            with Campaign(f"chaos-{given.seed}-{len(batches)}", given.workspaces, not given.no_faults) as campaign:
                try:
                    played = 0
                    while batches and played < STACK_RUNS:
                        batch = batches.pop(0)
                        campaign.play(batch)
                        campaign.close()
                        played += len(batch.proposals)
                        print(f"batch {batch.number}: {len(batch.proposals)} runs, all well after {time.monotonic() - begun:.0f} s", flush=True)
                finally:
                    report.add(campaign.report)
    except Found as found:
        print(report)
        print(f"\nVIOLATED with seed {given.seed} in batch {batch.number}; again: {again} --batch {batch.number}")
        for violation in found.violations:
            print(f"  {violation}")
        print(found.told)
        return 1
    print(report)
    print(f"\nseed {given.seed}: nothing lost, nothing twice, nothing unapproved")
    return 0


if __name__ == "__main__":
    sys.exit(main())
