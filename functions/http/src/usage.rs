//! Tokens and money, for admin keys: `GET /v1/usage`.
//!
//! It is derived from the replies of the chats in the range, a page of chats at a time, so a request reads at most 100 chats and
//! 2,000 records of each. Rows of the same name on several pages add up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::limits::key_of;
use annals_core::sort_key::Timestamp;
use annals_engine::usage::{ChatUsage, Spent, Total, day_of, of_chat, start_of_day};
use annals_runtime::problem::Problem;
use annals_store::history::directory::{ListCursor, Listed, MAX_CHATS};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::failure::{Failure, bad_cursor};
use crate::history::limit_of;
use crate::request::{Query, QueryParameters, accepts};
use crate::state::Http;

const CSV: &str = "text/csv";
/// Header of a CSV page: the cursor of the next one.
pub(crate) const BEFORE: HeaderName = HeaderName::from_static("x-annals-before");
const DEFAULT_CHATS: usize = 25;
/// Number of chats that are read at a time.
const CONCURRENT_READS: usize = 8;
const DAY: Duration = Duration::from_hours(24);
/// Range without `from`.
const DEFAULT_RANGE: Duration = Duration::from_hours(29 * 24);
/// The list's order may be this much older than a chat's last message.
const LIST_LAG: Duration = Duration::from_hours(18);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// First day, `2026-11-01` in UTC, or a time in milliseconds since 1970. By default 30 days with today.
    from: Option<String>,
    /// Last day, which is counted, or a time before which is counted. By default now.
    to: Option<String>,
    /// Name of the rows: by default `day`.
    by: Option<By>,
    /// `before` of the previous page.
    before: Option<String>,
    /// Number of chats that are read: by default 25, at most 100.
    #[param(value_type = Option<u32>, minimum = 1)]
    limit: Option<String>,
}

impl QueryParameters for UsageQuery {}

/// Name of the rows.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum By {
    /// The chat's key.
    Chat,
    /// The Person who asked.
    Person,
    /// The API key whose conversation, room or user's direct chat it is; null for other chats.
    Key,
    /// The model.
    Model,
    /// The day of the question, in UTC.
    #[default]
    Day,
}

impl By {
    fn name(self, chat: &ChatKey, spent: &Spent) -> Option<String> {
        match self {
            Self::Chat => Some(chat.to_string()),
            Self::Person => spent.person.clone(),
            Self::Key => key_of(chat).map(str::to_owned),
            Self::Model => Some(spent.model.clone()),
            Self::Day => Some(day_of(spent.ts)),
        }
    }
}

/// `{from, to, by, rows, cut, before}`
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Usage {
    /// Start of the range.
    from: Timestamp,
    /// End of the range, which is not in it.
    to: Timestamp,
    by: By,
    /// The sums over the chats of this page. Rows of one name on several pages add up.
    rows: Vec<Row>,
    /// Chats with more than 2,000 records in the range, of which the newest were read: ask for shorter ranges.
    #[schema(value_type = Vec<String>)]
    cut: Vec<ChatKey>,
    /// Cursor of the next page; null if there is none.
    #[schema(required)]
    before: Option<String>,
}

/// A sum.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UsageRow)]
pub(crate) struct Row {
    /// See `by`.
    #[schema(required)]
    name: Option<String>,
    replies: u64,
    /// Including cached ones.
    input_tokens: u64,
    output_tokens: u64,
    cached_input_tokens: u64,
    /// By `MODEL_PRICES`; null if it has the price of none of the replies.
    #[schema(required)]
    cost: Option<f64>,
    /// Number of replies whose model `MODEL_PRICES` does not name.
    unpriced_replies: u64,
}

impl Row {
    fn new(name: Option<String>, total: &Total) -> Self {
        Self {
            name,
            replies: total.replies,
            input_tokens: total.input_tokens,
            output_tokens: total.output_tokens,
            cached_input_tokens: total.cached_input_tokens,
            // A millionth of the currency is less than a token costs.
            cost: total.known_cost().map(|cost| (cost * 1e6).round() / 1e6),
            unpriced_replies: total.unpriced_replies,
        }
    }

    fn csv(&self) -> String {
        let cost = self.cost.map(|cost| cost.to_string()).unwrap_or_default();
        let name = quoted(self.name.as_deref().unwrap_or_default());
        let Self { replies, input_tokens, output_tokens, cached_input_tokens, unpriced_replies, .. } = self;
        format!(
            "{name},{replies},{input_tokens},{output_tokens},{cached_input_tokens},{cost},{unpriced_replies}\r\n"
        )
    }
}

