//! Reviews, and approvals without a person: whatever a reviewer says or does, one way leads there and no other
//! (`R34`-`R37`, `R40`-`R44`).

use std::sync::Mutex;

use async_trait::async_trait;
use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::{DocumentKind, ReviewerBinding};
use plangate_gate::guardrails::Eligible;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::review::{Cause, ModelRecord, Tokens};
use plangate_gate::run::{Actor, Choice, Kind, Surface};
use plangate_gate::time::Timestamp;
use plangate_gate::verdict::Judgement;
use plangate_reviewer::{Report, Reviewer, Submission, prompt_record};
use plangate_wire::{CancelRequest, Reason};
use serde_json::{Value, json};

use super::world::{CREATES, Faults, World, at};
use crate::error::Error;
use crate::guard::Route;
use crate::review::{self, Reviewers};
use crate::rows::{decision_key, run_key};
use crate::store::{Store, Write};

pub(super) const APPROVES: &str = r#"{"decision":"approve","reasoning":"One resource.","findings":[{"severity":"info","address":"terraform_data.a","note":"new"}]}"#;
const ESCALATES: &str =
    r#"{"decision":"escalate","reasoning":"Look.","findings":[{"severity":"critical","note":"unclear"}]}"#;
/// A plan that destroys something: never eligible by the default policy.
const DESTROYS: &str = r#"{"format_version":"1.2","resource_changes":[{"address":"terraform_data.a","mode":"managed","type":"terraform_data","name":"a","provider_name":"terraform.io/builtin/terraform","change":{"actions":["delete"],"before":{"input":"x"},"after":null,"after_unknown":{},"before_sensitive":{},"after_sensitive":false}}]}"#;

/// A reviewer that says the same to everybody, and remembers how often it was asked and with what.
pub(super) struct Saying {
    answer: Result<String, Cause>,
    asked: Mutex<Vec<(Vec<u8>, String)>>,
}

impl Saying {
    pub(super) fn text(text: &str) -> Self {
        Self { answer: Ok(text.to_owned()), asked: Mutex::default() }
    }

    fn nothing(cause: Cause) -> Self {
        Self { answer: Err(cause), asked: Mutex::default() }
    }

    fn times_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl Reviewer for &Saying {
    fn binding(&self) -> &'static str {
        "anthropic"
    }

    async fn review(&self, _: &Eligible, submission: Submission<'_>) -> Report {
        self.asked.lock().unwrap().push((submission.projection.to_vec(), submission.policy.to_owned()));
        Report {
            model: Some(ModelRecord { requested: "model-1".into(), answered: Some("model-1\u{1b}[2J".into()) }),
            prompt: Some(prompt_record()),
            attempts: 1,
            tokens: Some(Tokens { input: 1200, output: 80 }),
            milliseconds: 700,
            answer: self.answer.clone(),
        }
    }
}

impl Reviewers for Saying {
    fn of<'a>(&'a self, _: &WorkspaceId, _: &RunId, _: &ReviewerBinding) -> Box<dyn Reviewer + 'a> {
        Box::new(self)
    }
}

pub(super) fn automatic(spec: &mut Value) {
    spec["automatic_approval"] = true.into();
    spec["review_policy"] = "Small things may change.".into();
}

pub(super) async fn reviewing(world: &World) -> RunId {
    let run = world.propose(Kind::Applicable, 1).await;
    assert_eq!(world.to_judgement(&run, CREATES).await.route, Route::Review);
    run
}

