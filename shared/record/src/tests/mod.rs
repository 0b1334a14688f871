//! The protocols over the stores in memory: every story, every crash point, every race that can be told apart.

mod annotate;
mod announce;
mod apply;
mod archive;
mod busy;
mod callbacks;
mod crashes;
mod decisions;
mod documents;
mod drift;
mod freeze;
mod known;
mod line;
mod logs;
#[path = "../../../reviewer/tests/bindings/server.rs"]
pub(crate) mod model_server;
mod notices;
mod races;
mod review;
mod review_function;
mod rule_sets;
pub(crate) mod schedule;
mod strangers;
mod watched;
mod world;
