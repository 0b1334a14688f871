//! IAM policy documents, judged by what they permit and not by their text.

mod compare;
mod condition;
mod document;
mod glob;
mod principal;
mod resource;

pub(super) use compare::widens;
pub(super) use document::{Document, Unclear};
