//! How much is explored: each bound is small enough to be explored whole, and together they cover every protocol.

use plangate_gate::run::Kind;

use crate::state::{Bounds, Left};

const NOTHING: Left =
    Left { crashes: 0, zombies: 0, aborts: 0, redrives: 0, strays: 0, stolen: 0, decisions: 0, cancels: 0, freezes: 0 };

/// One applicable run that is decided once, with nothing but lost messages and dying tasks.
pub const ONE: Bounds = Bounds {
    kinds: &[Kind::Applicable],
    left: Left { decisions: 1, ..NOTHING },
    surfaces: 1,
    line_only: false,
    automatic: false,
    any_decision: false,
};

/// One run whose execution dies and is redriven, while somebody starts a second apply task by hand.
pub const TASKS: Bounds = Bounds { left: Left { decisions: 1, aborts: 1, redrives: 1, strays: 1, ..NOTHING }, ..ONE };

/// One run whose execution dies, wherever it is, and is redriven, with nobody else about.
pub const REDRIVEN: Bounds = Bounds { left: Left { decisions: 1, aborts: 1, redrives: 1, ..NOTHING }, ..ONE };

/// One run that is decided, whose workspace and gate are frozen at any moment and lifted at any later one, and whose
/// execution dies.
pub const FROZEN: Bounds =
    Bounds { left: Left { decisions: 1, freezes: 2, aborts: 1, ..NOTHING }, surfaces: 2, any_decision: true, ..ONE };

/// Two applicable runs that end while planning, one of which may be withdrawn and one of whose executions dies, and a freeze
/// that comes and is lifted.
pub const FROZEN_LINE: Bounds =
    Bounds { left: Left { freezes: 1, cancels: 1, aborts: 1, ..NOTHING }, line_only: true, ..TWO };

/// A plan-only run beside an applicable one under a freeze: it waits where it is.
pub const FROZEN_BESIDE: Bounds = Bounds { left: Left { freezes: 1, ..NOTHING }, line_only: true, ..BESIDE };

/// One run whose functions die, or are given up and go on beside their successors, and which is withdrawn.
pub const FUNCTIONS: Bounds =
    Bounds { left: Left { decisions: 1, crashes: 1, zombies: 1, aborts: 1, cancels: 1, ..NOTHING }, ..ONE };

/// One run that two people at once approve, reject, approve as something else, or withdraw, under an automatic review,
/// while a stranger completes its token.
pub const SURFACES: Bounds = Bounds {
    left: Left { decisions: 2, cancels: 1, aborts: 1, stolen: 1, ..NOTHING },
    surfaces: 2,
    automatic: true,
    any_decision: true,
    ..ONE
};

/// Two applicable runs, one of whose executions dies: the second waits, also behind a quarantine.
pub const TWO: Bounds =
    Bounds { kinds: &[Kind::Applicable, Kind::Applicable], left: Left { decisions: 2, aborts: 1, ..NOTHING }, ..ONE };

/// Two applicable runs that end while planning, with a function that dies, one that is given up, a dying execution and a
/// withdrawal.
pub const TWO_IN_LINE: Bounds =
    Bounds { left: Left { crashes: 1, zombies: 1, aborts: 1, cancels: 1, ..NOTHING }, line_only: true, ..TWO };

/// Three applicable runs in line that end while planning, one of which may be withdrawn, and one of whose executions dies.
pub const THREE_IN_LINE: Bounds = Bounds {
    kinds: &[Kind::Applicable, Kind::Applicable, Kind::Applicable],
    left: Left { cancels: 1, aborts: 1, ..NOTHING },
    line_only: true,
    ..ONE
};

/// A plan-only run beside an applicable one: it needs no lock, and opens a quarantine.
pub const BESIDE: Bounds =
    Bounds { kinds: &[Kind::Applicable, Kind::PlanOnly], left: Left { decisions: 1, aborts: 1, ..NOTHING }, ..ONE };

/// One run whose functions are given up while its execution dies, is redriven and is withdrawn.
pub const ONE_AND_MORE: Bounds =
    Bounds { left: Left { zombies: 1, aborts: 1, redrives: 1, decisions: 1, cancels: 1, ..NOTHING }, ..ONE };

/// Two applicable runs, with a dying execution and a withdrawal.
pub const TWO_AND_MORE: Bounds = Bounds { left: Left { aborts: 1, cancels: 1, decisions: 1, ..NOTHING }, ..TWO };
