//! The usage that `LIMITS` leaves for a reply: [`Allowance`], read before the model is asked, and added to when the reply is put.
//!
//! Counted is what a reply's metadata says, so the same as in `/usage`: the requests for replies, those of a reply that failed
//! or was stopped included, and none for summaries and memories. A reply that is begun is finished, so the last one of a day may
//! go beyond the limit, and so may those of several chats of one person or key that are made at the same time.

use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::limits::{DayLimit, Limits, Quota, Scope, Used, key_of};
use annals_core::metadata::Metadata;
use annals_core::person::canonical;
use annals_core::settings::{ConfigError, Env};
use annals_core::sort_key::Timestamp;
use annals_model::Usage;
use annals_store::history::counters::{Addition, Counter, CounterOf};
use annals_store::history::{History, HistoryError};
use annals_store::people::People;
use futures::future::try_join_all;

use super::{Prices, day_of, start_of_day};
use crate::settings::admins;

/// Lifetime of a counter after its day.
const KEPT_FOR: Duration = Duration::from_hours(24);

/// Prices and limits of usage.
#[derive(Clone, Debug, Default)]
pub struct UsageConfig {
    pub prices: Prices,
    pub limits: Limits,
    /// `ADMINS`: persons without limits, by the ids that they have across channels.
    pub admins: Arc<[String]>,
}

impl UsageConfig {
    /// Reads the settings.
    /// Fails if one of them is malformed, or there is a limit of cost and no price.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let (prices, limits) = (Prices::from_env(env)?, Limits::from_env(env)?);
        if limits.has_cost() && prices.is_empty() {
            let problem =
                "is not set, but LIMITS limits the cost: give the prices of MODEL and MODEL_FALLBACK";
            return Err(ConfigError::new(annals_model::prices::MODEL_PRICES.name, problem));
        }
        Ok(Self { prices, limits, admins: admins(env)?.into() })
    }

    /// Returns the usage that the metadata of a reply tells. A model without a price costs nothing.
    pub fn used(&self, metadata: &Metadata) -> Used {
        let Some(usage) = metadata.usage::<Usage>() else { return Used::default() };
        let cost = self.prices.cost(metadata.model().unwrap_or_default(), &usage);
        if cost.is_none() && self.limits.has_cost() {
            tracing::warn!(
                model = metadata.model(),
                "LIMITS does not count the cost of a reply: add its model to MODEL_PRICES"
            );
        }
        let tokens = u64::from(usage.input_tokens) + u64::from(usage.output_tokens);
        Used { tokens, cost: cost.unwrap_or_default() }
    }
}

/// The limits that hold for a reply, and what was used of them. Empty if there are none.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    limited: Vec<Limited>,
    resets_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Limited {
    limit: DayLimit,
    counter: Counter,
    used: Used,
    is_told: bool,
}

impl Allowance {
    /// Reads what is left today for a reply in `chat` to `person`, whose Person is read first if identities may be linked
    /// (`links`) and the chat's key does not tell it; then all identities of that Person, if one is named by `LIMITS` or
    /// `ADMINS`. One read for each limit that holds; none without limits, and for one of `ADMINS` without links.
    pub async fn read(
        config: &UsageConfig,
        history: &History,
        chat: &ChatKey,
        person: &str,
        links: bool,
    ) -> Result<Self, HistoryError> {
        let UsageConfig { limits, admins, .. } = config;
        if limits.is_empty() {
            return Ok(Self::default());
        }
        let identity = canonical(person);
        let has_names = limits.names(Scope::Person) || !admins.is_empty();
        let mut identities = vec![identity.to_owned()];
        if links && (has_names || limits.limits(Scope::Person)) {
            let people = People::beside(history);
            let person = match chat.person() {
                Some(own) => own.to_owned(),
                None => people.person_of(identity).await?,
            };
            if has_names {
                identities.extend(people.linked_to(&person).await?);
            }
            // The usage counts for the Person.
            identities.insert(0, person);
        }
        if admins.iter().any(|admin| identities.iter().any(|identity| identity == canonical(admin))) {
            return Ok(Self::default());
        }
        let now = history.clock().now();
        let key = key_of(chat).map(str::to_owned);
        let limited = [
            limits.of(Scope::Person, &identities).zip(identities.into_iter().next().map(CounterOf::Person)),
            limits.of(Scope::Chat, &[chat.to_string()]).zip(Some(CounterOf::Chat(chat.clone()))),
            key.and_then(|key| {
                limits.of(Scope::Key, std::slice::from_ref(&key)).zip(Some(CounterOf::Key(key)))
            }),
        ];
        let read = limited.into_iter().flatten().map(async |(limit, of)| {
            let counter = Counter { of, day: day_of(now) };
            let (used, is_told) = history.used(&counter).await?;
            Ok::<_, HistoryError>(Limited { limit, counter, used, is_told })
        });
        let resets_at = start_of_day(now).plus(Duration::from_hours(24));
        Ok(Self { limited: try_join_all(read).await?, resets_at: Some(resets_at) })
    }

    /// Returns every limit with its use.
    pub fn quotas(&self) -> impl Iterator<Item = Quota> {
        self.limited.iter().flat_map(|limited| limited.limit.quotas(limited.used))
    }

    /// Returns the first limit that is reached, and the time from which it is not.
    pub fn reached(&self) -> Option<(Quota, Timestamp)> {
        self.quotas().find(Quota::is_reached).zip(self.resets_at)
    }

    /// Returns the limits that are near with a reply that takes `more`, if no reply has told so today.
    pub fn near(&self, more: Used) -> Vec<Quota> {
        let untold = self.limited.iter().filter(|limited| !limited.is_told);
        untold.flat_map(|limited| limited.near(more)).collect()
    }

    /// Returns what a reply that takes `more` adds to the counters; if it `tells`, what is near is told.
    pub fn additions(&self, more: Used, tells: bool) -> Vec<Addition> {
        let Some(resets_at) = self.resets_at.filter(|_| more != Used::default()) else { return Vec::new() };
        let limited = self.limited.iter().map(|limited| Addition {
            counter: limited.counter.clone(),
            used: more,
            tells: tells && limited.near(more).next().is_some(),
            expires_at: resets_at.plus(KEPT_FOR),
        });
        limited.collect()
    }
}

impl Limited {
    fn near(&self, more: Used) -> impl Iterator<Item = Quota> {
        self.limit.quotas(self.used.plus(more)).filter(Quota::is_near)
    }
}

#[cfg(test)]
mod tests {
    use annals_core::settings::from_table as with;

    use super::*;

    #[test]
    fn a_limit_of_cost_needs_prices() {
        let limits = ("LIMITS", "person=5.00 cost/day");
        let error = with(&[limits], UsageConfig::from_env).unwrap_err();
        assert!(error.starts_with("MODEL_PRICES is not set, but LIMITS"), "{error}");
        assert!(with(&[limits, ("MODEL_PRICES", "openai:m=1/2")], UsageConfig::from_env).is_ok());
        assert!(with(&[("LIMITS", "person=5 tokens/day")], UsageConfig::from_env).is_ok());
    }
}
