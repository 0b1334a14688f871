//! An estate in another account (`R16`, `R18`): the engine acts there as a session of the estate's role of the same phase, which
//! this task's role assumes for it. The state's backend goes on under the task's own role.
//!
//! An AWS configuration file could have the engine assume the role by itself, and renew the session. But a configuration file
//! cannot give a session a source identity, and the estate's role asks for one: it is what names the run in everything that the
//! session does, and in every session that is made of it. So the runner assumes the role, once before the engine begins and once
//! before it plans or applies, and the engine finds the session in a file of its own.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use plangate_gate::failure::FailureReason;
use plangate_gate::identity::is_session_of;

use crate::cloud::Session;
use crate::environment::Invocation;
use crate::error::{Result, RunnerError};
use crate::folder::Folder;
use crate::phase::Phase;

/// How long a session of a role lives that another role has assumed: AWS gives no more.
pub const SESSION: Duration = Duration::from_secs(3600);

/// What is left between an engine's last moment and the end of its session.
const MARGIN: Duration = Duration::from_secs(60);

/// The profile under which the engine's backend is the task's own role.
pub(crate) const GATE_PROFILE: &str = "plangate-gate";

const CREDENTIALS: &str = "aws-credentials";
const CONFIGURATION: &str = "aws-config";

/// Where the engine finds its session, and how long it may use it.
#[derive(Debug, Clone)]
pub(crate) struct Entered {
    /// The AWS configuration file.
    pub(crate) configuration: PathBuf,
    /// The AWS credentials file.
    pub(crate) credentials: PathBuf,
    /// When the engine must have been told to stop, so that it ends within its session.
    pub(crate) until: Instant,
}

/// Assumes the estate's role of this phase, if the estate is in another account, and lays the session where the engine finds it.
/// Called again, it lays another in its place.
///
/// # Errors
/// `estate-unavailable` if the role cannot be assumed, or the session is another's.
pub(crate) fn enter(phase: &mut Phase<'_>, folder: &Folder) -> Result<Option<Entered>> {
    let Some(estate) = &phase.order.estate else { return Ok(None) };
    let role = estate.role(phase.order.phase);
    let began = Instant::now();
    let session = phase
        .cloud
        .assume(role, phase.order.workspace.as_str(), phase.order.run.as_str())
        .map_err(|error| error.because(FailureReason::EstateUnavailable))?;
    if !is_session_of(&session.caller, role) {
        let detail = format!("the session is of `{}`, and the estate's role is `{role}`", session.caller);
        return Err(RunnerError::failed(FailureReason::EstateUnavailable, detail));
    }
    phase.log.learn([&session.secret_access_key, &session.session_token])?;
    phase.log.text(&format!("plangate: in the estate as {}", session.caller));
    let credentials = folder.give_anew(CREDENTIALS, &credentials(&session, phase.invocation))?;
    let configuration = folder.give_anew(CONFIGURATION, &configuration(&phase.config.region))?;
    phase.evidence.estate_caller = Some(session.caller);
    let usable = SESSION.saturating_sub(MARGIN).saturating_sub(Duration::from_secs(phase.config.limits.grace_seconds));
    Ok(Some(Entered { configuration, credentials, until: began + usable }))
}

/// The credentials file: the estate's session by default, and for the backend the task's own session, where the task was given
/// one in variables. Where it asks the container's endpoint the backend does so too.
fn credentials(session: &Session, invocation: &Invocation) -> Vec<u8> {
    let of = |profile: &str, id: &str, secret: &str, token: &str| {
        format!(
            "[{profile}]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\naws_session_token = {token}\n"
        )
    };
    let (secret, token) = (session.secret_access_key.expose(), session.session_token.expose());
    let mut file = of("default", &session.access_key_id, secret, token);
    let own = |name: &str| invocation.credentials().get(name);
    if let (Some(id), Some(secret), Some(token)) =
        (own("AWS_ACCESS_KEY_ID"), own("AWS_SECRET_ACCESS_KEY"), own("AWS_SESSION_TOKEN"))
    {
        file.push_str(&of(GATE_PROFILE, id, secret, token));
    }
    file.into_bytes()
}

/// The configuration file: a profile is there if it says something.
fn configuration(region: &str) -> Vec<u8> {
    format!("[default]\nregion = {region}\n[profile {GATE_PROFILE}]\nregion = {region}\n").into_bytes()
}
