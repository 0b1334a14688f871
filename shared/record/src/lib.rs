//! What is remembered, and the steps of a run over it.
//!
//! Each step reads, decides by `plangate-gate`, and writes in one transaction under the condition that nothing it read
//! has changed; it may be called again at any time, and then finds what it did. The stores stand behind small traits:
//! AWS in [`aws`], memory for tests.

pub mod access;
pub mod acknowledge;
pub mod admit;
pub mod ahead;
pub mod annotate;
pub mod announce;
pub mod archive;
mod attempt;
pub mod authorize;
pub mod aws;
pub mod callbacks;
pub mod cancel;
pub mod conclude;
pub mod decide;
pub mod documents;
pub mod drift;
mod error;
mod finish;
pub mod freeze;
pub mod guard;
mod heads;
pub mod intake;
pub mod known;
pub mod logs;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod notices;
pub mod objects;
pub mod parameters;
pub mod prepare;
pub mod project;
pub mod propose;
mod requests;
pub mod review;
pub mod review_function;
pub mod rows;
mod standing;
pub mod store;
pub mod strangers;
pub mod sweep;
pub mod tasks;
pub mod watched;
pub mod witness;
pub mod workflow;

#[cfg(test)]
mod tests;

pub use error::{Error, Refusal};
