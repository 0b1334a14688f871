//! The stores that a function works on, made once a process. What a function's role may do of it is IAM's to say.

use aws_config::SdkConfig;
use plangate_gate::documents::LONGEST_PLAN_EXPIRY;
use plangate_gate::ids::WorkspaceId;
use plangate_record::aws::{
    self, AwsReviewers, CloudWatchLogs, DynamoStore, EcsTasks, EventBridge, KmsSigner, S3Objects, SsmParameters,
    StepFunctions,
};
use plangate_record::watched::Watched;

use crate::settings::{self, MissingSetting};

/// What most functions work on. What only a few do is made when they ask for it: who does not ask has not even its code.
#[derive(Debug)]
pub struct Clients {
    config: SdkConfig,
    /// The table and the audit table, watched.
    pub store: Watched<DynamoStore>,
    /// The exchange bucket.
    pub objects: S3Objects,
    /// The two state machines.
    pub workflow: StepFunctions,
    /// The runners' cluster.
    pub tasks: EcsTasks,
    /// The runners' logs.
    pub logs: CloudWatchLogs,
    /// The order key.
    pub signer: KmsSigner,
    /// The role that administers before there are principals.
    pub administrator: String,
    /// The longest that this gate lets a plan live, in seconds (`R13`).
    pub longest_plan_expiry: u32,
}

impl Clients {
    /// The stores that the environment names. `needs` are the settings that this function needs besides the tables and
    /// the bucket.
    ///
    /// # Errors
    /// One of them is not there.
    pub async fn from_environment(needs: &[&'static str]) -> Result<Self, MissingSetting> {
        for name in needs {
            settings::required(name)?;
        }
        let config = aws::configuration(&settings::named("AWS_LAMBDA_FUNCTION_NAME")).await;
        let tasks = EcsTasks::new(aws_sdk_ecs::Client::new(&config), settings::named("PLANGATE_CLUSTER"));
        let group = settings::named("PLANGATE_LOG_GROUP");
        Ok(Self {
            store: Watched::new(DynamoStore::new(
                aws_sdk_dynamodb::Client::new(&config),
                settings::required("PLANGATE_TABLE")?,
                settings::required("PLANGATE_AUDIT_TABLE")?,
            )),
            objects: S3Objects::new(aws_sdk_s3::Client::new(&config), settings::required("PLANGATE_BUCKET")?),
            workflow: StepFunctions::new(
                aws_sdk_sfn::Client::new(&config),
                settings::named("PLANGATE_MACHINE_PLAN_ONLY"),
                settings::named("PLANGATE_MACHINE_APPLICABLE"),
            ),
            logs: CloudWatchLogs::new(aws_sdk_cloudwatchlogs::Client::new(&config), tasks.clone(), group),
            tasks,
            signer: KmsSigner::new(aws_sdk_kms::Client::new(&config), settings::named("PLANGATE_ORDER_KEY")),
            administrator: settings::named("PLANGATE_ADMINISTRATOR"),
            longest_plan_expiry: settings::seconds("PLANGATE_LONGEST_PLAN_EXPIRY", LONGEST_PLAN_EXPIRY)?,
            config,
        })
    }

    /// The locked bucket of the audit.
    #[must_use]
    pub fn archive(&self) -> S3Objects {
        S3Objects::new(aws_sdk_s3::Client::new(&self.config), settings::named("PLANGATE_ARCHIVE"))
    }

    /// The event bus on which others are told of runs.
    #[must_use]
    pub fn bus(&self) -> EventBridge {
        EventBridge::new(aws_sdk_eventbridge::Client::new(&self.config), settings::named("PLANGATE_EVENT_BUS"))
    }

    /// Secrets of the gate's own.
    #[must_use]
    pub fn parameters(&self) -> SsmParameters {
        SsmParameters::new(aws_sdk_ssm::Client::new(&self.config))
    }

    /// The reviewers that workspaces name.
    #[must_use]
    pub fn reviewers(&self) -> AwsReviewers {
        let bedrock = aws_sdk_bedrockruntime::Client::new(&self.config);
        AwsReviewers::new(bedrock, aws_sdk_lambda::Client::new(&self.config), random)
    }
}

/// Draws 16 random bytes from the system; none where it has none to give.
#[must_use]
pub fn random() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok().map(|()| bytes)
}

/// What a workspace's own review function works on. It knows nothing of the control plane's tables.
#[derive(Debug)]
pub struct WorkspaceClients {
    /// The exchange bucket.
    pub objects: S3Objects,
    /// The keys of models.
    pub parameters: SsmParameters,
    /// The workspace whose function this is.
    pub workspace: WorkspaceId,
}

impl WorkspaceClients {
    /// What the environment names.
    ///
    /// # Errors
    /// Something is not there, or the workspace is none.
    pub(crate) async fn from_environment() -> Result<Self, lambda_runtime::Error> {
        let workspace = settings::required("PLANGATE_WORKSPACE")?.parse()?;
        let bucket = settings::required("PLANGATE_BUCKET")?;
        let config = aws::configuration(&settings::named("AWS_LAMBDA_FUNCTION_NAME")).await;
        Ok(Self {
            objects: S3Objects::new(aws_sdk_s3::Client::new(&config), bucket),
            parameters: SsmParameters::new(aws_sdk_ssm::Client::new(&config)),
            workspace,
        })
    }
}
