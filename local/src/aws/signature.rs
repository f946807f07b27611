//! Checks that a caller signs with the data directory's key, as each AWS SDK does (Signature Version 4).
//!
//! `s3s` checks requests to S3. A request to one of the JSON services is signed again here, with the SDK's own `aws-sigv4`, and
//! the signatures are compared.
//!
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html>.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use annals_core::secret::is_same;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use aws_sdk_dynamodb::config::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use secrecy::{ExposeSecret, SecretString};

use super::fault::Fault;
use crate::stores::files;
use crate::stores::private::secret_of;

/// `AWS_ACCESS_KEY_ID` of all callers.
pub const ACCESS_KEY: &str = "local";

/// Largest difference between a signature's time and the clock.
const MAX_SKEW: Duration = Duration::from_mins(15);

/// Key of a data directory.
#[derive(Clone, Debug)]
pub struct Key {
    /// `AWS_SECRET_ACCESS_KEY` of all callers.
    pub secret: SecretString,
}

impl Key {
    /// Returns the key of `data_dir`. Creates a random one if there is none; it stays the same, so settings of callers still work
    /// after a restart.
    pub fn of(data_dir: &Path) -> anyhow::Result<Self> {
        Ok(Self { secret: secret_of(&data_dir.join(files::AWS_KEY))? })
    }

    /// Checks that a `POST /` with these `headers` and this `body` is signed with this key, at about `clock`'s time.
    pub(super) fn check(&self, headers: &HeaderMap, body: &[u8], clock: &Clock) -> Result<(), Fault> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let missing = || Fault::forbidden("MissingAuthenticationTokenException", "the request is not signed");
        let given = Authorization::parse(header(AUTHORIZATION.as_str()).ok_or_else(missing)?);
        let given = given.ok_or_else(missing)?;
        if given.access_key != ACCESS_KEY {
            let message =
                "the security token included in the request is invalid: it is not the key of this program";
            return Err(Fault::forbidden("UnrecognizedClientException", message));
        }
        let wrong = |message: &'static str| Fault::forbidden("InvalidSignatureException", message);
        let time =
            header("x-amz-date").and_then(date).ok_or_else(|| wrong("x-amz-date is missing or invalid"))?;
        let now = UNIX_EPOCH + clock.now().since(Timestamp::MIN);
        let skew = now.duration_since(time).or_else(|_| time.duration_since(now)).unwrap_or_default();
        if skew > MAX_SKEW {
            return Err(wrong("the signature is of another time: check the clocks"));
        }
        let computed =
            self.sign(&given, headers, body, time).ok_or_else(|| wrong("the request cannot be signed"))?;
        let why =
            "the signature is not the one of this program's key: set AWS_SECRET_ACCESS_KEY as it prints it";
        is_same(given.signature.as_bytes(), computed.as_bytes()).then_some(()).ok_or_else(|| wrong(why))
    }

    fn sign(
        &self,
        given: &Authorization<'_>,
        headers: &HeaderMap,
        body: &[u8],
        time: SystemTime,
    ) -> Option<String> {
        let identity = Credentials::new(ACCESS_KEY, self.secret.expose_secret(), None, None, "annals").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(given.region)
            .name(given.service)
            .time(time)
            .settings(SigningSettings::default())
            .build()
            .ok()?
            .into();
        let host = headers.get("host")?.to_str().ok()?;
        let signed = given.signed_headers.split(';').map(|name| {
            let values: Option<Vec<&str>> =
                headers.get_all(name).iter().map(|value| value.to_str().ok()).collect();
            Some((name, values?.join(",")))
        });
        let signed: Vec<(&str, String)> = signed.collect::<Option<_>>()?;
        let signed = signed.iter().map(|(name, value)| (*name, value.as_str()));
        let uri = format!("http://{host}/");
        let request = SignableRequest::new("POST", uri, signed, SignableBody::Bytes(body)).ok()?;
        Some(sign(request, &params).ok()?.into_parts().1)
    }
}

