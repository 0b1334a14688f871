//! The binary against a small gate on the loopback interface, whose answers are made of the wire types.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests assert in the shortest way, in their helpers too"
)]

mod break_glass;
mod comments;
mod configuration;
mod decisions;
mod following;
mod gate;
mod offline;
mod proposals;
mod records;
mod runs;
mod signatures;
