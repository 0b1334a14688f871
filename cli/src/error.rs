//! What can go wrong on this side, and how each of it is told.

use std::io;

use plangate_bundle::BundleError;
use plangate_gate::audit::ChainError;
use plangate_gate::digest::Digest;
use plangate_wire::{ApiErrorBody, Reason};

use crate::exit::Exit;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The gate refused; its message says what to do next.
    #[error("{}", refusal(.0))]
    Refused(Box<ApiErrorBody>),
    /// Something in front of the gate refused: no such permission, a bad signature.
    #[error("the request was refused with status {status}{}; {next}", said(.message))]
    Turned {
        /// The HTTP status.
        status: u16,
        /// What it said, made inert.
        message: String,
        /// What to do next.
        next: &'static str,
    },
    /// An answer that is none of the API's.
    #[error(
        "`{place}` gave an answer that is not the gate's ({detail}); check PLANGATE_API and this program's version"
    )]
    NotTheGate {
        /// Which address.
        place: String,
        /// What was wrong, without content.
        detail: String,
    },
    /// No answer, and nothing was changed by asking.
    #[error("`{place}` does not answer: {detail}; check the network and PLANGATE_API, and try again")]
    NoAnswer {
        /// Which address.
        place: String,
        /// How it failed.
        detail: String,
    },
    /// A store of the audit does not answer, or refuses.
    #[error("`{place}` cannot be read: {detail}; check its name, the region and your credentials (role of an auditor)")]
    Store {
        /// Which table or bucket.
        place: String,
        /// How it failed.
        detail: String,
    },
    /// The answer was lost, and what was asked may have been done.
    #[error("the answer was lost ({detail}), so it is not known whether this took effect; look before you repeat it")]
    AnswerLost {
        /// How it failed.
        detail: String,
    },
    /// No credentials.
    #[error("no AWS credentials: {detail}; set AWS_PROFILE or the AWS_* variables, or run `aws sso login`")]
    Credentials {
        /// Which part of the chain failed, without content.
        detail: String,
    },
    /// No region.
    #[error("no AWS region: set AWS_REGION, or a region in the profile")]
    NoRegion,
    /// A request cannot be signed.
    #[error("the request cannot be signed: {0}")]
    Signing(String),
    /// A folder that cannot become a bundle.
    #[error("{}", told(.0))]
    Bundle(#[from] BundleError),
    /// A bundle was not taken by the store.
    #[error("the upload was refused with status {status}{}; propose again", said(.message))]
    Upload {
        /// The HTTP status.
        status: u16,
        /// The store's code, made inert.
        message: String,
    },
    /// Bytes that are not those of the digest that came with them.
    #[error(
        "the {what} is not what its digest says: {found} where {expected} was named; do not decide on it, and tell the gate's operators"
    )]
    DigestMismatch {
        /// What it was.
        what: &'static str,
        /// What was named.
        expected: Digest,
        /// What the bytes have.
        found: Digest,
    },
    /// A projection that cannot be read.
    #[error("the projection cannot be read: {0}; tell the gate's operators")]
    Projection(String),
    /// The audit chain does not hold.
    #[error("the audit chain is broken: {0}; tell the gate's operators")]
    Chain(#[from] ChainError),
    /// The audit chain holds and does not go as far as the run's record.
    #[error(
        "the audit chain is broken: the run's record says `{status}`, and no event does; tell the gate's operators"
    )]
    ChainCut {
        /// What the record says.
        status: plangate_gate::lifecycle::Status,
    },
    /// A file of the person's own that does not say what it should.
    #[error("`{path}`: {detail}")]
    File {
        /// Which file.
        path: String,
        /// What is wrong.
        detail: String,
    },
    /// A file cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// Which.
        path: String,
        /// How it failed.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{path}`: {source}")]
    Write {
        /// Which.
        path: String,
        /// How it failed.
        source: io::Error,
    },
    /// Standard output is gone.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// Something of the machine failed: randomness, a runtime.
    #[error("{0}")]
    Machine(String),
}

fn refusal(body: &ApiErrorBody) -> String {
    let message = crate::text::inert(&body.message);
    let next = body.reason.next_step();
    // The gate says what to do next; should an older one not, this program knows.
    if message.contains(next) {
        format!("{message} ({})", body.reason)
    } else {
        format!("{message}; {next} ({})", body.reason)
    }
}

fn told(error: &BundleError) -> String {
    format!("{error} ({})", error.reason())
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(" (`{message}`)") }
}

impl CliError {
    /// A file that cannot be read.
    pub(crate) fn read(path: impl Into<String>, source: io::Error) -> Self {
        Self::Read { path: path.into(), source }
    }

    /// How the command ends with this error.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Refused(body) if body.reason.status() < 500 => Exit::Refused,
            Self::Turned { status: 400..500, .. } | Self::DigestMismatch { .. } | Self::Bundle(_) => Exit::Refused,
            _ => Exit::Error,
        }
    }

    /// The stable reason for machines: the gate's, the bundle's, or the kind of error.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::Refused(body) => body.reason.code(),
            Self::Turned { .. } => "request-refused",
            Self::NotTheGate { .. } => "answer-not-understood",
            Self::NoAnswer { .. } | Self::Store { .. } => "no-answer",
            Self::AnswerLost { .. } => "answer-lost",
            Self::Credentials { .. } | Self::NoRegion | Self::Signing(_) => "credentials",
            Self::Bundle(error) => error.reason(),
            Self::Upload { .. } => "upload-refused",
            Self::DigestMismatch { .. } => "digest-mismatch",
            Self::Projection(_) => "projection-unreadable",
            Self::Chain(_) | Self::ChainCut { .. } => "audit-chain-broken",
            Self::File { .. } => "file-invalid",
            Self::Read { .. } | Self::Write { .. } | Self::Output(_) => "input-output",
            Self::Machine(_) => "machine",
        }
    }

    /// Whether the gate refused for that reason.
    pub(crate) fn is(&self, reason: Reason) -> bool {
        matches!(self, Self::Refused(body) if body.reason == reason)
    }

    /// Whether whoever reads standard output has left: nothing to say to anybody.
    pub(crate) fn reader_left(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do_next_once() {
        let body = |message: &str| {
            Box::new(ApiErrorBody {
                reason: Reason::DistinctApproverRequired,
                message: message.to_owned(),
                details: serde_json::Value::Null,
            })
        };
        assert_eq!(
            CliError::Refused(body("ana proposed this run")).to_string(),
            "ana proposed this run; ask another person who may approve (distinct-approver-required)"
        );
        assert_eq!(
            CliError::Refused(body("no: ask another person who may approve")).to_string(),
            "no: ask another person who may approve (distinct-approver-required)"
        );
        assert_eq!(CliError::Refused(body("x")).exit(), Exit::Refused);
    }

    #[test]
    fn what_the_gate_cannot_do_now_is_an_error_and_no_refusal() {
        let body = ApiErrorBody { reason: Reason::Unavailable, message: "x".into(), details: serde_json::Value::Null };
        assert_eq!(CliError::Refused(Box::new(body)).exit(), Exit::Error);
    }
}