/// `AWS4-HMAC-SHA256 Credential=<key>/<date>/<region>/<service>/aws4_request, SignedHeaders=<a;b>, Signature=<hex>`
struct Authorization<'a> {
    access_key: &'a str,
    region: &'a str,
    service: &'a str,
    signed_headers: &'a str,
    signature: &'a str,
}

impl<'a> Authorization<'a> {
    fn parse(value: &'a str) -> Option<Self> {
        let fields = value.strip_prefix("AWS4-HMAC-SHA256")?;
        let field = |name: &str| {
            fields
                .split(',')
                .find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='))
                .map(str::trim)
        };
        let credential: Vec<&str> = field("Credential")?.split('/').collect();
        let [access_key, _, region, service, "aws4_request"] = credential[..] else { return None };
        let (signed_headers, signature) = (field("SignedHeaders")?, field("Signature")?);
        Some(Self { access_key, region, service, signed_headers, signature })
    }
}

/// Parses a time such as `20251121T225841Z`.
fn date(value: &str) -> Option<SystemTime> {
    let part = |range: std::ops::Range<usize>| value.get(range);
    let (day, time) = ((part(0..4)?, part(4..6)?, part(6..8)?), (part(9..11)?, part(11..13)?, part(13..16)?));
    humantime::parse_rfc3339(&format!("{}-{}-{}T{}:{}:{}", day.0, day.1, day.2, time.0, time.1, time.2)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_763_765_921;
    const DATE: &str = "20251121T225841Z";

    /// Checks a call that was signed at [`NOW`] and arrives `skew` seconds later with `sent` as its `Authorization`.
    fn check(sent: &str, body: &[u8], skew: i64) -> Result<(), &'static str> {
        let key = Key { secret: "s".into() };
        let mut headers = HeaderMap::new();
        headers.insert("host", "127.0.0.1:4566".parse().unwrap());
        headers.insert("x-amz-date", DATE.parse().unwrap());
        headers.insert("x-amz-target", "AmazonSQS.SendMessage".parse().unwrap());
        let unsigned = "AWS4-HMAC-SHA256 Credential=local/20251121/us-east-1/sqs/aws4_request, SignedHeaders=host;x-amz-date;x-amz-target";
        let given = format!("{unsigned}, Signature=");
        let time = date(DATE).unwrap();
        let signature = key.sign(&Authorization::parse(&given).unwrap(), &headers, b"{}", time).unwrap();
        headers.insert(
            "authorization",
            sent.replace("<signed>", &format!("{given}{signature}")).parse().unwrap(),
        );
        let clock = Clock::manual(Timestamp::from_secs(NOW + skew));
        key.check(&headers, body, &clock).map_err(|fault| fault.kind)
    }

    #[test]
    fn only_an_unchanged_recent_signature_is_accepted() {
        assert_eq!(date(DATE), Some(UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs())));
        for skew in [0, 899, -899] {
            assert_eq!(check("<signed>", b"{}", skew), Ok(()), "{skew}");
        }
        for skew in [901, -901, 86_400] {
            assert_eq!(check("<signed>", b"{}", skew), Err("InvalidSignatureException"), "{skew}");
        }
        assert_eq!(check("<signed>", b"{ }", 0), Err("InvalidSignatureException"));
        assert_eq!(check("<signed>0", b"{}", 0), Err("InvalidSignatureException"));
        assert_eq!(check("Bearer dev", b"{}", 0), Err("MissingAuthenticationTokenException"));
        let other = "AWS4-HMAC-SHA256 Credential=other/20251121/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0";
        assert_eq!(check(other, b"{}", 0), Err("UnrecognizedClientException"));
    }

    #[test]
    fn an_invalid_date_is_refused() {
        for text in
            ["", "2025", "20251121225841Z", "2025-11-21T22:58:41Z", "20251121T225841ÄÖ", "20251321T225841Z"]
        {
            assert_eq!(date(text), None, "{text}");
        }
    }
}
