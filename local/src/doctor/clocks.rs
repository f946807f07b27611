//! Compares the clock with those of services: signatures, session times and the expiry of tokens depend on it.

use std::time::{Duration, UNIX_EPOCH};

use annals_aws::SdkConfig;
use annals_channel::finding::Finding;
use annals_channel::words;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_io::{aws_host, tls};
use reqwest::{Client, Url};

use super::model::address;
use super::settings::ValidSettings;

/// Largest difference to a `Date`, which is in whole seconds and has travelled.
const MAX_SKEW: Duration = Duration::from_secs(30);

pub(super) async fn check(settings: &ValidSettings, aws: Option<&SdkConfig>, clock: &Clock) -> Vec<Finding> {
    let mut services: Vec<String> = Vec::new();
    if let Some(aws) = aws {
        let region = aws.region().map_or("us-east-1", |region| region.as_ref());
        let own = aws.endpoint_url().map(str::to_owned);
        services.push(own.unwrap_or_else(|| format!("https://{}", aws_host::of("sts", region))));
    }
    let channels = settings.channels.iter().filter_map(|(_, channel)| channel.as_ref()?.api_base());
    services.extend(channels.map(str::to_owned));
    services.extend(settings.model.valid().and_then(address));
    let Ok(client) = tls::client().timeout(Duration::from_secs(10)).build() else {
        let words = words!(
            "failed to create an HTTP client: install CA certificates",
            "无法创建 HTTP 客户端：请安装 CA 证书"
        );
        return vec![Finding::fault("clock", words)];
    };
    let mut findings = Vec::new();
    for service in &services {
        let Some((host, skew)) = skew(&client, service, clock).await else { continue };
        let secs = skew.unsigned_abs();
        findings.push(if secs > MAX_SKEW.as_secs() {
            let (side, zh) = if skew > 0 { ("ahead of", "快") } else { ("behind", "慢") };
            let words = words!(
                "{secs} s {side} {host}: set the system's clock, by NTP (timedatectl set-ntp true)",
                "比 {host} {zh} {secs} 秒：请用 NTP 校准系统时钟（timedatectl set-ntp true）"
            );
            Finding::fault("clock", words)
        } else {
            let secs = secs.max(1);
            Finding::ok("clock", words!("within {secs} s of {host}", "与 {host} 相差不超过 {secs} 秒"))
        });
    }
    if findings.is_empty() {
        let words = words!(
            "no service to compare it with is set up, or none answers",
            "没有配置可供比对的服务，或都没有应答"
        );
        findings.push(Finding::none("clock", words));
    }
    findings
}

/// Returns the seconds by which this clock is ahead of that of `service`, or `None` if the service does not tell its time.
async fn skew(client: &Client, service: &str, clock: &Clock) -> Option<(String, i64)> {
    let url = Url::parse(service).ok()?;
    let host = url.host_str()?.to_owned();
    let before = clock.now();
    let answer = client.get(url).send().await.ok()?;
    let now = before.plus(clock.now().since(before) / 2);
    let date = answer.headers().get(reqwest::header::DATE)?.to_str().ok()?;
    let theirs = httpdate::parse_http_date(date).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let theirs = Timestamp::from_secs(i64::try_from(theirs.as_secs()).ok()?);
    Some((host, (now.as_millis() - theirs.as_millis()) / 1000))
}
