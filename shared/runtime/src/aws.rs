//! AWS clients of a deployed function, created once at its start.

use std::collections::BTreeMap;
use std::sync::Once;

use annals_core::agents::profile;
use annals_core::settings::{ConfigError, Env};
use annals_engine::profiles::{AGENTS_FOLDER, AgentsFolder, Profiles, ProfilesSetting};
use annals_engine::settings::{ToolsConfig, ToolsSetting};
use annals_io::clock::Clock;
use annals_io::environment::process_env;
use annals_io::errors::chain;
use annals_store::history::History;
use annals_store::queue::Sqs;
use annals_store::settings::StoreConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::config::ConfigBag;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::runtime_components::{RuntimeComponents, RuntimeComponentsBuilder};

use crate::secrets::Settings;

/// Reads the SDK's configuration from the function's environment: region, credentials, `AWS_ENDPOINT_URL`.
pub async fn sdk_config() -> SdkConfig {
    let http = OneClient { http: https(), checked: Once::new() };
    aws_config::defaults(BehaviorVersion::latest()).http_client(http).load().await
}

/// Reads the settings of the process: its environment, and the secrets that it names.
pub async fn settings(aws: &SdkConfig) -> Result<Settings, ConfigError> {
    Settings::read(process_env, aws).await
}

/// Returns the histories in a deployed table and bucket.
pub fn history(aws: &SdkConfig, store: StoreConfig, clock: Clock) -> History {
    let dynamodb = aws_sdk_dynamodb::Client::new(aws);
    // A custom endpoint, such as an emulator's, has no host name for each bucket.
    let path_style = aws.endpoint_url().is_some();
    let s3 = aws_sdk_s3::config::Builder::from(aws).force_path_style(path_style).build();
    let s3 = aws_sdk_s3::Client::from_conf(s3);
    History::new(dynamodb, store.table, s3, store.bucket, clock, store.retention)
}

/// Returns the deployed queue at `url`.
pub fn queue(aws: &SdkConfig, url: String) -> Sqs {
    Sqs::new(aws_sdk_sqs::Client::new(aws), url)
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
        let listed =
            aws_sdk_s3::Client::new(aws).list_objects_v2().bucket(bucket).prefix(&folder).send().await;
        let listed = listed.map_err(|error| {
            let problem = format!("cannot be listed at s3://{bucket}/{folder}: {}", chain(&error));
            ConfigError::new(AGENTS_FOLDER.name, problem)
        })?;
        let mut own = BTreeMap::new();
        for key in listed.contents().iter().filter_map(|object| object.key()) {
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
    let object = aws_sdk_s3::Client::new(aws).get_object().bucket(bucket).key(key).send().await;
    let object = object.map_err(|error| failed(format!("cannot be read: {}", chain(&error))))?;
    let bytes = object.body.collect().await.map_err(|_| failed("cannot be read whole".into()))?;
    String::from_utf8(bytes.to_vec()).map_err(|_| failed("is no text".into()))
}

/// The SDK's HTTP client, shared by all its clients. By default each client creates its own, and parses the system's
/// certificates twice: when it is created, as a check, and for its first request.
#[derive(Debug)]
struct OneClient {
    http: SharedHttpClient,
    checked: Once,
}

impl HttpClient for OneClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        self.http.http_connector(settings, components)
    }

    /// Checks once, so that the certificates are still read at the start, when a function has a whole processor.
    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        let mut checked = Ok(());
        self.checked.call_once(|| checked = self.http.validate_base_client_config(components, config));
        checked
    }
}

/// Returns the HTTP client that the SDK makes by default.
fn https() -> SharedHttpClient {
    Builder::new().build_with_connector_fn(|settings, components| {
        let mut connector = Connector::builder().tls_provider(Provider::rustls(CryptoMode::AwsLc));
        connector.set_connector_settings(settings.cloned());
        connector.set_proxy_config(Some(ProxyConfig::from_env()));
        if let Some(components) = components {
            connector.set_sleep_impl(components.sleep_impl());
        }
        connector.build()
    })
}
