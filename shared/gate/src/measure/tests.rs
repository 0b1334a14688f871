use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::failure::FailureReason;
use crate::review::Cause;

fn vocabulary() -> Value {
    let metric = |metric: &Metric| {
        let by = metric.by().map(|by| json!({ "dimension": by.name(), "values": by.values() }));
        json!({ "name": metric.name(), "unit": metric.unit(), "by": by, "total": metric.total(), "meaning": metric.meaning().trim() })
    };
    json!({ "namespace": NAMESPACE, "gate": GATE, "metrics": Metric::ALL.iter().map(metric).collect::<Vec<_>>() })
}

#[test]
fn the_published_vocabulary_is_the_codes() {
    let published: Value = serde_json::from_str(include_str!("../../../../docs/metrics.json")).unwrap();
    let ours = serde_json::to_string_pretty(&vocabulary()).unwrap();
    assert!(published == vocabulary(), "docs/metrics.json is not what is measured. It is to be:\n{ours}");
}

#[test]
fn a_metric_costs_a_few_names_and_no_run_or_workspace_is_one_of_them() {
    let mut names = 0;
    for metric in Metric::ALL {
        let values = metric.by().map_or(0, |by| by.values().map_or(30, |values| values.len()));
        assert!(values <= 30, "{}", metric.name());
        assert!(metric.by().is_some() || metric.total(), "{} is told nowhere", metric.name());
        names += values + usize::from(metric.total());
    }
    // CloudWatch takes money for each: docs/operations.md tells how much.
    assert!(names < 200, "{names}");
    let by = |metric: &Metric| metric.by().map(|by| by.name()).unwrap_or_default();
    assert!(Metric::ALL.iter().all(|metric| !["Run", "Workspace"].contains(&by(metric))));
}

#[test]
fn each_word_is_said_once() {
    for metric in Metric::ALL {
        if let Some(values) = metric.by().and_then(By::values) {
            assert_eq!(values.iter().collect::<BTreeSet<_>>().len(), values.len(), "{}", metric.name());
        }
    }
    let names: BTreeSet<_> = Metric::ALL.iter().map(|metric| metric.name()).collect();
    assert_eq!(names.len(), Metric::ALL.len());
}

#[test]
fn what_nobody_knows_is_told_from_what_failed_and_what_was_replaced_from_what_was_wrong() {
    assert_eq!(Class::of(FailureReason::ApplyOutcomeUnknown), Class::Unknown);
    assert_eq!(Class::of(FailureReason::GateError), Class::Gate);
    assert_eq!(Class::of(FailureReason::ObjectReplaced), Class::Integrity);
    assert_eq!(Class::of(FailureReason::PlanErrored), Class::Proposal);
    // Each class is somebody's.
    let classes = FailureReason::ALL.iter().map(|reason| Class::of(*reason).as_str()).collect::<BTreeSet<_>>();
    assert_eq!(classes, Class::ALL.iter().map(|class| class.as_str()).collect());
}

#[test]
fn a_review_without_a_verdict_is_none_that_asked_for_a_person() {
    let projection = crate::digest::Digest::of(b"projection");
    let at = "2026-11-30T05:00:00Z".parse().unwrap();
    let of = |cause| Outcome::of(&crate::review::ReviewRecord::escalated("bedrock", cause, projection, at));
    assert_eq!(of(Cause::AlwaysEscalate), Outcome::Escalated);
    assert_eq!(of(Cause::Escalated), Outcome::Escalated);
    assert_eq!(of(Cause::Frozen), Outcome::Withheld);
    assert_eq!(of(Cause::TimedOut), Outcome::NoVerdict);
    assert_eq!(of(Cause::VerdictMalformed), Outcome::NoVerdict);
}

#[test]
fn a_measurement_reads_as_it_is_written() {
    let measurement = Measurement {
        run: "run-01aaaaaaaaaaaaaaaaaaaaaaaa".parse().ok(),
        workspace: "ws-0123456789abcdef".parse().ok(),
        ..Measurement::by(Metric::RunsFailed, 1.0, Class::Gate.as_str()).with_code("gate-error")
    };
    let text = serde_json::to_string(&measurement).unwrap();
    assert_eq!(serde_json::from_str::<Measurement>(&text).unwrap(), measurement);
}
