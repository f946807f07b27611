//! AWS clients of a deployed function, created once at its start.

use std::collections::BTreeMap;

use annals_aws::SdkConfig;
use annals_aws::bucket::Bucket;
use annals_core::agents::profile;
use annals_core::settings::{ConfigError, Env};
use annals_engine::profiles::{AGENTS_FOLDER, AgentsFolder, Profiles, ProfilesSetting};
use annals_engine::settings::{ToolsConfig, ToolsSetting};
use annals_io::clock::Clock;
use annals_io::environment::process_env;
use annals_store::history::History;
use annals_store::settings::StoreConfig;

use crate::secrets::Settings;

/// Reads the settings of the process: its environment, and the secrets that it names.
pub async fn settings(aws: &SdkConfig) -> Result<Settings, ConfigError> {
    Settings::read(process_env, aws).await
}

/// Returns the histories in a deployed table and bucket.
pub fn history(aws: &SdkConfig, store: StoreConfig, clock: Clock) -> History {
    let (dynamodb, bucket) = (aws_sdk_dynamodb::Client::new(aws), Bucket::new(aws, &store.bucket));
    History::new(dynamodb, store.table, bucket, clock, store.retention)
}

/// Returns the outside tools: the document of `setting`, read from S3 if the setting names an object there.
pub async fn tools(
    aws: &SdkConfig,
    setting: Option<ToolsSetting>,
    env: Env<'_>,
) -> Result<Option<ToolsConfig>, ConfigError> {
    Ok(match setting {
        None => None,
        Some(ToolsSetting::Given(tools)) => Some(tools),
        Some(ToolsSetting::Stored { bucket, key }) => {
            Some(ToolsConfig::parse(&text(aws, "TOOLS", &bucket, &key).await?, env)?)
        }
    })
}

/// Returns the profiles of agents, read from S3. Nothing is read if `setting` names none.
pub async fn profiles(aws: &SdkConfig, setting: &ProfilesSetting) -> Result<Profiles, ConfigError> {
    let mut files = BTreeMap::new();
    for id in &setting.ids {
        let AgentsFolder::Stored { bucket, prefix } = &setting.folder else {
            let problem = "must be s3://<bucket>/<prefix> in a deployed program";
            return Err(ConfigError::new(AGENTS_FOLDER.name, problem));
        };
        let folder = format!("{prefix}/{id}/");
        let listed = Bucket::new(aws, bucket).list(&folder).await;
        let listed = listed.map_err(|error| {
            let problem = format!("cannot be listed at s3://{bucket}/{folder}: {}", error.reason);
            ConfigError::new(AGENTS_FOLDER.name, problem)
        })?;
        let mut own = BTreeMap::new();
        for key in &listed {
            let Some(path) = key.strip_prefix(&folder).filter(|path| profile::is_read(path)) else {
                continue;
            };
            own.insert(path.to_owned(), text(aws, AGENTS_FOLDER.name, bucket, key).await?);
        }
        files.insert(id.clone(), own);
    }
    setting.parse(files)
}

/// Reads an object of S3 as text, for the setting `variable`.
async fn text(aws: &SdkConfig, variable: &str, bucket: &str, key: &str) -> Result<String, ConfigError> {
    let failed =
        |problem: String| ConfigError::new(variable, format!("names s3://{bucket}/{key}, which {problem}"));
    let object = Bucket::new(aws, bucket).get(key).await;
    let object = object.map_err(|error| failed(format!("cannot be read: {}", error.reason)))?;
    let bytes = object.ok_or_else(|| failed("does not exist".into()))?;
    String::from_utf8(bytes).map_err(|_| failed("is no text".into()))
}
