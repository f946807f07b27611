//! Metadata of a message: sender, replied-to message, and what only a reply on Discord needs.
//!
//! ```json
//! {"senderName": "Ada", "senderUsername": "ada", "chatType": "group", "chatTitle": "general", "replyTo": {"messageId": "1457…"},
//!  "discord": {"interaction": true, "userInstalled": true}}
//! ```

use annals_channel::json::JsonView;
use annals_core::metadata::{ChatType, Forward, FromPlatform, Metadata};
use annals_core::record::Channel;
use annals_core::title;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Facts that only a reply on Discord needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Ids {
    /// True if the message is an interaction, which no reply can refer to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) interaction: bool,
    /// True if the app is installed for the user alone, which limits the number of follow-ups.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) user_installed: bool,
}

/// The sender of a call or of a message.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    pub(super) id: &'a str,
    name: Option<&'a str>,
    username: Option<&'a str>,
    pub(super) is_bot: bool,
}

impl<'a> Sender<'a> {
    /// Reads `user`, with the name that it has in the guild, if it is a `member` of one.
    pub(super) fn of(user: JsonView<'a>, member: Option<JsonView<'a>>) -> Option<Self> {
        let username = user.text("username");
        let nick = member.and_then(|member| member.text("nick"));
        Some(Self {
            id: user.id("id")?,
            name: nick.or_else(|| user.text("global_name")).or(username),
            username,
            is_bot: user.flag("bot"),
        })
    }

    /// Returns the name that people see.
    pub(super) fn shown_name(self) -> &'a str {
        self.name.unwrap_or("somebody")
    }
}

/// Returns the metadata of a message of `sender` in a chat of this type and name. An interaction has its sender's `language`.
/// `forward` is set if the words are another person's.
pub(super) fn of(
    sender: Sender<'_>,
    (chat_type, name): (ChatType, Option<&str>),
    language: Option<&str>,
    (reply_to, forward): (Option<Value>, Option<Forward>),
    ids: &Ids,
) -> Metadata {
    let mut metadata = Metadata::from(FromPlatform {
        sender_name: sender.name.map(str::to_owned),
        sender_username: sender.username.map(str::to_owned),
        language: language.map(str::to_owned),
        sender_is_bot: sender.is_bot,
        chat_type: Some(chat_type),
        chat_title: name.filter(|_| chat_type.is_group()).and_then(title::clean),
        reply_to,
        forward,
        ..FromPlatform::default()
    });
    metadata.set_ids_of(Channel::Discord, ids);
    metadata
}