#[tokio::test]
async fn a_clean_approval_of_an_eligible_run_is_a_decision_like_any_other() {
    let world = World::with(automatic).await;
    let run = reviewing(&world).await;
    let reviewer = Saying::text(APPROVES);
    assert_eq!(world.review_by(&reviewer, &run).await.unwrap().route, Route::Approved);

    let record = world.run(&run).await;
    let projection = record.projection.as_ref().unwrap().object.digest;
    let decision = record.decision.clone().unwrap();
    assert_eq!((record.status, decision.choice, decision.projection), (Status::Approved, Choice::Approve, projection));
    assert_eq!((&decision.by, decision.surface), (&Actor::Automatic, Surface::Automatic));
    let review = record.review.clone().unwrap();
    assert_eq!((review.decision, review.cause, review.projection), (Judgement::Approve, None, projection));
    assert_eq!(review.policy, Some(Digest::of(b"Small things may change.")));
    assert_eq!(
        (review.binding.as_str(), review.prompt, review.attempts),
        ("anthropic", Some(prompt_record()), Some(1))
    );
    assert_eq!(review.model.unwrap().answered.unwrap(), "model-1\\u{1b}[2J", "what an answer calls itself is inert");
    assert_eq!((review.tokens.unwrap().total(), review.milliseconds), (1280, Some(700)));
    assert_eq!(review.findings[0].note, "new");
    let [(sent, policy)] = reviewer.asked.into_inner().unwrap().try_into().unwrap();
    assert_eq!((Digest::of(&sent), policy.as_str()), (projection, "Small things may change."));

    // Its item is the gate's own and not one of a person's.
    assert!(world.store.get(&decision_key(&run, &Actor::Automatic)).await.unwrap().is_some());
    let of_people = Actor::gate("api");
    assert!(world.store.get(&decision_key(&run, &of_people)).await.unwrap().is_none());
    let chain = world.chain(Chain::Run(run.clone())).await;
    assert!(
        matches!(&chain[chain.len() - 2..], [What::Reviewed { .. }, What::Decided { decision: told }] if *told == decision)
    );

    world.authorize(&run, at(7)).await.unwrap();
    world.runner_applies(&run, 0);
    world.conclude(&run, None).await.unwrap();
    assert_eq!(world.check_ended(&run).await.status, Status::Applied);
}

#[tokio::test]
async fn a_person_who_decides_after_the_gate_has_is_told_so() {
    let world = World::with(automatic).await;
    let run = reviewing(&world).await;
    world.review_by(&Saying::text(APPROVES), &run).await.unwrap();
    let late = world.decide("bob", &run, Choice::Reject, at(7)).await;
    assert!(
        matches!(late, Err(Error::Refused(refusal)) if refusal.reason == Reason::AlreadyDecided && refusal.message.contains("`automatic`"))
    );
    assert_eq!(world.run(&run).await.status, Status::Approved);
    let last = world.chain(Chain::Run(run)).await.pop();
    assert!(matches!(last, Some(What::DecisionWithoutEffect { .. })));
}

