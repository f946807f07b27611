//! Tokens and money, derived from the replies in a history: [`Spent`], one reply's, and [`Total`], a sum. Nothing is stored for
//! it beside what each reply holds, so there is no second truth. Limits, which hold over many chats, have counters: [`Allowance`].
//!
//! Counted are the requests for replies, as the provider counts them; not those for summaries and memories, and not one that
//! was cut off.

mod allowance;

use std::collections::HashMap;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::texts::{Spending, Texts, Whose, thousands};
use annals_model::Usage;
use annals_store::history::{Cursor, History, HistoryError, MAX_PAGE, Position};

pub use allowance::{Allowance, UsageConfig};
pub use annals_model::prices::Prices;

/// Maximum number of records of a chat that are read for its usage: the newest of the range.
pub const MAX_RECORDS: usize = 2_000;

/// The tokens of one reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// Time of the message that the reply answers.
    pub ts: Timestamp,
    /// The Person who asked; `None` if the message is not among the records that were read.
    pub person: Option<String>,
    pub model: String,
    pub usage: Usage,
}

/// The usage of a chat in a range of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatUsage {
    /// Its replies, in no order.
    pub spent: Vec<Spent>,
    /// True if the range has more than [`MAX_RECORDS`] records, so that older ones were not read.
    pub is_cut: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    pub replies: u64,
    /// Tokens read, including those from a cache.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_input_tokens: u64,
    /// Cost of the replies whose price is known.
    pub cost: f64,
    /// Number of replies whose price is not known.
    pub unpriced_replies: u64,
}

impl Total {
    pub fn add(&mut self, spent: &Spent, prices: &Prices) {
        self.replies += 1;
        self.input_tokens += u64::from(spent.usage.input_tokens);
        self.output_tokens += u64::from(spent.usage.output_tokens);
        self.cached_input_tokens += u64::from(spent.usage.cached_input_tokens.unwrap_or_default());
        match prices.cost(&spent.model, &spent.usage) {
            Some(cost) => self.cost += cost,
            None => self.unpriced_replies += 1,
        }
    }

    /// Returns the cost; `None` if no price is known.
    pub fn known_cost(&self) -> Option<f64> {
        (self.unpriced_replies < self.replies).then_some(self.cost)
    }
}

/// Reads the usage of `chat` from `from` until before `to`: at most [`MAX_RECORDS`] records, archived or not.
pub async fn of_chat(
    history: &History,
    chat: &ChatKey,
    from: Timestamp,
    to: Timestamp,
) -> Result<ChatUsage, HistoryError> {
    let mut position = Position::Before(Cursor::at(chat, &SortKey::start_of(to)));
    let mut people: HashMap<SortKey, String> = HashMap::new();
    // The newest form of a reply has the sum of all.
    let mut replies: HashMap<SortKey, (u32, Spent)> = HashMap::new();
    let mut read = 0;
    let is_cut = loop {
        let page = history.page(chat, &position, MAX_PAGE).await?;
        read += page.records.len();
        for record in page.records.iter().filter(|record| record.ts >= from) {
            let base = record.key.base();
            if record.is_said() {
                people.insert(base, record.sender());
                continue;
            }
            let metadata = &record.message.metadata;
            let is_reply = record.key.is_reply() || record.key.belongs_to_reply();
            let Some(usage) = metadata.usage().filter(|_| is_reply) else { continue };
            if replies.get(&base).is_none_or(|(revision, _)| *revision < record.revision()) {
                let model = metadata.model().unwrap_or_default().to_owned();
                let spent = Spent { ts: record.ts, person: None, model, usage };
                replies.insert(base, (record.revision(), spent));
            }
        }
        let is_over = page.records.first().is_none_or(|record| record.ts < from);
        match page.before {
            Some(before) if !is_over && read < MAX_RECORDS => position = Position::Before(before),
            Some(_) => break !is_over,
            None => break false,
        }
    };
    let spent = replies.into_iter().map(|(base, (_, spent))| Spent { person: people.remove(&base), ..spent });
    Ok(ChatUsage { spent: spent.collect(), is_cut })
}

/// Returns the first moment of the day of `at`, in UTC.
pub fn start_of_day(at: Timestamp) -> Timestamp {
    at.minus(Duration::from_millis(at.as_millis().unsigned_abs() % (DAY_SECS * 1000)))
}

/// Returns the day of `at` in UTC, as `2026-11-23`.
pub fn day_of(at: Timestamp) -> String {
    at.rfc3339().chars().take(10).collect()
}

const DAY_SECS: u64 = 24 * 60 * 60;

/// Number of days that `/usage` looks back.
const DAYS: u64 = 30;

/// Reads the usage that `/usage` by `person` at `now` tells of, and returns the text.
pub async fn told(
    history: &History,
    chat: &ChatKey,
    person: &str,
    now: Timestamp,
    prices: &Prices,
    allowance: &Allowance,
    texts: &dyn Texts,
) -> Result<String, HistoryError> {
    let today = start_of_day(now);
    let from = today.minus(Duration::from_secs((DAYS - 1) * DAY_SECS));
    let ChatUsage { spent, is_cut } = of_chat(history, chat, from, now.next()).await?;
    let total = |wanted: &dyn Fn(&Spent) -> bool| {
        let mut total = Total::default();
        spent.iter().filter(|spent| wanted(spent)).for_each(|spent| total.add(spent, prices));
        total
    };
    let is_own = |spent: &Spent| spent.person.as_deref() == Some(person);
    let mut lines = vec![
        texts.spent_today(Whose::Chats, &spending(&total(&|spent| spent.ts >= today))),
        texts.spent_lately(Whose::Chats, DAYS, &spending(&total(&|_| true))),
    ];
    if spent.iter().any(|spent| !is_own(spent)) {
        let own_today = total(&|spent| is_own(spent) && spent.ts >= today);
        lines.push(texts.spent_today(Whose::Yours, &spending(&own_today)));
        lines.push(texts.spent_lately(Whose::Yours, DAYS, &spending(&total(&is_own))));
    }
    if is_cut {
        lines.push(texts.spending_is_cut(MAX_RECORDS));
    }
    lines.extend(allowance.quotas().map(|quota| texts.limit_left(&quota)));
    Ok(lines.join("\n"))
}

fn spending(total: &Total) -> Spending {
    Spending {
        replies: total.replies,
        read: thousands(total.input_tokens),
        written: thousands(total.output_tokens),
        cost: total.known_cost().map(|cost| format!("{cost:.4}")),
        unpriced: total.unpriced_replies,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_starts_at_midnight_in_utc() {
        let at = Timestamp::parse_rfc3339("2026-11-23T22:40:01Z").unwrap();
        assert_eq!(start_of_day(at), Timestamp::parse_rfc3339("2026-11-23T00:00:00Z").unwrap());
        assert_eq!(start_of_day(start_of_day(at)), start_of_day(at));
        assert_eq!(day_of(at), "2026-11-23");
    }

    #[test]
    fn numbers_have_commas() {
        let shown = [0, 999, 1000, 1_234_567].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
