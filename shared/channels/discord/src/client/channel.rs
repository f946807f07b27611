//! Reads channels, their messages and the permissions of their members, and shows the typing indicator.

use annals_channel::json::JsonView;
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use super::{CallError, Client};

/// `ADMINISTRATOR` and `MANAGE_GUILD`.
///
/// Source: <https://discord.com/developers/docs/topics/permissions>.
const ADMINISTRATOR: u64 = (1 << 3) | (1 << 5);

/// A channel, as far as it is needed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ChannelInfo {
    /// Type of the channel.
    #[serde(rename = "type")]
    pub kind: i64,
    /// The guild that it belongs to.
    pub guild_id: Option<String>,
    /// The other person of direct messages.
    #[serde(default)]
    recipients: Vec<Recipient>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Recipient {
    id: String,
}

impl ChannelInfo {
    /// Returns the person with whom the bot has these direct messages.
    pub fn recipient(&self) -> Option<&str> {
        let mut ids = self.recipients.iter().map(|recipient| recipient.id.as_str());
        ids.next().filter(|_| self.guild_id.is_none() && self.recipients.len() == 1)
    }
}

impl Client {
    /// Reads a channel.
    pub async fn channel(&self, channel_id: &str) -> Result<ChannelInfo, CallError> {
        self.as_bot("get channel", Method::GET, self.api.url(&["channels", channel_id]), None).await
    }

    /// Reads the messages of a channel after the message `after`, at most `limit` (1 to 100) of them, in any order.
    pub async fn messages_after(
        &self,
        channel_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Value>, CallError> {
        let mut url = self.api.url(&["channels", channel_id, "messages"]);
        let (after, limit) = (after.to_string(), limit.to_string());
        url.query_pairs_mut().extend_pairs([("after", &after), ("limit", &limit)]);
        self.as_bot("get channel messages", Method::GET, url, None).await
    }

    /// Shows the typing indicator for ten seconds.
    pub async fn send_typing(&self, channel_id: &str) -> Result<(), CallError> {
        let url = self.api.url(&["channels", channel_id, "typing"]);
        self.as_bot::<Value>("trigger typing indicator", Method::POST, url, None).await.map(|_| ())
    }

    /// Returns true if this member owns the guild of the channel, or has a role that may administer it.
    pub async fn is_administrator(&self, channel_id: &str, user_id: &str) -> Result<bool, CallError> {
        let Some(guild_id) = self.channel(channel_id).await?.guild_id else { return Ok(false) };
        let url = self.api.url(&["guilds", &guild_id]);
        let guild: Value = self.as_bot("get guild", Method::GET, url, None).await?;
        let Some(guild) = JsonView::of(&guild) else { return Ok(false) };
        if guild.id("owner_id") == Some(user_id) {
            return Ok(true);
        }
        let url = self.api.url(&["guilds", &guild_id, "members", user_id]);
        let member: Value = self.as_bot("get guild member", Method::GET, url, None).await?;
        let own = member["roles"].as_array().cloned().unwrap_or_default();
        // Everybody has the role with the id of the guild.
        let has = |role: &JsonView<'_>| {
            let id = role.id("id");
            id == Some(guild_id.as_str()) || own.iter().any(|own| own.as_str() == id && id.is_some())
        };
        let permissions = |role: JsonView<'_>| role.text("permissions")?.parse::<u64>().ok();
        let mut roles = guild.objects("roles").filter(has).filter_map(permissions);
        Ok(roles.any(|permissions| permissions & ADMINISTRATOR != 0))
    }
}
