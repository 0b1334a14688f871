//! The folder between a test and the processes: what is armed, what has happened.
//!
//! ```text
//! armed/<name>.json   a fault, see [`Fault`]; written by the test, under another name first
//! hits/<name>.<n>     the n-th time that it struck, made by whoever it strikes, before it does: the site and the process
//! open/<name>         lets a call go on that waits for it
//! sites/<process>.<pid>  every site that was passed, one a line: workspace or `-`, run or `-`, name
//! moved/<process>.<pid>  if the test has made `moved`: run or `-`, name, bytes sent and received, of every call that was answered
//! runs/<run>          the workspace of a run, noted from the first call that names both
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use serde::Deserialize;

/// What names the folder.
const VARIABLE: &str = "PLANGATE_TEST_FAULTS";

/// What befalls a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// The process dies, and the request is never sent.
    DieBefore,
    /// The request has its answer, and the process dies.
    DieAfter,
    /// The request is never sent: no connection.
    Fail,
    /// The request is carried out, and the answer is lost: a time-out.
    LoseAnswer,
    /// The service says that there are too many requests, and does nothing.
    Throttle,
    /// The request is sent twice; the second answer counts.
    Twice,
    /// Waits until the test lets it go on, then is sent.
    HoldBefore,
    /// Has its answer, then waits until the test lets it go on.
    HoldAfter,
}

/// A fault that is armed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// The workspace whose calls it befalls; all if there is none.
    workspace: Option<String>,
    /// The site's name; a `*` at its end stands for any rest.
    site: String,
    /// Which passage of the site within one invocation, from 1.
    #[serde(default = "first")]
    nth: u64,
    /// How often it strikes in all. The SDK makes a call again by itself: three times is a call that has failed.
    #[serde(default = "first")]
    times: u64,
    /// What it does.
    what: What,
}

const fn first() -> u64 {
    1
}

impl Fault {
    fn matches(&self, workspace: Option<&str>, site: &str, nth: u64) -> bool {
        let place = self.site.strip_suffix('*').map_or(self.site == site, |begin| site.starts_with(begin));
        let whose = self.workspace.as_deref().is_none_or(|wanted| workspace == Some(wanted));
        // What strikes more than once meets the tries that follow the first.
        place && whose && self.nth <= nth && nth < self.nth.saturating_add(self.times)
    }
}

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// The folder that the environment names, if a test has made it.
    pub(crate) fn from_environment() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os(VARIABLE)?);
        folder.join("armed").is_dir().then_some(Self(folder))
    }

    /// Notes that a site was passed.
    pub(crate) fn passed(&self, process: &str, workspace: Option<&str>, run: Option<&str>, site: &str) {
        let line = format!("{}\t{}\t{site}\n", workspace.unwrap_or("-"), run.unwrap_or("-"));
        self.append("sites", process, &line);
    }

    /// Whether somebody measures what is moved.
    pub(crate) fn measures(&self) -> bool {
        self.0.join("moved").is_dir()
    }

    /// Notes how many bytes the bodies of a call and its answer had.
    pub(crate) fn moved(&self, process: &str, run: Option<&str>, name: &str, sent: u64, received: u64) {
        let line = format!("{}\t{name}\t{sent}\t{received}\n", run.unwrap_or("-"));
        self.append("moved", process, &line);
    }

    fn append(&self, part: &str, process: &str, line: &str) {
        let path = self.0.join(part).join(format!("{process}.{}", std::process::id()));
        let _ = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes()));
    }

    /// Notes whose a run is.
    pub(crate) fn belongs(&self, run: &str, workspace: &str) {
        let path = self.0.join("runs").join(run);
        if !path.exists() {
            let fresh = self.0.join("runs").join(format!("{run}.{}", std::process::id()));
            let _ = fs::write(&fresh, workspace).and_then(|()| fs::rename(&fresh, path));
        }
    }

    /// Whose a run is, if a call has told.
    pub(crate) fn workspace_of(&self, run: &str) -> Option<String> {
        fs::read_to_string(self.0.join("runs").join(run)).ok()
    }

    /// The fault that strikes here and now, with its name. Who gets it has used it up by that.
    pub(crate) fn strikes(&self, workspace: Option<&str>, site: &str, nth: u64) -> Option<(String, What)> {
        let mut armed: Vec<_> = fs::read_dir(self.0.join("armed")).ok()?.flatten().map(|entry| entry.path()).collect();
        armed.sort();
        for path in armed.into_iter().filter(|path| path.extension().is_some_and(|end| end == "json")) {
            let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            let Ok(text) = fs::read(&path) else { continue };
            // A test that arms nonsense must learn of it: nothing would ever strike.
            let fault: Fault = match serde_json::from_slice(&text) {
                Ok(fault) => fault,
                Err(_) => continue,
            };
            if fault.matches(workspace, site, nth)
                && (1..=fault.times).any(|time| self.take(name, time, site).is_some())
            {
                return Some((name.to_owned(), fault.what));
            }
        }
        None
    }

    fn take(&self, name: &str, time: u64, site: &str) -> Option<()> {
        let path = self.0.join("hits").join(format!("{name}.{time}"));
        let mut file: File = OpenOptions::new().write(true).create_new(true).open(path).ok()?;
        file.write_all(format!("{site}\n{}\n", std::process::id()).as_bytes()).ok()
    }

    /// Whether the test lets through what waits.
    pub(crate) fn is_open(&self, name: &str) -> bool {
        self.0.join("open").join(name).exists()
    }
}