/// `GET /v1/usage`
#[utoipa::path(get, path = "/v1/usage", operation_id = "getUsage", tag = "histories", params(UsageQuery),
    responses((status = 200, description = "Tokens and cost of replies; with `Accept: text/csv` the rows as CSV",
        content((Usage = "application/json"), (String = "text/csv")))))]
pub(crate) async fn usage(
    State(http): State<Arc<Http>>,
    caller: Caller,
    query: Result<Query<UsageQuery>, Problem>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    caller.require_admin("see the usage of all callers")?;
    let Query(query) = query?;
    let now = http.clock.now();
    let to = match query.to.as_deref() {
        Some(to) => time(to, DAY)?,
        None => now.next(),
    };
    let from = match query.from.as_deref() {
        Some(from) => time(from, Duration::ZERO)?,
        None => start_of_day(to.previous()).minus(DEFAULT_RANGE),
    };
    let before = query.before.as_deref().map(ListCursor::decode).transpose();
    let before = before.map_err(|error| bad_cursor(error.to_string()))?;
    let limit = limit_of(query.limit.as_deref(), DEFAULT_CHATS, MAX_CHATS)?;
    let by = query.by.unwrap_or_default();
    let usage = http.usage(from, to, by, before.as_ref(), limit).await?;
    if !accepts(&headers, CSV) {
        return Ok(Json(usage).into_response());
    }
    let rows = usage.rows.iter().map(Row::csv);
    let head = "name,replies,inputTokens,outputTokens,cachedInputTokens,cost,unpricedReplies\r\n".to_owned();
    let body: String = [head].into_iter().chain(rows).collect();
    let mut response = ([(header::CONTENT_TYPE, CSV)], body).into_response();
    if let Some(before) = usage.before.and_then(|before| HeaderValue::from_str(&before).ok()) {
        response.headers_mut().insert(BEFORE, before);
    }
    Ok(response)
}

impl Http {
    async fn usage(
        &self,
        from: Timestamp,
        to: Timestamp,
        by: By,
        before: Option<&ListCursor>,
        limit: usize,
    ) -> Result<Usage, Failure> {
        let history = self.ingress.history();
        let page = history.chats(before, limit).await.map_err(Failure::unreadable)?;
        let is_over = page.chats.last().is_some_and(|last| last.at.plus(LIST_LAG) < from);
        let chats = page.chats.into_iter().filter(|listed| listed.at.plus(LIST_LAG) >= from);
        let read = stream::iter(chats).map(|Listed { chat, .. }| async move {
            let usage = of_chat(history, &chat, from, to).await?;
            Ok((chat, usage))
        });
        let read: Vec<(ChatKey, ChatUsage)> =
            read.buffered(CONCURRENT_READS).try_collect().await.map_err(Failure::unreadable)?;
        let mut totals: BTreeMap<Option<String>, Total> = BTreeMap::new();
        for (chat, usage) in &read {
            for spent in &usage.spent {
                totals.entry(by.name(chat, spent)).or_default().add(spent, self.ingress.prices());
            }
        }
        let cut = read.into_iter().filter(|(_, usage)| usage.is_cut).map(|(chat, _)| chat).collect();
        let rows = totals.into_iter().map(|(name, total)| Row::new(name, &total)).collect();
        let before = page.before.filter(|_| !is_over).map(|cursor| cursor.encode());
        Ok(Usage { from, to, by, rows, cut, before })
    }
}

/// Parses a day, to which `of_day` is added, or milliseconds since 1970.
fn time(text: &str, of_day: Duration) -> Result<Timestamp, Problem> {
    let day = (text.len() == 10).then(|| Timestamp::parse_rfc3339(&format!("{text}T00:00:00Z"))).flatten();
    let millis = || text.parse().ok().and_then(Timestamp::from_millis);
    day.map(|day| day.plus(of_day)).or_else(millis).ok_or_else(|| {
        let detail = "give a day such as 2026-11-23, or milliseconds since 1970";
        Problem::bad_request("bad-range", "The range is not valid", detail)
    })
}

/// Returns a field of CSV. A name that a spreadsheet would take as a formula begins with a `'`.
fn quoted(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}
