//! Schedules of a chat: `GET` and `POST /v1/chats/{chatId}/schedules`, `DELETE /v1/chats/{chatId}/schedules/{id}`.

use std::sync::Arc;

use annals_core::schedule::{Action, MAX_BYTES, Schedule, ScheduleId, Timing, TimingError, when};
use annals_core::sort_key::Timestamp;
use annals_core::time_zone::TimeZone;
use annals_engine::scheduling::{self, CreateError, recipient};
use annals_runtime::problem::Problem;
use annals_store::history::{Reuse, StoredSchedule};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::failure::Failure;
use crate::request::{Body, ChatPath, InChat, JsonBody, ListedPath, bad_body};
use crate::state::Http;

/// `{text or prompt, at or cron, timeZone?, id?}`
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewSchedule {
    /// Under one id a schedule is created once; by default the program makes an id.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_-]+$")]
    id: Option<ScheduleId>,
    /// The text to send; or `prompt`. At most 8 KiB.
    text: Option<String>,
    /// The task for the model, whose answer is sent. At most 8 KiB.
    prompt: Option<String>,
    /// The date: RFC 3339 (`2026-11-25T09:00:00+08:00`), or without an offset, in `timeZone`; or `cron`.
    at: Option<String>,
    /// A cron pattern of five fields, in `timeZone`, whose dates are at least five minutes apart.
    cron: Option<String>,
    /// An IANA time zone; by default `TIME_ZONE`.
    #[schema(value_type = Option<String>)]
    time_zone: Option<TimeZone>,
}

impl JsonBody for NewSchedule {
    const SHAPE: &str = "{text or prompt, at or cron, timeZone?, id?}";

    fn invalid(field: &str) -> Option<Problem> {
        match field {
            "id" => Some(bad_schedule(format!("\"id\" {}", ScheduleId::RULE))),
            "timeZone" => {
                Some(bad_schedule("\"timeZone\" must be an IANA time zone, such as Asia/Shanghai".into()))
            }
            _ => None,
        }
    }
}

/// `{schedules}`
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Schedules {
    /// The next to come due first.
    schedules: Vec<Listed>,
}

/// `{id, text or prompt, at or cron, timeZone, nextAt, createdAt, userId}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Schedule)]
pub(crate) struct Listed {
    #[schema(value_type = String)]
    id: ScheduleId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cron: Option<String>,
    #[schema(value_type = String)]
    time_zone: TimeZone,
    next_at: Timestamp,
    created_at: Timestamp,
    /// The person it is for.
    user_id: String,
}

impl From<StoredSchedule> for Listed {
    fn from(stored: StoredSchedule) -> Self {
        let StoredSchedule { schedule, due_at, .. } = stored;
        let Schedule { id, action, timing, time_zone, created_at, to } = schedule;
        let (text, prompt) = match action {
            Action::Text(text) => (Some(text), None),
            Action::Prompt(prompt) => (None, Some(prompt)),
        };
        let (at, cron) = match timing {
            Timing::At(at) => (Some(at), None),
            Timing::Cron(pattern) => (None, Some(pattern)),
        };
        Self { id, text, prompt, at, cron, time_zone, next_at: due_at, created_at, user_id: to.user_id }
    }
}

/// `GET /v1/chats/{chatId}/schedules`
#[utoipa::path(get, path = "/v1/chats/{chatId}/schedules", operation_id = "listSchedules", tag = "schedules",
    params(ChatPath), responses((status = 200, description = "The chat's schedules", body = Schedules)))]
pub(crate) async fn list(
    State(http): State<Arc<Http>>,
    InChat { chat, .. }: InChat,
) -> Result<Json<Schedules>, Failure> {
    let schedules = http.ingress.history().all_schedules(&chat).await.map_err(Failure::unreadable)?;
    Ok(Json(Schedules { schedules: schedules.into_iter().map(Listed::from).collect() }))
}

/// `POST /v1/chats/{chatId}/schedules`: for the person who spoke last in the chat, through the channel of that message.
#[utoipa::path(post, path = "/v1/chats/{chatId}/schedules", operation_id = "createSchedule", tag = "schedules",
    params(ChatPath), request_body = NewSchedule, responses(
        (status = 201, description = "The schedule is stored", body = Listed),
        (status = 200, description = "It was stored before", body = Listed)))]
