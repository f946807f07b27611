//! Counts wrong API keys by source address: [`WrongKeys`].
//!
//! The first [`FREE`] get a 401. Each later one gets a 429, with a `Retry-After` that doubles from one second to [`LONGEST`];
//! after [`FORGET_AFTER`] without a wrong key, the count of an address starts again. A right key from the same address always
//! passes, so neither a neighbour behind the same router nor a forgotten client with an old key locks anybody out.
//!
//! The answer is not delayed: a Lambda function is paid for while it waits, and a caller with many parallel calls waits for
//! none of them. So this tells a faulty client to stop, and the operator, by a line in the log, that keys are being guessed;
//! the length of a secret ([`MIN_SECRET_CHARS`]) makes guessing hopeless.
//!
//! Each process counts for itself, like [`limit`](crate::limit). Calls without a key, and calls from this machine to a local
//! program, are not counted.
//!
//! [`MIN_SECRET_CHARS`]: crate::settings::MIN_SECRET_CHARS

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_runtime::gateway::SourceIp;
use axum::extract::ConnectInfo;
use axum::http::Extensions;
use axum::http::header::HeaderMap;

/// Number of wrong keys of one address that get a 401.
const FREE: u32 = 10;
/// Longest `Retry-After`.
const LONGEST: Duration = Duration::from_mins(15);
/// Time without a wrong key after which an address is forgotten.
const FORGET_AFTER: Duration = Duration::from_hours(1);
/// Largest number of remembered addresses.
const MAX_SOURCES: usize = 1024;

/// Number of wrong keys of each address, and the time of the last.
#[derive(Debug, Default)]
pub(crate) struct WrongKeys(Mutex<HashMap<IpAddr, (u32, Timestamp)>>);

impl WrongKeys {
    /// Counts a wrong key from `source` at `now`.
    ///
    /// # Errors
    /// Returns the time after which the next may be sent, if there were too many.
    pub(crate) fn count(&self, source: IpAddr, now: Timestamp) -> Result<(), Duration> {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= MAX_SOURCES && !sources.contains_key(&source) {
            sources.retain(|_, (_, last)| now.since(*last) < FORGET_AFTER);
            if sources.len() >= MAX_SOURCES {
                // So many addresses guess together that remembering them serves nothing.
                sources.clear();
            }
        }
        let (count, last) = sources.entry(source).or_insert((0, now));
        if now.since(*last) >= FORGET_AFTER {
            *count = 0;
        }
        (*count, *last) = (count.saturating_add(1), now);
        let over = count.saturating_sub(FREE);
        if over == 0 {
            return Ok(());
        }
        if over.is_power_of_two() {
            tracing::warn!(wrong = *count, "an address sends wrong API keys and is told to wait");
        }
        Err(LONGEST.min(Duration::from_secs(1 << over.saturating_sub(1).min(32))))
    }
}

/// Returns the source address of a request, if it is known. Of IPv6 it returns the /64 network, all of whose addresses one
/// caller can use.
pub(crate) fn source(extensions: &Extensions, headers: &HeaderMap) -> Option<IpAddr> {
    let address = match extensions.get::<SourceIp>() {
        Some(SourceIp(address)) => *address,
        None => match extensions.get::<ConnectInfo<SocketAddr>>()?.ip().to_canonical() {
            // A tunnel on this machine, which appends the address that it forwards for.
            peer if peer.is_loopback() => {
                let forwarded = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
                forwarded.rsplit(',').next()?.trim().parse().ok()?
            }
            peer => peer,
        },
    };
    Some(match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
        address @ IpAddr::V4(_) => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_795_305_600 + secs)
    }

    #[test]
    fn waits_are_bounded_and_forgotten() {
        let keys = WrongKeys::default();
        let source = "203.0.113.7".parse().unwrap();
        let count = |secs| keys.count(source, at(secs)).map_err(|wait| wait.as_secs());
        assert!((0..FREE).all(|_| count(0).is_ok()));
        assert!((0..100).all(|_| count(1).is_err_and(|secs| secs <= 900)));
        assert_eq!([count(1), count(1 + 3599), count(1 + 3599 + 3600)], [Err(900), Err(900), Ok(())]);
    }

    #[test]
    fn the_number_of_remembered_addresses_is_bounded() {
        let keys = WrongKeys::default();
        for n in 0..10 * u32::try_from(MAX_SOURCES).unwrap() {
            let _ = keys.count(IpAddr::V4(n.into()), at(0));
            assert!(keys.0.lock().unwrap().len() <= MAX_SOURCES);
        }
    }

    #[test]
    fn the_source_is_what_the_nearest_trusted_hop_saw() {
        let source = |peer: Option<&str>, forwarded: &[&'static str]| {
            let (mut extensions, mut headers) = (Extensions::new(), HeaderMap::new());
            if let Some(peer) = peer {
                extensions.insert(ConnectInfo(peer.parse::<SocketAddr>().unwrap()));
            }
            for value in forwarded {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            super::source(&extensions, &headers).map(|source| source.to_string())
        };
        assert_eq!(source(None, &["203.0.113.7"]), None);
        assert_eq!(source(Some("127.0.0.1:5"), &[]), None, "this machine");
        let through_a_tunnel = source(Some("127.0.0.1:5"), &["1.2.3.4", "5.6.7.8, 203.0.113.7"]);
        assert_eq!(through_a_tunnel.as_deref(), Some("203.0.113.7"));
        assert_eq!(source(Some("203.0.113.9:5"), &["1.2.3.4"]).as_deref(), Some("203.0.113.9"));
        assert_eq!(source(Some("[2001:db8:1:2:3::4]:5"), &[]).as_deref(), Some("2001:db8:1:2::"));
        // Two spellings of one address are one address.
        assert_eq!(source(Some("[::ffff:203.0.113.9]:5"), &[]).as_deref(), Some("203.0.113.9"));
        assert_eq!(source(Some("[::ffff:127.0.0.1]:5"), &[]), None);
    }
}
