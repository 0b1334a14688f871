//! The protocols over the stores in memory: every story, every crash point, every race that can be told apart.

mod apply;
mod callbacks;
mod crashes;
mod decisions;
mod documents;
mod line;
mod notices;
mod rule_sets;
mod world;