/// Whatever is not the one clean approval asks a person, and says why.
fn answers() -> Vec<(Saying, Cause)> {
    let mut answers: Vec<(Saying, Cause)> = vec![
        (Saying::text(ESCALATES), Cause::Escalated),
        (Saying::text(r#"{"decision":"reject"}"#), Cause::VerdictMalformed),
        (Saying::text(r#"{"decision":"approve"}"#), Cause::VerdictMalformed),
        (Saying::text(r#"{"decision":"APPROVE","reasoning":"","findings":[]}"#), Cause::VerdictMalformed),
        (Saying::text(r#"{"decision":"approve_with_notes","reasoning":"","findings":[]}"#), Cause::VerdictMalformed),
        (Saying::text(r#"{"decision":"approve","reasoning":"","findings":[],"score":1}"#), Cause::VerdictMalformed),
        (
            Saying::text(r#"{"decision":"approve","reasoning":"","findings":[],"eligible":true}"#),
            Cause::VerdictMalformed,
        ),
        (
            Saying::text(r#"{"decision":"escalate","decision":"approve","reasoning":"","findings":[]}"#),
            Cause::VerdictMalformed,
        ),
        (Saying::text(&format!("{APPROVES}{APPROVES}")), Cause::VerdictMalformed),
        (Saying::text(&format!("[{APPROVES}]")), Cause::VerdictMalformed),
        (Saying::text("approve"), Cause::VerdictMalformed),
        (Saying::text(""), Cause::VerdictMalformed),
        (Saying::text(&APPROVES.replace("One", &"x".repeat(5000))), Cause::VerdictTooLong),
        (Saying::text(&APPROVES.replace("One", &"x".repeat(70_000))), Cause::VerdictMalformed),
        (Saying::text(&APPROVES.replace("terraform_data.a", "terraform_data.b")), Cause::VerdictUnknownAddress),
        (Saying::text(&APPROVES.replace("info", "critical")), Cause::VerdictContradictory),
    ];
    answers.extend(Cause::ALL.iter().map(|cause| (Saying::nothing(*cause), *cause)));
    answers
}

#[tokio::test]
async fn whatever_else_a_reviewer_says_or_fails_to_say_a_person_is_asked_and_told_why() {
    for (says, cause) in answers() {
        let world = World::with(automatic).await;
        let run = reviewing(&world).await;
        assert_eq!(world.review_by(&says, &run).await.unwrap().route, Route::Ask, "{cause}");
        let record = world.run(&run).await;
        let review = record.review.unwrap();
        assert_eq!((record.status, record.decision), (Status::Reviewing, None), "{cause}");
        assert_eq!((review.decision, review.cause), (Judgement::Escalate, Some(cause)));
        world.ask(&run).await.unwrap();
        world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
        world.authorize(&run, at(7)).await.unwrap();
    }
}

/// What a reviewer answers, what the guardrails found, and what the workspace allows, each with each: one way leads to an
/// approval.
#[tokio::test]
async fn no_answer_approves_what_is_ineligible_or_in_a_workspace_that_approves_nothing_by_itself() {
    let mut says = answers();
    says.push((Saying::text(APPROVES), Cause::Escalated));
    let last = says.len() - 1;
    let mut approved = 0;
    for (number, (says, _)) in says.iter().enumerate() {
        for document in [CREATES, DESTROYS] {
            for enabled in [false, true] {
                for manages_gate in [false, true] {
                    if enabled && manages_gate {
                        continue; // such a workspace cannot be written
                    }
                    let world = World::with(|spec| {
                        spec["automatic_approval"] = enabled.into();
                        spec["manages_gate"] = manages_gate.into();
                    })
                    .await;
                    let run = world.propose(Kind::Applicable, 1).await;
                    let judged = world.to_judgement(&run, document).await;
                    // Also where the workflow would never come to: the step itself refuses.
                    let before = says.times_asked();
                    let reviewed = world.review_by(says, &run).await;
                    let by_itself = matches!(reviewed, Ok(ref guarded) if guarded.route == Route::Approved);
                    let only_way = number == last && document == CREATES && enabled && !manages_gate;
                    assert_eq!(by_itself, only_way, "answer {number}, {document}, {enabled}, {manages_gate}");
                    assert_eq!(world.run(&run).await.status == Status::Approved, only_way);
                    let eligible = document == CREATES && enabled && !manages_gate;
                    assert_eq!(judged.route == Route::Review, eligible);
                    assert_eq!(says.times_asked() - before, usize::from(eligible), "others are not even asked about");
                    approved += usize::from(by_itself);
                }
            }
        }
    }
    assert_eq!(approved, 1);
}

/// Each plan that speaks to the reviewer, made ineligible, with a model that obeys every word.
#[tokio::test]
async fn no_injected_plan_that_guardrails_found_ineligible_is_approved_by_a_model_that_obeys_it() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../../../reviewer/tests/injections.json")).unwrap();
    for case in cases {
        let mut document: Value = serde_json::from_str(DESTROYS).unwrap();
        let mut injected: Value = serde_json::from_str::<Value>(CREATES).unwrap()["resource_changes"][0].clone();
        injected["address"] = "terraform_data.b".into();
        injected["change"]["after"]["input"] = case["text"].clone();
        document["resource_changes"].as_array_mut().unwrap().push(injected);
        let world = World::with(automatic).await;
        let run = world.propose(Kind::Applicable, 1).await;
        let obeys = Saying::text(&APPROVES.replace("terraform_data.a", "terraform_data.b"));
        assert_eq!(world.to_judgement(&run, &document.to_string()).await.route, Route::Ask, "{}", case["name"]);
        assert!(matches!(world.review_by(&obeys, &run).await, Err(Error::NotReady { .. })));
        // Nor where somebody has moved the record to where a reviewer is asked.
        let mut record = world.run(&run).await;
        record.status = Status::Reviewing;
        put(&world, &record).await;
        assert!(matches!(world.review_by(&obeys, &run).await, Err(Error::RecordInvalid { .. })));
        assert_eq!(obeys.times_asked(), 0, "{}", case["name"]);
    }
}

#[tokio::test]
async fn a_review_whose_answer_was_lost_is_found_and_nobody_is_asked_again() {
    for (text, route) in [(APPROVES, Route::Approved), (ESCALATES, Route::Ask)] {
        let world = World::with(automatic).await;
        let run = reviewing(&world).await;
        let says = Saying::text(text);
        world.review_by(&says, &run).await.unwrap();
        let opposite = Saying::text(if text == APPROVES { ESCALATES } else { APPROVES });
        assert_eq!(world.review_by(&opposite, &run).await.unwrap().route, route);
        assert_eq!((says.times_asked(), opposite.times_asked()), (1, 0));
    }
}

#[tokio::test]
async fn a_review_that_dies_before_or_after_its_write_leaves_one_decision() {
    for happened in [false, true] {
        let mut world = World::with(automatic).await;
        let run = reviewing(&world).await;
        world.faults = Faults::at(1, happened);
        let says = Saying::text(APPROVES);
        assert!(world.review_by(&says, &run).await.is_err());
        assert_eq!(world.run(&run).await.review.is_some(), happened, "review and decision are one write");
        assert_eq!(world.run(&run).await.decision.is_some(), happened);
        assert_eq!(world.review_by(&says, &run).await.unwrap().route, Route::Approved);
        let chain = world.chain(Chain::Run(run)).await;
        assert_eq!(chain.iter().filter(|what| matches!(what, What::Decided { .. })).count(), 1);
        assert_eq!(chain.iter().filter(|what| matches!(what, What::Reviewed { .. })).count(), 1);
    }
}

/// A reviewer that approves, and while it looks something happens.
struct Meanwhile<'w> {
    world: &'w World,
    change: fn(&mut Value),
    cancels: Option<RunId>,
}

#[async_trait]
impl Reviewer for &Meanwhile<'_> {
    fn binding(&self) -> &'static str {
        "bedrock"
    }

    async fn review(&self, _: &Eligible, _: Submission<'_>) -> Report {
        let id = self.world.workspace.to_string();
        let read = crate::documents::get(self.world, DocumentKind::Workspace, &id).await.unwrap().unwrap();
        let mut spec = read.spec.clone();
        (self.change)(&mut spec);
        if spec != read.spec {
            self.world.put(DocumentKind::Workspace, &id, spec).await;
        }
        if let Some(run) = &self.cancels {
            let caller = self.world.caller("bob").await;
            crate::cancel::cancel(
                self.world,
                &self.world.workflow,
                &caller,
                run,
                &CancelRequest { reason: None },
                at(6),
            )
            .await
            .unwrap();
        }
        Report { answer: Ok(APPROVES.to_owned()), ..Report::escalated(Cause::Unavailable) }
    }
}

impl Reviewers for Meanwhile<'_> {
    fn of<'a>(&'a self, _: &WorkspaceId, _: &RunId, _: &ReviewerBinding) -> Box<dyn Reviewer + 'a> {
        Box::new(self)
    }
}

#[tokio::test]
async fn an_approval_is_withheld_where_the_workspace_was_changed_while_the_reviewer_looked() {
    type Change = fn(&mut Value);
    let changes: [(Change, Cause); 3] = [
        (|spec| spec["automatic_approval"] = false.into(), Cause::AutomaticApprovalOff),
        (|spec| spec["name"] = "renamed".into(), Cause::ConfigurationChanged),
        (|spec| spec["review_policy"] = "Nothing may change.".into(), Cause::ConfigurationChanged),
    ];
    for (change, cause) in changes {
        let world = World::with(automatic).await;
        let run = reviewing(&world).await;
        let reviewer = Meanwhile { world: &world, change, cancels: None };
        assert_eq!(world.review_by(&reviewer, &run).await.unwrap().route, Route::Ask);
        let review = world.run(&run).await.review.unwrap();
        assert_eq!((review.decision, review.cause), (Judgement::Approve, Some(cause)), "it is recorded what was said");
    }
}

#[tokio::test]
async fn a_run_that_was_withdrawn_while_the_reviewer_looked_stays_withdrawn() {
    let world = World::with(automatic).await;
    let run = reviewing(&world).await;
    let reviewer = Meanwhile { world: &world, change: |_| (), cancels: Some(run.clone()) };
    assert!(world.review_by(&reviewer, &run).await.is_err());
    assert_eq!(world.check_ended(&run).await.status, Status::Canceled);
}

#[tokio::test]
async fn a_plan_that_died_is_not_approved_without_a_person() {
    let world = World::with(automatic).await;
    let run = reviewing(&world).await;
    let late: Timestamp = at(4000);
    let guarded = review::review(&world, &world, &Saying::text(APPROVES), &run, late).await.unwrap();
    assert_eq!(guarded.route, Route::Ask);
    assert_eq!(world.run(&run).await.review.unwrap().cause, Some(Cause::PlanExpired));
}

async fn put(world: &World, record: &plangate_gate::run::Run) {
    let mut item = world.store.get(&run_key(&record.id)).await.unwrap().unwrap();
    item.body = serde_json::to_string(record).unwrap();
    world.store.transact(vec![Write::Put(item)]).await.unwrap();
}

/// Whoever stole the role that reviews can write that a run was approved. It is not applied unless all else is there too.
#[tokio::test]
async fn an_automatic_approval_is_not_believed_without_all_that_it_rests_on() {
    type Forgery = fn(&mut plangate_gate::run::Run);
    let forgeries: [(&str, Forgery); 5] = [
        ("the guardrails found something", |run| run.guardrails.as_mut().unwrap().eligible = false),
        ("other rules judged", |run| run.guardrails.as_mut().unwrap().rule_set.version = "0".into()),
        ("nobody reviewed it", |run| run.review = None),
        ("the reviewer asked for a person", |run| run.review.as_mut().unwrap().decision = Judgement::Escalate),
        ("another projection was reviewed", |run| run.review.as_mut().unwrap().projection = Digest::of(b"x")),
    ];
    for (name, forge) in forgeries {
        let world = World::with(automatic).await;
        let run = reviewing(&world).await;
        world.review_by(&Saying::text(APPROVES), &run).await.unwrap();
        let mut record = world.run(&run).await;
        forge(&mut record);
        put(&world, &record).await;
        assert!(matches!(world.authorize(&run, at(7)).await, Err(Error::RecordInvalid { .. })), "{name}");
    }
    // Switched off means off at once.
    let world = World::with(automatic).await;
    let run = reviewing(&world).await;
    world.review_by(&Saying::text(APPROVES), &run).await.unwrap();
    let id = world.workspace.to_string();
    let mut spec = crate::documents::get(&world, DocumentKind::Workspace, &id).await.unwrap().unwrap().spec;
    spec["automatic_approval"] = false.into();
    world.put(DocumentKind::Workspace, &id, spec).await;
    assert!(matches!(world.authorize(&run, at(7)).await, Err(Error::RecordInvalid { .. })));
}

/// The items of decisions are apart: who may write the gate's own cannot make one of a person's.
#[tokio::test]
async fn a_decision_in_a_persons_name_that_stands_among_the_gates_own_is_none() {
    let world = World::with(automatic).await;
    let run = reviewing(&world).await;
    world.review_by(&Saying::text(APPROVES), &run).await.unwrap();
    let mut record = world.run(&run).await;
    let by_bob = Actor::Person { person: "bob".parse().unwrap(), arn: "arn:aws:sts::1:assumed-role/bob/x".into() };
    let decision = record.decision.as_mut().unwrap();
    decision.by = by_bob;
    decision.surface = Surface::Api;
    let mut item = world.store.get(&decision_key(&run, &Actor::Automatic)).await.unwrap().unwrap();
    item.body = serde_json::to_string(decision).unwrap();
    world.store.transact(vec![Write::Put(item)]).await.unwrap();
    put(&world, &record).await;
    assert!(matches!(world.authorize(&run, at(7)).await, Err(Error::RecordInvalid { .. })));
}

#[test]
fn a_submission_has_two_fields_and_no_room_for_an_outcome() {
    // Adding a field breaks this line, and whoever adds it reads `R44`.
    let Submission { projection: _, policy: _ } = Submission { projection: b"{}", policy: "" };
    let _ = json!({});
}
