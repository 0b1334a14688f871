//! Measurements in CloudWatch's embedded metric format: a line of the log from which CloudWatch takes the number, and that
//! whoever searches the log finds like any other.

use plangate_gate::measure::{GATE, Measurement, NAMESPACE};
use serde_json::{Map, Value, json};

/// Writes a measurement of the gate `gate` into `line`, which holds what the line is about. `at` is in milliseconds since
/// 1970.
pub(crate) fn write(line: &mut Map<String, Value>, measurement: &Measurement, gate: &str, at: u64) {
    let metric = measurement.metric;
    let by = metric.by().map(|by| by.name()).zip(measurement.by.as_deref());
    let mut dimensions = Vec::new();
    if metric.total() || by.is_none() {
        dimensions.push(vec![GATE]);
    }
    if let Some((name, value)) = by {
        dimensions.push(vec![GATE, name]);
        line.insert(name.to_owned(), value.into());
    }
    line.insert(GATE.to_owned(), gate.into());
    line.insert(metric.name().to_owned(), json!(measurement.value));
    let metrics = json!([{ "Name": metric.name(), "Unit": metric.unit() }]);
    let directive = json!([{ "Namespace": NAMESPACE, "Dimensions": dimensions, "Metrics": metrics }]);
    line.insert("_aws".to_owned(), json!({ "Timestamp": at, "CloudWatchMetrics": directive }));
    // What the measurement itself is about, which need not be what the function was called for.
    if let Some(run) = &measurement.run {
        line.insert("run".to_owned(), run.as_str().into());
    }
    if let Some(workspace) = &measurement.workspace {
        line.insert("workspace".to_owned(), workspace.as_str().into());
    }
    if let Some(code) = &measurement.code {
        line.insert("code".to_owned(), code.as_ref().into());
    }
}

#[cfg(test)]
mod tests {
    use plangate_gate::measure::{By, Metric};

    use super::*;

    #[test]
    fn each_metric_has_its_name_unit_and_dimensions_and_the_line_keeps_what_it_is_about() {
        for metric in Metric::ALL {
            let mut line = Map::from_iter([("function".to_owned(), json!("conclude"))]);
            let by = metric.by().map(|_| "a word".into());
            write(&mut line, &Measurement { by, ..Measurement::of(*metric, 2.5) }, "gate", 1_700_000_000_123);
            let directive = &line["_aws"]["CloudWatchMetrics"][0];
            assert_eq!(
                (&line["_aws"]["Timestamp"], &directive["Namespace"]),
                (&json!(1_700_000_000_123_u64), &json!("plangate"))
            );
            assert_eq!(directive["Metrics"], json!([{ "Name": metric.name(), "Unit": metric.unit() }]));
            assert_eq!(
                (&line[metric.name()], &line["Gate"], &line["function"]),
                (&json!(2.5), &json!("gate"), &json!("conclude"))
            );
            let sets = directive["Dimensions"].as_array().unwrap();
            assert!(!sets.is_empty());
            // Whatever a set names stands in the line, as text.
            for name in sets.iter().flat_map(|set| set.as_array().unwrap()) {
                assert!(line[name.as_str().unwrap()].is_string(), "{}", metric.name());
            }
            assert_eq!(sets.contains(&json!(["Gate"])), metric.total(), "{}", metric.name());
        }
    }

    #[test]
    fn a_run_is_a_property_and_never_a_dimension() {
        let run = "run-01aaaaaaaaaaaaaaaaaaaaaaaa".parse().ok();
        let mut line = Map::from_iter([("run".to_owned(), json!("another"))]);
        let measurement = Measurement { run, ..Measurement::by(Metric::RunsEnded, 1.0, "applied") };
        write(&mut line, &measurement, "gate", 1);
        assert_eq!(line["run"], "run-01aaaaaaaaaaaaaaaaaaaaaaaa");
        let dimensions = &line["_aws"]["CloudWatchMetrics"][0]["Dimensions"];
        assert_eq!(dimensions, &json!([["Gate"], ["Gate", By::Status.name()]]));
    }
}
