//! Whatever bytes come as a plan document: they are refused or projected and judged, the same every time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plangate_gate::document::PlanDocument;
use plangate_gate::guardrails::{GuardContext, Guardrails};
use plangate_gate::policy::Policy;
use plangate_gate::projection::{Projection, ProjectionView, Withhold};
use plangate_gate::render::{RenderStyle, text};

fuzz_target!(|bytes: &[u8]| {
    let document = PlanDocument::parse_untrusted(bytes);
    let projection = document.as_ref().ok().map(|document| Projection::of(document, &Withhold::nothing()));
    let outcome = Guardrails::evaluate(document.as_ref(), projection.as_ref(), &Policy::default(), &GuardContext::default());
    if let (Ok(document), Some(projection)) = (&document, &projection) {
        assert_eq!(projection.bytes(), Projection::of(document, &Withhold::nothing()).bytes(), "the same bytes");
        let view = ProjectionView::parse(projection.bytes()).expect("a projection reads back");
        assert!(text(&view, RenderStyle::Plain).chars().all(|c| c == '\n' || !c.is_control()), "inert");
    } else {
        assert!(!outcome.is_eligible(), "what cannot be read is not eligible");
    }
});
