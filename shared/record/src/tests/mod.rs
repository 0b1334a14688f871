//! The protocols over the stores in memory: every story, every crash point, every race that can be told apart.

mod apply;
mod crashes;
mod decisions;
mod documents;
mod line;
#[path = "../../../reviewer/tests/bindings/server.rs"]
pub(crate) mod model_server;
mod review;
mod review_function;
mod rule_sets;
mod world;
