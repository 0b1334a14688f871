//! A model of the protocols of a run, and a checker that explores all of it. See `README.md` for what is modelled and
//! what is left out.

#![expect(clippy::indexing_slicing, reason = "a model is a test: a place that is not there is a mistake in it")]

pub mod bounds;
mod checker;
mod conclude;
mod freeze;
mod mistake;
mod people;
mod properties;
mod state;
mod steps;
mod table;
mod world;

pub use checker::{Action, Broken, Class, Model, Possibility, Report, check};
pub use mistake::Mistake;
pub use properties::{PROPERTIES, Protocols};
pub use state::*;
