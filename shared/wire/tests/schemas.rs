//! The published schemas (`docs/schemas`) know the fields and the words that the code has, and no other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails in the shortest way"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use plangate_gate::announce::Announcement;
use plangate_gate::audit::archive::{Tampering, TamperingKind};
use plangate_gate::audit::history::{ArchivedEvent, TableEvent};
use plangate_gate::audit::witness::{Witness, WitnessedHead};
use plangate_gate::audit::{AuditEvent, GuardrailWord, What};
use plangate_gate::documents::{
    Action, Budgets, DocumentKind, Engine, EngineName, Estate, GrantSpec, IamMatch, PrincipalSpec, Reference,
    ReviewerBinding, SecretReference, SlackChannel, SlackMatch, Withheld, WorkspaceSpec,
};
use plangate_gate::drift::{Drift, DriftWord, Failing, Finding, LastLook};
use plangate_gate::failure::FailureReason;
use plangate_gate::freeze::{Frozen, GateFreeze};
use plangate_gate::guardrails::Reason as FindingReason;
use plangate_gate::known::{Compared, Known, Outside, Sighting};
use plangate_gate::lifecycle::Status;
use plangate_gate::lock::{Lock, LockState};
use plangate_gate::order::{ApprovedPlan, Phase, Roles, Sealed, Signature, Signatures, StoredObject, WorkOrder};
use plangate_gate::policy::{MaxChanges, OwnRules, Policy, Protect};
use plangate_gate::receipt::{
    Applied, ApplyResult, Claim, ClaimHolder, Isolation, OrphanedLock, PhaseFailure, Planned, Receipt,
    StateLockEvidence,
};
use plangate_gate::review::{Cause, ModelRecord, PromptRecord, Tokens};
use plangate_gate::run::{
    Actor, ApplyRecord, CancelRecord, ChainHead, Choice, Counts, DecisionRecord, FindingRecord, GuardrailRecord, Kind,
    Origin, PinnedWorkspace, PlanRecord, ProjectionRecord, Proposer, ReviewRecord, RuleSetRecord, Run, Surface,
};
use plangate_gate::state::StateIdentity;
use plangate_gate::verdict::{Judgement, Remark, Severity};
use plangate_wire::{
    AcknowledgeRequest, AnnotateRequest, AnnotationAnswer, AnnotationView, ApiError, ApiErrorBody, AuditAnswer,
    BundleAnswer, BundleRequest, CancelRequest, DecisionAnswer, DecisionRequest, Document, DocumentAnswer, DocumentPut,
    DocumentsAnswer, DriftView, EventView, Evidence, FreezeRequest, FreezeScope, FreezeView, GateAnswer, KnownView,
    LockView, LogAnswer, OutsideView, ProjectionAnswer, ProposeRequest, Reason, RunAnswer, RunsAnswer, Step,
};
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Value, json};

/// A source of no data: whoever reads from it is asked what he would read.
struct Probe;

/// What he would read.
#[derive(Debug)]
enum Asked {
    /// The fields of a structure.
    Fields(&'static [&'static str]),
    /// The words of an enumeration.
    Words(&'static [&'static str]),
    /// Something else.
    Other,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Asked {}

impl serde::de::Error for Asked {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Other
    }
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Asked;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        Err(Asked::Other)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked::Fields(fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked::Words(variants))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

fn fields<T: DeserializeOwned>() -> BTreeSet<String> {
    match T::deserialize(Probe).err() {
        Some(Asked::Fields(names)) => names.iter().map(|&name| name.to_owned()).collect(),
        other => panic!("{} is no structure: {other:?}", std::any::type_name::<T>()),
    }
}

fn words<T: DeserializeOwned>() -> BTreeSet<String> {
    match T::deserialize(Probe).err() {
        Some(Asked::Words(names)) => names.iter().map(|&name| name.to_owned()).collect(),
        other => panic!("{} is no enumeration: {other:?}", std::any::type_name::<T>()),
    }
}

