"""A slice of the campaign with a fixed seed; the rest is `make chaos`."""

from .schedule import BATCH, draw_schedule, written

SEED, RUNS, WORKSPACES = 20261130, 24, 4


def test_a_schedule_is_a_function_of_its_seed():
    assert written(draw_schedule(7, 30, 3)) == written(draw_schedule(7, 30, 3))
    assert written(draw_schedule(7, 30, 3)) != written(draw_schedule(8, 30, 3))


def test_a_batch_is_the_same_whatever_is_played_before_it():
    assert draw_schedule(7, 5 * BATCH, 3).batches[3] == draw_schedule(7, 9 * BATCH, 3).batches[3]


def test_people_do_the_same_without_faults():
    with_faults, without = draw_schedule(7, BATCH, 3).batches[0], draw_schedule(7, BATCH, 3, faults=False).batches[0]
    assert any(proposal.strikes for proposal in with_faults.proposals) and not any(proposal.strikes for proposal in without.proposals)
    assert [proposal.acts for proposal in with_faults.proposals] == [proposal.acts for proposal in without.proposals]
    assert with_faults.asides == without.asides


def test_a_slice_of_the_campaign_leaves_nothing_lost_nothing_twice_nothing_unapproved(campaign):
    played = campaign(WORKSPACES)
    for batch in draw_schedule(SEED, RUNS, WORKSPACES).batches:
        played.play(batch)
        played.close()
    assert played.report.runs == RUNS, played.report
    assert played.report.outcomes["applicable applied"] > 0, played.report
