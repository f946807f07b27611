//! Settings of one chat, by admin keys: `GET` and `PATCH /v1/chats/{chatId}/settings`.

use std::collections::HashSet;
use std::sync::Arc;

use annals_core::chat_key::ChatKey;
use annals_core::chat_settings::{
    ChatSettings, GroupActivation, MAX_PROMPT_BYTES, MAX_TARGET_BYTES, MAX_TARGETS, ReplyQuiet, SendTarget,
};
use annals_runtime::problem::Problem;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::chats::no_such_chat;
use crate::failure::Failure;
use crate::request::{Body, ChatPath, InChat, JsonBody};
use crate::state::Http;

/// Settings to change, as a JSON merge patch: null removes one, so that it is again as the settings of the program say; what
/// is left out stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ChangedSettings {
    /// Model that answers in this chat, by one of the names in `MODEL`, `MODEL_FALLBACK` and `MODELS`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    model: Change<String>,
    /// Text that the model is given after `SYSTEM_PROMPT`. At most 2,048 bytes.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, min_length = 1, pattern = "\\S")]
    prompt: Change<String>,
    /// Messages of a group that are answered, in place of `GROUP_ACTIVATION`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Activation>)]
    activation: Change<GroupActivation>,
    /// Quiet time before the chat is answered, such as `5s`: in place of `REPLY_QUIET` if it is longer. At most
    /// `10s`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    reply_quiet: Change<ReplyQuiet>,
    /// Chats that this one's agent may send texts to with the tool `chat_send`, each with a name of its own. At most 8, with
    /// ChatKeys of at most 256 bytes.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<SendTarget>>, max_items = 8)]
    sends_to: Change<Vec<SendTarget>>,
}

/// `mention`, `always`
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "describes `GroupActivation` in openapi.json")]
pub(crate) enum Activation {
    /// Messages that address the bot.
    Mention,
    /// All messages of people.
    Always,
}

/// New value of a setting: the outer `None` if it is left out, the inner one for null, which removes it.
#[allow(clippy::option_option, reason = "a merge patch tells null from what is left out")]
type Change<T> = Option<Option<T>>;

/// Reads a value that is there.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<Change<T>, D::Error> {
    Option::deserialize(value).map(Some)
}

impl JsonBody for ChangedSettings {
    const SHAPE: &str = "{model?, prompt?, activation?, replyQuiet?, sendsTo?}";

    fn invalid(field: &str) -> Option<Problem> {
        let rule = match field {
            "model" => "must be the name of a model, or null",
            "prompt" => "must be a text, or null",
            "activation" => "must be \"mention\", \"always\" or null",
            "replyQuiet" => {
                return Some(bad_settings(&format!("\"replyQuiet\" {}, or null", ReplyQuiet::RULE)));
            }
            "sendsTo" => {
                "must be a list of {name, chat, approval?}, or null: name of 1 to 32 letters, digits, \"-\" and \"_\", and not \
                 \"direct\"; chat a ChatKey such as telegram:chat:-100123; approval \"askers\", \"admins\" or \"none\""
            }
            _ => return None,
        };
        Some(bad_settings(&format!("{field:?} {rule}")))
    }
}

impl ChangedSettings {
    /// Checks what serde does not; `models` are the names of the models that a chat may have.
    fn check(&self, models: &[String]) -> Result<(), Problem> {
        if let Some(Some(model)) = &self.model
            && !models.contains(model)
        {
            let known = models.join(", ");
            let known = if known.is_empty() { "there are none".into() } else { format!("these are {known}") };
            return Err(bad_settings(&format!(
                "\"model\" must be one of the models that MODEL, MODEL_FALLBACK and MODELS name: {known}"
            )));
        }
        if let Some(Some(prompt)) = &self.prompt
            && (prompt.trim().is_empty() || prompt.len() > MAX_PROMPT_BYTES)
        {
            let detail =
                format!("\"prompt\" must be a text of at most {MAX_PROMPT_BYTES} bytes that is not blank");
            return Err(bad_settings(&detail));
        }
        if let Some(Some(targets)) = &self.sends_to {
            let names: HashSet<&str> = targets.iter().map(|target| target.name.as_str()).collect();
            let is_short = |target: &SendTarget| target.chat.to_string().len() <= MAX_TARGET_BYTES;
            if targets.len() > MAX_TARGETS || names.len() < targets.len() || !targets.iter().all(is_short) {
                let detail = format!(
                    "\"sendsTo\" may have at most {MAX_TARGETS} chats with different names, and ChatKeys of at most \
                     {MAX_TARGET_BYTES} bytes each"
                );
                return Err(bad_settings(&detail));
            }
        }
        Ok(())
    }

