//! The configuration that all clients share: region, credentials, endpoint and HTTP client.

use annals_io::environment::process_env;
use aws_config::environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider};
use aws_config::identity::IdentityCache;
use aws_config::meta::region::ProvideRegion;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_types::retry::{ReconnectMode, RetryConfig};
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

use crate::connector::Https;

/// Reads the configuration of a function: Lambda gives region and credentials in the environment. Other sources are neither read
/// nor linked.
pub async fn function() -> SdkConfig {
    let mut config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(EnvironmentVariableRegionProvider::new().region().await)
        .credentials_provider(SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()))
        .identity_cache(IdentityCache::lazy().build())
        .retry_config(reusing(RetryConfig::standard()))
        .http_client(Https::new())
        .service_config(Variables);
    config.set_endpoint_url(url("AWS_ENDPOINT_URL"));
    config.build()
}

/// Reads the configuration of a user's program or a container, as the AWS CLI does, but for sign-in by SSO, `aws login` or
/// a process: environment, profiles, roles, what the container or the machine offers.
pub async fn anywhere() -> SdkConfig {
    let config = aws_config::defaults(BehaviorVersion::latest()).http_client(Https::new()).load().await;
    let retries = config.retry_config().cloned().unwrap_or_else(RetryConfig::standard);
    config.into_builder().retry_config(reusing(retries)).build()
}

/// Of our HTTP client, the SDK cannot close a connection, and would log an error for each answer after which it wants to.
fn reusing(retries: RetryConfig) -> RetryConfig {
    retries.with_reconnect_mode(ReconnectMode::ReuseAllConnections)
}

/// `AWS_ENDPOINT_URL_DYNAMODB`, and those of other services.
#[derive(Debug)]
struct Variables;

impl LoadServiceConfig for Variables {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let service = key.service_id().to_uppercase().replace(' ', "_");
        url(&format!("{}_{service}", key.env()))
    }
}

fn url(variable: &str) -> Option<String> {
    process_env(variable).filter(|url| !url.is_empty())
}
