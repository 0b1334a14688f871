//! A workspace's own rules in Rego, conftest style: `package main`, and what its set `deny` holds speaks against a plan.
//!
//! A crate of its own, as its engine is as large as everything else that the decision core rests on; only the
//! guardrails' function and the command line use it. The engine is compiled without its functions for network, time and
//! randomness, counts its steps instead of reading a clock, and runs in a process of its own whose memory is bounded: a
//! rule that goes round in circles or eats memory ends that process, and that there is no answer is a reason.

mod evaluate;
mod sandbox;

pub use evaluate::{RuleError, evaluate};
pub use sandbox::{Sandbox, serve};
