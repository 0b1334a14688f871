//! The log: one line of JSON an event, flat, with what the call is about in each: function, request, trace, and the run and
//! the workspace as soon as they are known. Measurements are lines too.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use plangate_gate::measure::Measurement;
use plangate_record::watched::MEASURED;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::emf;
use crate::settings::named;

/// Sends the process's events to standard output, where Lambda collects lines. Set once a process: a second call changes
/// nothing.
pub fn log() {
    let (gate, function) = gate_and_function();
    if subscriber(Lines { gate, write: print, clock: milliseconds }).try_init().is_ok() {
        tracing::info!(function, release = plangate_release::told(), "the function starts");
    }
}

/// The names of the gate and of the function in it. A gate's name has no hyphen.
pub(crate) fn gate_and_function() -> (String, String) {
    let name = named("AWS_LAMBDA_FUNCTION_NAME");
    name.split_once('-').map_or_else(|| (name.clone(), name.clone()), |(gate, own)| (gate.to_owned(), own.to_owned()))
}

fn subscriber<W: Fn(&str) + Send + Sync + 'static>(lines: Lines<W>) -> impl Subscriber + Send + Sync {
    Registry::default().with(LevelFilter::INFO).with(lines)
}

fn print(line: &str) {
    // Whatever becomes of the log, the step goes on.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Makes lines of events.
struct Lines<W> {
    gate: String,
    write: W,
    clock: fn() -> u64,
}

/// What a span of ours is about.
struct About(Map<String, Value>);

/// Whether what comes from there is ours to tell; spans of libraries repeat what ours say.
fn ours(target: &str) -> bool {
    target.starts_with("plangate")
}

impl<W, S> Layer<S> for Lines<W>
where
    W: Fn(&str) + Send + Sync + 'static,
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id).filter(|span| ours(span.metadata().target())) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(About(fields.0));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(About(about)) = extensions.get_mut() else { return };
        let mut fields = Fields::default();
        values.record(&mut fields);
        // What a call is about is what it was first known to be about: on the way it may look at other runs.
        for (name, value) in fields.0 {
            about.entry(name).or_insert(value);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Map::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(About(about)) = span.extensions().get::<About>() {
                line.extend(about.clone());
            }
        }
        // The request is whoever's asked, where that has an id of its own.
        if let Some(invocation) = line.get("invocation").cloned() {
            line.entry("request").or_insert(invocation);
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        if metadata.target() == MEASURED {
            let measurement = fields.0.get("measurement").and_then(Value::as_str);
            let Some(measurement) = measurement.and_then(|text| serde_json::from_str::<Measurement>(text).ok()) else {
                return;
            };
            emf::write(&mut line, &measurement, &self.gate, (self.clock)());
        } else {
            line.insert("level".to_owned(), metadata.level().as_str().into());
            line.insert("target".to_owned(), metadata.target().into());
            line.extend(fields.0);
        }
        (self.write)(&Value::Object(line).to_string());
    }
}

/// The fields of a span or an event, as JSON.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use plangate_gate::measure::Metric;
    use plangate_record::watched::tell;
    use serde_json::json;

    use super::*;

    fn lines_of(act: impl FnOnce()) -> Vec<Value> {
        let kept: Arc<Mutex<Vec<Value>>> = Arc::default();
        let into = Arc::clone(&kept);
        let write = move |line: &str| into.lock().unwrap().push(serde_json::from_str(line).unwrap());
        let lines = Lines { gate: "gate".to_owned(), write, clock: || 7 };
        tracing::subscriber::with_default(subscriber(lines), act);
        Arc::try_unwrap(kept).unwrap().into_inner().unwrap()
    }

    fn span() -> tracing::Span {
        tracing::info_span!(
            "invocation",
            function = "intake",
            invocation = "i-1",
            request = tracing::field::Empty,
            run = tracing::field::Empty,
            workspace = tracing::field::Empty
        )
    }

    #[test]
    fn each_line_carries_what_the_call_is_about_from_when_that_is_known() {
        let lines = lines_of(|| {
            span().in_scope(|| {
                tracing::info!("before");
                tracing::Span::current().record("run", "run-1");
                tracing::warn!(error = %"no", count = 3, "after");
                // It looks at the next in line, and is still about the first.
                tracing::Span::current().record("run", "run-2");
                tracing::Span::current().record("request", "r-1");
                let of_one = tracing::info_span!("run", run = "run-3", workspace = tracing::field::Empty);
                of_one.in_scope(|| tracing::info!("within"));
                tracing::info!(run = "run-4", "told");
            });
            tracing::info!("outside");
        });
        let run = |line: &Value| line.get("run").and_then(Value::as_str).map(str::to_owned);
        assert_eq!(
            lines.iter().map(run).collect::<Vec<_>>(),
            [None, Some("run-1".to_owned()), Some("run-3".to_owned()), Some("run-4".to_owned()), None]
        );
        let target = "plangate_lambda::log::tests";
        let first = json!({ "function": "intake", "invocation": "i-1", "request": "i-1", "level": "INFO", "message": "before", "target": target });
        assert_eq!(lines[0], first);
        assert_eq!(
            (&lines[1]["error"], &lines[1]["count"], &lines[1]["level"]),
            (&json!("no"), &json!(3), &json!("WARN"))
        );
        assert_eq!((&lines[2]["request"], &lines[2]["function"]), (&json!("r-1"), &json!("intake")));
    }

    #[test]
    fn a_measurement_is_a_line_with_what_the_call_is_about() {
        let lines = lines_of(|| span().in_scope(|| tell(&Measurement::of(Metric::RunsReaped, 1.0))));
        assert_eq!(
            (&lines[0]["RunsReaped"], &lines[0]["function"], &lines[0]["Gate"]),
            (&json!(1.0), &json!("intake"), &json!("gate"))
        );
        assert_eq!(lines[0]["_aws"]["Timestamp"], 7);
        assert_eq!(lines.len(), 1);
    }

    #[test]
    fn what_libraries_say_beside_is_not_told() {
        let lines = lines_of(|| {
            let theirs = tracing::info_span!(target: "lambda_runtime", "invoke", requestId = "r");
            theirs.in_scope(|| tracing::debug!("too fine"));
            theirs.in_scope(|| tracing::info!("heard"));
        });
        assert_eq!(lines.len(), 1);
        assert!(lines[0].get("requestId").is_none());
    }
}
