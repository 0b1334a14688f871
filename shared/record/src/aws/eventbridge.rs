//! The event bus.

use async_trait::async_trait;
use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::primitives::DateTime;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use plangate_gate::announce::{Announcement, SOURCE};

use crate::announce::{Bus, Taken};
use crate::aws::kind;
use crate::workflow::WorkflowError;

/// A bus of EventBridge.
#[derive(Debug, Clone)]
pub struct EventBridge {
    client: Client,
    bus: String,
}

impl EventBridge {
    /// The bus with this name.
    #[must_use]
    pub fn new(client: Client, bus: String) -> Self {
        Self { client, bus }
    }

    fn entry(&self, announcement: &Announcement) -> Result<PutEventsRequestEntry, WorkflowError> {
        let detail = serde_json::to_string(announcement)
            .map_err(|_| WorkflowError { call: "PutEvents", error: "an announcement is no JSON".to_owned() })?;
        Ok(PutEventsRequestEntry::builder()
            .event_bus_name(&self.bus)
            .source(SOURCE)
            .detail_type(announcement.detail_type())
            .time(DateTime::from_secs(announcement.at.unix_seconds()))
            .detail(detail)
            .build())
    }
}

#[async_trait]
impl Bus for EventBridge {
    async fn put(&self, announcements: &[&Announcement]) -> Result<Vec<Taken>, WorkflowError> {
        let entries = announcements.iter().map(|each| self.entry(each)).collect::<Result<Vec<_>, _>>()?;
        let answer = self.client.put_events().set_entries(Some(entries)).send().await;
        let answer = answer.map_err(|error| WorkflowError { call: "PutEvents", error: kind(&error) })?;
        // As many as there were, in their order. Whatever the answer leaves out has not been taken.
        let taken = |place: usize| match answer.entries().get(place) {
            Some(entry) if entry.event_id().is_some() && entry.error_code().is_none() => Ok(()),
            Some(entry) => Err(entry.error_code().unwrap_or("unknown").to_owned()),
            None => Err("unanswered".to_owned()),
        };
        Ok((0..announcements.len()).map(taken).collect())
    }
}
