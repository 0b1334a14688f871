//! The protocols over the stores in memory: every story, every crash point, every race that can be told apart.

mod apply;
mod archive;
mod crashes;
mod decisions;
mod documents;
mod line;
mod rule_sets;
mod strangers;
mod world;
