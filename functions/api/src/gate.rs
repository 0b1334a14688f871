//! What the API works on.

use plangate_gate::time::Timestamp;
use plangate_record::logs::LiveLogs;
use plangate_record::objects::{Objects, Presigner};
use plangate_record::store::Store;
use plangate_record::strangers::Strangers;
use plangate_record::workflow::Workflow;

/// The stores, and the moment of the request.
#[derive(Clone, Copy)]
pub(crate) struct Gate<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) objects: &'a dyn Objects,
    pub(crate) presigner: &'a dyn Presigner,
    pub(crate) workflow: &'a dyn Workflow,
    pub(crate) logs: &'a dyn LiveLogs,
    /// Who keeps record of those who may not.
    pub(crate) strangers: &'a Strangers,
    /// The exchange bucket's name.
    pub(crate) bucket: &'a str,
    /// The role that administers before there are principals.
    pub(crate) administrator: &'a str,
    /// The longest that a workspace may let its plans live, in seconds (`R13`).
    pub(crate) longest_plan_expiry: u32,
    pub(crate) now: Timestamp,
}
