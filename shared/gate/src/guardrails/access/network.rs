//! Rules of networks as sets: ranges of addresses, protocols, ports, groups and prefix lists.

mod range;
mod rules;

pub(super) use range::Range;
pub(super) use rules::{Family, Peer, Rule, admits_more};
