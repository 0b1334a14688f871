//! Faults on purpose: a test says where a process dies, and which call of AWS fails, loses its answer, is throttled, is made
//! twice, or waits. In test builds alone: a release has [`wrap`] and [`invocation`] that do nothing, and none of what they
//! would look for (`tests/release.rs` shows it).
//!
//! Every call of every client passes [`wrap`]'s layer, so that each is a *site* with a name that tells where in its protocol a
//! process is: `plangate-authorize dynamodb.TransactWriteItems RUN#run CHAIN#run/run run/run`. What is armed stands in a
//! folder that the process is told by its environment; how it looks is in [`plan`].

#[cfg(debug_assertions)]
mod layer;
#[cfg(debug_assertions)]
mod plan;
#[cfg(debug_assertions)]
mod site;

use aws_smithy_runtime_api::client::http::{HttpClient as _, SharedHttpClient, SharedHttpConnector, http_client_fn};

/// Gives the client of a process's calls, with the layer around its connections. `process` is the name under which faults
/// are armed.
#[must_use]
pub fn wrap(client: SharedHttpClient, process: &str) -> SharedHttpClient {
    if !cfg!(debug_assertions) {
        return client;
    }
    let process = process.to_owned();
    http_client_fn(move |settings, components| wrap_connector(client.http_connector(settings, components), &process))
}

/// The same for one connection.
#[cfg(debug_assertions)]
#[must_use]
pub fn wrap_connector(connector: SharedHttpConnector, process: &str) -> SharedHttpConnector {
    match plan::Folder::from_environment() {
        Some(folder) => SharedHttpConnector::new(layer::Layer::new(connector, process, folder)),
        None => connector,
    }
}

/// Tells the layer that an invocation begins, and what it was given: a run's id in it says whose calls follow.
#[cfg(debug_assertions)]
pub fn invocation(event: &impl std::fmt::Display) {
    layer::begin(&event.to_string());
}

/// Gives the connection back.
#[cfg(not(debug_assertions))]
#[must_use]
pub fn wrap_connector(connector: SharedHttpConnector, _process: &str) -> SharedHttpConnector {
    connector
}

/// Does nothing.
#[cfg(not(debug_assertions))]
pub const fn invocation(_event: &impl std::fmt::Display) {}