    fn change(&self, settings: &mut ChatSettings) {
        let Self { model, prompt, activation, reply_quiet, sends_to } = self.clone();
        let before = std::mem::take(settings);
        *settings = ChatSettings {
            model: model.unwrap_or(before.model),
            prompt: prompt.unwrap_or(before.prompt),
            activation: activation.unwrap_or(before.activation),
            reply_quiet: reply_quiet.unwrap_or(before.reply_quiet),
            sends_to: sends_to.map_or(before.sends_to, Option::unwrap_or_default),
        };
    }
}

/// Settings of a chat.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChatSettings)]
pub(crate) struct SettingsView {
    /// The current key of the chat.
    chat_key: ChatKey,
    /// Model that answers; null for that of `MODEL`.
    #[schema(required)]
    model: Option<String>,
    /// Text after `SYSTEM_PROMPT`.
    #[schema(required)]
    prompt: Option<String>,
    /// Null for `GROUP_ACTIVATION`.
    #[schema(required, value_type = Option<Activation>)]
    activation: Option<GroupActivation>,
    /// Null for `REPLY_QUIET`.
    #[schema(required, value_type = Option<String>)]
    reply_quiet: Option<ReplyQuiet>,
    /// Chats that this one's agent may send texts to.
    sends_to: Vec<SendTarget>,
}

impl SettingsView {
    fn new(chat_key: ChatKey, settings: ChatSettings) -> Json<Self> {
        let ChatSettings { model, prompt, activation, reply_quiet, sends_to } = settings;
        Json(Self { chat_key, model, prompt, activation, reply_quiet, sends_to })
    }
}

/// `GET /v1/chats/{chatId}/settings`
#[utoipa::path(get, path = "/v1/chats/{chatId}/settings", operation_id = "getChatSettings", tag = "histories",
    params(ChatPath), responses((status = 200, description = "The settings of the chat", body = SettingsView)))]
pub(crate) async fn one(
    State(http): State<Arc<Http>>,
    InChat { caller, chat }: InChat,
) -> Result<Json<SettingsView>, Failure> {
    caller.require_admin("read the settings of a chat")?;
    let (chat, head) = http.ingress.history().current(&chat).await.map_err(Failure::unreadable)?;
    Ok(SettingsView::new(chat, head.settings))
}

/// `PATCH /v1/chats/{chatId}/settings`: they hold from the next message and turn on.
#[utoipa::path(patch, path = "/v1/chats/{chatId}/settings", operation_id = "changeChatSettings", tag = "histories",
    params(ChatPath), request_body = ChangedSettings,
    responses((status = 200, description = "The settings of the chat, after the change", body = SettingsView)))]
pub(crate) async fn change(
    State(http): State<Arc<Http>>,
    InChat { caller, chat }: InChat,
    body: Result<Body<ChangedSettings>, Problem>,
) -> Result<Json<SettingsView>, Failure> {
    caller.require_admin("change the settings of a chat")?;
    let Body(changed) = body?;
    changed.check(&http.config.models)?;
    let history = http.ingress.history();
    let (chat, _) = history.current(&chat).await?;
    let settings = history.change_settings(&chat, |settings| changed.change(settings)).await?;
    Ok(SettingsView::new(chat, settings.ok_or_else(no_such_chat)?))
}

fn bad_settings(detail: &str) -> Problem {
    Problem::bad_request("bad-settings", "The settings are invalid", detail.to_owned())
}