/// What a reader says it expected, as it refuses: the names in backticks after `expected`.
fn expected<T: DeserializeOwned>(value: Value) -> (String, BTreeSet<String>) {
    let said = serde_json::from_value::<T>(value).err().expect("this is refused").to_string();
    let (what, expected) = said.split_once(", ").unwrap_or((&said, ""));
    (what.to_owned(), expected.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Whether a reader of `T` refuses a field that it does not know.
fn strict<T: DeserializeOwned>() -> bool {
    let document = json!({ "?": 0 });
    serde_json::from_value::<T>(document.clone()).is_err() && expected::<T>(document).0.starts_with("unknown field")
}

/// A part of a published document: `run.v1.json#/$defs/plan`.
fn published(place: &str) -> Value {
    let (file, pointer) = place.split_once('#').unwrap_or((place, ""));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let document: Value = serde_json::from_str(&text).unwrap();
    document.pointer(pointer).unwrap_or_else(|| panic!("{place} is not there")).clone()
}

fn keys(object: &Value) -> BTreeSet<String> {
    object.as_object().into_iter().flat_map(|object| object.keys().cloned()).collect()
}

fn listed(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Whether a schema of a structure allows no other fields.
fn closed(schema: &Value) -> bool {
    schema["additionalProperties"] == false || schema["unevaluatedProperties"] == false
}

const HOW: &str = "add it to the schema, as docs/schemas/README.md tells";

type Structure = (&'static str, BTreeSet<String>, bool);

macro_rules! structures {
    ($($place:literal => $kind:ty,)*) => {
        vec![$(($place, fields::<$kind>(), strict::<$kind>())),*]
    };
}

/// Every structure that has a place in a schema.
fn structures() -> Vec<Structure> {
    structures! {
        "../openapi.json#/components/schemas/AcknowledgeRequest" => AcknowledgeRequest,
        "../openapi.json#/components/schemas/AnnotateRequest" => AnnotateRequest,
        "../openapi.json#/components/schemas/Annotation" => AnnotationView,
        "../openapi.json#/components/schemas/AnnotationAnswer" => AnnotationAnswer,
        "../openapi.json#/components/schemas/AuditAnswer" => AuditAnswer,
        "../openapi.json#/components/schemas/AuditAnswer/properties/events/items" => EventView,
        "../openapi.json#/components/schemas/BundleAnswer" => BundleAnswer,
        "../openapi.json#/components/schemas/BundleRequest" => BundleRequest,
        "../openapi.json#/components/schemas/CancelRequest" => CancelRequest,
        "../openapi.json#/components/schemas/DecisionAnswer" => DecisionAnswer,
        "../openapi.json#/components/schemas/DecisionRequest" => DecisionRequest,
        "../openapi.json#/components/schemas/Drift" => DriftView,
        "../openapi.json#/components/schemas/Evidence" => Evidence,
        "../openapi.json#/components/schemas/Freeze" => FreezeView,
        "../openapi.json#/components/schemas/FreezeRequest" => FreezeRequest,
        "../openapi.json#/components/schemas/GateAnswer" => GateAnswer,
        "../openapi.json#/components/schemas/GrantPut" => DocumentPut,
        "../openapi.json#/components/schemas/Known" => KnownView,
        "../openapi.json#/components/schemas/Lock" => LockView,
        "../openapi.json#/components/schemas/LogAnswer" => LogAnswer,
        "../openapi.json#/components/schemas/Outside" => OutsideView,
        "../openapi.json#/components/schemas/PoliciesAnswer" => DocumentsAnswer,
        "../openapi.json#/components/schemas/PolicyPut" => DocumentPut,
        "../openapi.json#/components/schemas/PrincipalPut" => DocumentPut,
        "../openapi.json#/components/schemas/ProjectionAnswer" => ProjectionAnswer,
        "../openapi.json#/components/schemas/ProposeRequest" => ProposeRequest,
        "../openapi.json#/components/schemas/Refusal" => ApiError,
        "../openapi.json#/components/schemas/Refusal/properties/error" => ApiErrorBody,
        "../openapi.json#/components/schemas/RunAnswer" => RunAnswer,
        "../openapi.json#/components/schemas/RunsAnswer" => RunsAnswer,
        "../openapi.json#/components/schemas/Step" => Step,
        "../openapi.json#/components/schemas/Workspace" => Document,
        "../openapi.json#/components/schemas/WorkspaceAnswer" => DocumentAnswer,
        "../openapi.json#/components/schemas/WorkspacePut" => DocumentPut,
        "../openapi.json#/components/schemas/WorkspacesAnswer" => DocumentsAnswer,
        "audit-event.v1.json" => AuditEvent,
        "audit-export.v1.json#/$defs/archive" => ArchivedEvent,
        "audit-export.v1.json#/$defs/table" => TableEvent,
        "claim.v1.json" => Claim,
        "common.v1.json#/$defs/chain_head" => ChainHead,
        "common.v1.json#/$defs/counts" => Counts,
        "common.v1.json#/$defs/engine" => Engine,
        "common.v1.json#/$defs/estate" => Estate,
        "common.v1.json#/$defs/frozen" => Frozen,
        "common.v1.json#/$defs/phase_failure" => PhaseFailure,
        "common.v1.json#/$defs/proposer" => Proposer,
        "common.v1.json#/$defs/roles" => Roles,
        "common.v1.json#/$defs/secret_reference" => SecretReference,
        "common.v1.json#/$defs/sighting" => Sighting,
        "common.v1.json#/$defs/state_location" => Reference,
        "common.v1.json#/$defs/state_lock" => StateLockEvidence,
        "common.v1.json#/$defs/state_lock/properties/orphan" => OrphanedLock,
        "common.v1.json#/$defs/stored_object" => StoredObject,
        "common.v1.json#/$defs/withheld" => Withheld,
        "drift.v1.json" => Drift,
        "drift.v1.json#/$defs/finding" => Finding,
        "drift.v1.json#/$defs/look" => LastLook,
        "drift.v1.json#/properties/failing" => Failing,
        "freeze.v1.json" => GateFreeze,
        "grant.v1.json" => GrantSpec,
        "known.v1.json" => Known,
        "known.v1.json#/$defs/outside" => Outside,
        "lock.v1.json" => Lock,
        "policy.v1.json" => Policy,
        "policy.v1.json#/properties/max_changes" => MaxChanges,
        "policy.v1.json#/properties/own_rules" => OwnRules,
        "policy.v1.json#/properties/protect/items" => Protect,
        "policy.v1.json#/properties/withhold/items" => Withheld,
        "principal.v1.json" => PrincipalSpec,
        "principal.v1.json#/properties/iam/items" => IamMatch,
        "principal.v1.json#/properties/slack/items" => SlackMatch,
        "receipt.v1.json" => Receipt,
        "receipt.v1.json#/$defs/applied" => Applied,
        "receipt.v1.json#/properties/planned" => Planned,
        "result.v1.json" => ApplyResult,
        "run-status.v1.json" => Announcement,
        "run.v1.json#/$defs/apply" => ApplyRecord,
        "run.v1.json#/$defs/cancel" => CancelRecord,
        "run.v1.json#/$defs/decision" => DecisionRecord,
        "run.v1.json#/$defs/finding" => FindingRecord,
        "run.v1.json#/$defs/guardrails" => GuardrailRecord,
        "run.v1.json#/$defs/pinned" => PinnedWorkspace,
        "run.v1.json#/$defs/plan" => PlanRecord,
        "run.v1.json#/$defs/projection" => ProjectionRecord,
        "run.v1.json#/$defs/review" => ReviewRecord,
        "run.v1.json#/$defs/review/properties/findings/items" => Remark,
        "run.v1.json#/$defs/review/properties/model" => ModelRecord,
        "run.v1.json#/$defs/review/properties/prompt" => PromptRecord,
        "run.v1.json#/$defs/review/properties/tokens" => Tokens,
        "run.v1.json#/$defs/rule_set" => RuleSetRecord,
        "signatures.v1.json" => Signatures,
        "signatures.v1.json#/properties/signatures/items" => Signature,
        "tampering.v1.json" => Tampering,
        "verdict.v1.json#/properties/findings/items" => Remark,
        "witness.v1.json" => Witness,
        "witness.v1.json#/properties/heads/items" => WitnessedHead,
        "work-order.v1.json" => WorkOrder,
        "work-order.v1.json#/properties/approved" => ApprovedPlan,
        "work-order.v1.json#/properties/sealed" => Sealed,
        "workspace.v1.json" => WorkspaceSpec,
        "workspace.v1.json#/$defs/budgets" => Budgets,
        "workspace.v1.json#/properties/engine" => Engine,
        "workspace.v1.json#/properties/estate/anyOf/0" => Estate,
        "workspace.v1.json#/properties/secrets/items" => SecretReference,
        "workspace.v1.json#/properties/slack/anyOf/0" => SlackChannel,
        "workspace.v1.json#/properties/state" => Reference,
    }
}

#[test]
fn each_structure_is_published_with_the_fields_that_it_has() {
    for (place, fields, strict) in structures() {
        let schema = published(place);
        assert_eq!(keys(&schema["properties"]), fields, "{place}: {HOW}");
        assert_eq!(closed(&schema), strict, "{place}: closed where unknown fields are refused, and only there");
    }
    // A run's fields stand apart, since an answer of the API has more beside them.
    assert_eq!(keys(&published("run.v1.json#/$defs/fields")["properties"]), fields::<Run>(), "a run: {HOW}");
    assert!(closed(&published("run.v1.json")) && strict::<Run>());
}

/// A list of alternatives, each told by the word in `tag`: the words that the reader of `T` knows, and each one's fields.
fn alternatives<T: DeserializeOwned>(place: &str, tag: &str) {
    let known: BTreeMap<String, Value> = published(place)["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| (each["properties"][tag]["const"].as_str().unwrap().to_owned(), each.clone()))
        .collect();
    let (_, words) = expected::<T>(json!({ tag: "?" }));
    assert_eq!(known.keys().cloned().collect::<BTreeSet<_>>(), words, "{place}: {HOW}");
    for (word, schema) in known {
        assert!(closed(&schema), "{place}, {word}");
        let mut fields = keys(&schema["properties"]);
        fields.remove(tag);
        let (_, read) = expected::<T>(json!({ tag: word, "?": 0 }));
        assert_eq!(fields, read, "{place}, {word}: {HOW}");
    }
}

#[test]
fn each_type_of_event_is_published_with_its_fields() {
    alternatives::<What>("audit-event.v1.json#/$defs/what", "type");
}

#[test]
fn other_alternatives_are_published_with_their_fields() {
    alternatives::<Actor>("common.v1.json#/$defs/actor", "kind");
    alternatives::<StateIdentity>("common.v1.json#/$defs/state_identity", "state");
    alternatives::<LockState>("lock.v1.json#/properties/lock", "state");
    alternatives::<Compared>("run.v1.json#/$defs/compared", "word");
    alternatives::<DriftWord>("run.v1.json#/$defs/drift", "word");
    alternatives::<ReviewerBinding>("workspace.v1.json#/$defs/reviewer", "binding");
}

#[test]
fn each_closed_list_is_published_whole() {
    let common = |name: &str| format!("common.v1.json#/$defs/{name}/enum");
    let codes = |codes: Vec<&str>| codes.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    let lists = [
        (common("action"), words::<Action>()),
        (common("choice"), words::<Choice>()),
        (common("document_kind"), words::<DocumentKind>()),
        (common("failure_reason"), words::<FailureReason>()),
        (common("finding_reason"), codes(FindingReason::ALL.iter().map(|reason| reason.code()).collect())),
        (common("isolation"), words::<Isolation>()),
        (common("kind"), words::<Kind>()),
        (common("origin"), words::<Origin>()),
        (common("phase"), words::<Phase>()),
        (common("refusal_reason"), words::<Reason>()),
        (common("review_cause"), words::<Cause>()),
        (common("status"), words::<Status>()),
        (common("surface"), words::<Surface>()),
        ("../openapi.json#/components/schemas/Freeze/properties/scope/enum".to_owned(), words::<FreezeScope>()),
        ("claim.v1.json#/properties/holder/enum".to_owned(), words::<ClaimHolder>()),
        ("common.v1.json#/$defs/engine/properties/name/enum".to_owned(), words::<EngineName>()),
        ("run.v1.json#/$defs/review/properties/decision/enum".to_owned(), words::<Judgement>()),
        (
            "run.v1.json#/$defs/review/properties/findings/items/properties/severity/enum".to_owned(),
            words::<Severity>(),
        ),
        ("tampering.v1.json#/$defs/kind/enum".to_owned(), words::<TamperingKind>()),
        ("workspace.v1.json#/properties/engine/properties/name/enum".to_owned(), words::<EngineName>()),
    ];
    for (place, words) in lists {
        assert_eq!(listed(&published(&place)), words, "{place}: {HOW}");
    }
    let ended = published("audit-event.v1.json#/$defs/what/oneOf");
    let ended = ended.as_array().unwrap().iter().find(|each| each["properties"]["type"]["const"] == "run-ended");
    assert_eq!(listed(&ended.unwrap()["properties"]["guardrails"]["enum"]), words::<GuardrailWord>());
}

/// The places in a schema at which a structure stands.
fn places(at: &str, schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") && closed(schema) {
                found.insert(at.to_owned());
            }
            for (name, inner) in fields {
                places(&format!("{at}/{name}"), inner, found);
            }
        }
        Value::Array(items) => {
            for (place, inner) in items.iter().enumerate() {
                places(&format!("{at}/{place}"), inner, found);
            }
        }
        _ => {}
    }
}

#[test]
fn no_published_structure_is_without_one_in_the_code() {
    // Read by hand, in `projection/view.rs` and `verdict.rs`; or private to the command line, in `cli/src/auditor/folder.rs`.
    const ELSEWHERE: &[&str] =
        &["projection.v1.json", "verdict.v1.json", "audit-export.v1.json", "audit-report.v1.json"];
    let known: BTreeSet<String> = structures().into_iter().map(|(place, ..)| place.to_owned()).collect();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".json") || ELSEWHERE.contains(&name.as_str()) {
            continue;
        }
        let mut found = BTreeSet::new();
        places("", &published(&name), &mut found);
        for place in found {
            let whole = if place.is_empty() { name.clone() } else { format!("{name}#{place}") };
            let alternative = place.rsplit('/').nth(1) == Some("oneOf");
            assert!(alternative || known.contains(&whole), "{whole} is held against nothing: add it to `structures`");
        }
    }
}
