//! Slack: what comes from it, what goes to it. All of it is pure but [`client`].
//!
//! Nothing of a request is read before its signature is checked; nothing of a plan is shown before it is made inert.
//! No other crate knows a type of Slack's.

pub mod client;
mod form;
pub mod interaction;
pub mod manifest;
pub mod message;
pub mod modal;
mod news;
pub mod signature;
mod text;

pub use client::{CallError, Client, ClientError, Token};
pub use interaction::{About, Button, Interaction, InteractionError, Pressed, Sender, Submitted};
pub use message::{Message, Subject};
pub use signature::{Secret, Secrets, SignatureError, Signed, Verified};
