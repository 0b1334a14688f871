//! The stores that a function works on, made once a process. What a function's role may do of it is IAM's to say.

use plangate_record::aws::{
    self, CloudWatchLogs, DynamoStore, EcsTasks, KmsSigner, S3Objects, SsmParameters, StepFunctions,
};

use crate::settings::{self, MissingSetting};

/// All stores. A client costs nothing until it is used.
#[derive(Debug)]
pub struct Clients {
    /// The table and the audit table.
    pub store: DynamoStore,
    /// The exchange bucket.
    pub objects: S3Objects,
    /// The locked bucket of the audit.
    pub archive: S3Objects,
    /// The two state machines.
    pub workflow: StepFunctions,
    /// The runners' cluster.
    pub tasks: EcsTasks,
    /// The runners' logs.
    pub logs: CloudWatchLogs,
    /// The order key.
    pub signer: KmsSigner,
    /// Secrets of the gate's own.
    pub parameters: SsmParameters,
    /// The role that administers before there are principals.
    pub administrator: String,
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
            store: DynamoStore::new(
                aws_sdk_dynamodb::Client::new(&config),
                settings::required("PLANGATE_TABLE")?,
                settings::required("PLANGATE_AUDIT_TABLE")?,
            ),
            objects: S3Objects::new(aws_sdk_s3::Client::new(&config), settings::required("PLANGATE_BUCKET")?),
            archive: S3Objects::new(aws_sdk_s3::Client::new(&config), settings::named("PLANGATE_ARCHIVE")),
            workflow: StepFunctions::new(
                aws_sdk_sfn::Client::new(&config),
                settings::named("PLANGATE_MACHINE_PLAN_ONLY"),
                settings::named("PLANGATE_MACHINE_APPLICABLE"),
            ),
            logs: CloudWatchLogs::new(aws_sdk_cloudwatchlogs::Client::new(&config), tasks.clone(), group),
            tasks,
            signer: KmsSigner::new(aws_sdk_kms::Client::new(&config), settings::named("PLANGATE_ORDER_KEY")),
            parameters: SsmParameters::new(aws_sdk_ssm::Client::new(&config)),
            administrator: settings::named("PLANGATE_ADMINISTRATOR"),
        })
    }
}