pub(crate) async fn create(
    State(http): State<Arc<Http>>,
    InChat { chat, .. }: InChat,
    body: Result<Body<NewSchedule>, Problem>,
) -> Result<(StatusCode, Json<Listed>), Failure> {
    let Body(new) = body?;
    let now = http.clock.now();
    let time_zone = new.time_zone.unwrap_or(http.view.time_zone);
    let action = action(new.text, new.prompt)?;
    let timing = timing(new.at.as_deref(), new.cron.as_deref(), time_zone, now)?;
    let id = match new.id {
        Some(id) => id,
        None => {
            ScheduleId::try_from((http.new_id)()).map_err(|rule| bad_schedule(format!("\"id\" {rule}")))?
        }
    };
    let desk = http.desk(&chat).await?;
    let schedule = Schedule { id, action, timing, time_zone, created_at: now, to: recipient(desk.person()) };
    match scheduling::create(http.ingress.history(), &desk.chat, schedule, Reuse::AfterEnd).await {
        Ok((stored, is_new)) => {
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            Ok((status, Json(stored.into())))
        }
        Err(CreateError::History(error)) => Err(error.into()),
        Err(error @ CreateError::Past) => Err(bad_schedule(error.to_string()).into()),
        Err(
            error @ (CreateError::TooMany
            | CreateError::Taken
            | CreateError::Ended
            | CreateError::Unreachable),
        ) => {
            let title = "The schedule cannot be stored";
            Err(Problem::new(StatusCode::CONFLICT, "schedule-refused", title, error.to_string()).into())
        }
    }
}

/// `DELETE /v1/chats/{chatId}/schedules/{id}`: it never comes due again.
#[utoipa::path(delete, path = "/v1/chats/{chatId}/schedules/{id}", operation_id = "cancelSchedule", tag = "schedules",
    params(ChatPath, ListedPath),
    responses((status = 204, description = "There is no such schedule, any more or at all")))]
pub(crate) async fn cancel(
    State(http): State<Arc<Http>>,
    InChat { chat, .. }: InChat,
    Path(ListedPath { id }): Path<ListedPath>,
) -> Result<StatusCode, Failure> {
    let history = http.ingress.history();
    if let Ok(id) = ScheduleId::try_from(id) {
        // Under each name: a renamed chat's schedules move when they come due.
        for name in history.all_names(&chat).await? {
            history.cancel_schedule(&name, &id).await?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the content of a schedule.
fn action(text: Option<String>, prompt: Option<String>) -> Result<Action, Problem> {
    let action = match (text, prompt) {
        (Some(text), None) => Action::Text(text),
        (None, Some(prompt)) => Action::Prompt(prompt),
        _ => return Err(bad_body("give one string, as \"text\" or as \"prompt\"".into())),
    };
    match action.content() {
        content if content.trim().is_empty() => Err(bad_schedule("its content is blank".into())),
        content if content.len() > MAX_BYTES => Err(bad_schedule("its content is longer than 8 KiB".into())),
        _ => Ok(action),
    }
}

/// Checks action and dates of a schedule that is created at the epoch in UTC.
pub(crate) fn check(new: NewSchedule) -> Result<(), Problem> {
    action(new.text, new.prompt)?;
    let time_zone = new.time_zone.unwrap_or(TimeZone::UTC);
    timing(new.at.as_deref(), new.cron.as_deref(), time_zone, Timestamp::MIN).map(drop)
}

/// Returns the dates of a schedule.
fn timing(
    at: Option<&str>,
    cron: Option<&str>,
    time_zone: TimeZone,
    now: Timestamp,
) -> Result<Timing, Problem> {
    let invalid = |error: TimingError| bad_schedule(error.to_string());
    match (at, cron) {
        (Some(at), None) => when::date(at, time_zone).map(Timing::At).ok_or_else(|| {
            let detail = "\"at\" must be a date such as 2026-11-25T09:00:00+08:00, or 2026-11-25T09:00 in \"timeZone\"";
            bad_schedule(detail.into())
        }),
        (None, Some(cron)) => Timing::cron(cron, time_zone, now).map_err(invalid),
        _ => Err(bad_body("give one string, as \"at\" or as \"cron\"".into())),
    }
}

fn bad_schedule(detail: String) -> Problem {
    Problem::bad_request("bad-schedule", "The schedule is invalid", detail)
}
