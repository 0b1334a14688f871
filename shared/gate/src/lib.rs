//! The decision core: plan documents, projections, guardrails, verdicts, the life of a run, decisions, audit events.
//!
//! Pure: no I/O, no async, no clock, no randomness, no AWS. Everything that has been checked has a type that only the
//! check can make.

pub mod actions;
pub mod announce;
pub mod audit;
pub mod canonical;
pub mod conformance;
pub mod digest;
pub mod document;
pub mod documents;
pub mod drift;
mod echo;
pub mod failure;
pub mod freeze;
pub mod guardrails;
pub mod identity;
pub mod ids;
mod json;
pub mod keys;
pub mod known;
pub mod lifecycle;
pub mod lock;
mod mask;
pub mod measure;
pub mod order;
mod path;
pub mod pattern;
pub mod policy;
pub mod printed;
pub mod projection;
pub mod receipt;
pub mod render;
pub mod review;
pub mod run;
pub mod state;
pub mod time;
pub mod untrusted;
pub mod value;
pub mod verdict;
