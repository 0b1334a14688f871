//! The code's table of transitions and the steps that the model takes are the same, but for what is named here.

use std::collections::BTreeSet;

use plangate_gate::lifecycle::{Status, TRANSITIONS};
use plangate_gate::run::Kind;
use plangate_model::bounds::{BESIDE, ONE, SURFACES, TWO_IN_LINE};
use plangate_model::{Bounds, Left, Protocols, check};

type Transition = (Status, Status, bool);

/// Rows of the table that no step of the code takes today, and why the table has them.
const NEVER_TAKEN: &[(Status, Status, &str)] = &[
    (Status::Evaluating, Status::Expired, "a plan that dies before anybody is asked is found dead when he is asked"),
    (Status::Reviewing, Status::Expired, "likewise"),
    (Status::Approved, Status::Expired, "an approval that comes too late to be applied is a failure, `plan-expired`"),
];

/// Rows that a plan-only run takes only if somebody has changed its record, which the model has nobody for.
const NEVER_TAKEN_PLAN_ONLY: &[(Status, Status)] = &[
    (Status::Queued, Status::Failed),
    (Status::Reviewing, Status::Failed),
    (Status::AwaitingApproval, Status::Failed),
    (Status::Approved, Status::Failed),
    (Status::Applying, Status::Failed),
];

fn taken() -> BTreeSet<Transition> {
    let everything = Left { decisions: 1, aborts: 1, cancels: 1, crashes: 1, ..ONE.left };
    let plan_only = Bounds { kinds: &[Kind::PlanOnly], left: everything, ..BESIDE };
    let deciding = Bounds { left: everything, surfaces: 1, ..SURFACES };
    let mut taken = BTreeSet::new();
    for bounds in [plan_only, deciding, TWO_IN_LINE] {
        let model = Protocols::new(bounds);
        let report = check(&model, 4_000_000);
        assert!(report.broken.is_none(), "{report:?}");
        taken.append(&mut model.taken.borrow_mut());
    }
    taken
}

#[test]
fn the_model_takes_the_transitions_of_the_table_and_no_other() {
    let taken = taken();
    for (from, to, plan_only) in &taken {
        let row = TRANSITIONS.iter().find(|(f, t, _)| f == from && t == to);
        let allowed = row.is_some_and(|(_, _, also)| *also || !plan_only);
        assert!(allowed, "the model goes from {from} to {to} (plan-only: {plan_only}), and the table does not");
    }
    for (from, to, also) in TRANSITIONS {
        let excused = NEVER_TAKEN.iter().any(|(f, t, _)| f == from && t == to);
        // What an applicable run never does because it is a plan-only run's end.
        let only_plan_only = *to == Status::Planned;
        if !only_plan_only {
            assert_eq!(
                taken.contains(&(*from, *to, false)),
                !excused,
                "from {from} to {to}: either the model takes it, or it is named as never taken"
            );
        }
        if *also {
            let excused = NEVER_TAKEN_PLAN_ONLY.contains(&(*from, *to));
            assert_eq!(taken.contains(&(*from, *to, true)), !excused, "from {from} to {to}, plan-only");
        }
    }
}
