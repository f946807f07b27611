//! Events of the gateway, reduced to the parts that a relay needs: [`Received`].

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// A dispatch.
#[derive(Debug)]
pub(crate) struct Received {
    /// Sequence number.
    pub(crate) seq: u64,
    pub(crate) event: Event,
}

#[derive(Debug)]
pub(crate) enum Event {
    /// A session began.
    Ready(Ready),
    /// A guild became available.
    Guild(Guild),
    /// The bot is not in this guild any more.
    GuildLeft(u64),
    /// Messages were created, changed or deleted: the whole dispatch, or one dispatch for each of those deleted in bulk.
    Messages(Vec<Value>),
    /// Another event.
    Other,
}

/// `READY`
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    pub(crate) session_id: String,
    pub(crate) resume_gateway_url: String,
    pub(crate) guilds: Vec<ReadyGuild>,
}

/// A guild of `READY`, which arrives later as a `GUILD_CREATE`.
#[derive(Debug, Deserialize)]
pub(crate) struct ReadyGuild {
    #[serde(deserialize_with = "id")]
    pub(crate) id: u64,
}

/// `GUILD_CREATE`
#[derive(Debug, Deserialize)]
pub(crate) struct Guild {
    #[serde(deserialize_with = "id")]
    pub(crate) id: u64,
    /// True while it has an outage; then the rest is missing.
    #[serde(default)]
    pub(crate) unavailable: bool,
    #[serde(default)]
    pub(crate) channels: Vec<Channel>,
    /// Active threads that the bot can see.
    #[serde(default)]
    pub(crate) threads: Vec<Channel>,
    #[serde(default)]
    pub(crate) roles: Vec<Role>,
    /// The bot, and others.
    #[serde(default)]
    pub(crate) members: Vec<Member>,
}

/// `MESSAGE_DELETE_BULK`
#[derive(Debug, Deserialize)]
struct DeletedInBulk {
    ids: Vec<String>,
    /// `channel_id`, and `guild_id` in a guild.
    #[serde(flatten)]
    window: serde_json::Map<String, Value>,
}

/// A role. The one with the id of the guild is that of everybody.
#[derive(Debug, Deserialize)]
pub(crate) struct Role {
    pub(crate) id: String,
    #[serde(deserialize_with = "id")]
    pub(crate) permissions: u64,
}

/// A member of a guild.
#[derive(Debug, Deserialize)]
pub(crate) struct Member {
    pub(crate) user: User,
    #[serde(default)]
    pub(crate) roles: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct User {
    pub(crate) id: String,
}

/// Permissions of a role or of a member that differ in a channel.
#[derive(Debug, Deserialize)]
pub(crate) struct Overwrite {
    /// Id of the role or of the member.
    pub(crate) id: String,
    #[serde(deserialize_with = "id")]
    pub(crate) allow: u64,
    #[serde(deserialize_with = "id")]
    pub(crate) deny: u64,
}

/// A channel or a thread.
#[derive(Debug, Deserialize)]
pub(crate) struct Channel {
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) kind: u8,
    #[serde(default, deserialize_with = "optional_id")]
    pub(crate) last_message_id: Option<u64>,
    /// The category of a channel, or the channel of a thread.
    #[serde(default)]
    pub(crate) parent_id: Option<String>,
    #[serde(default)]
    pub(crate) permission_overwrites: Vec<Overwrite>,
}

#[derive(Deserialize)]
struct Frame {
    op: u8,
    #[serde(default)]
    t: Option<String>,
    #[serde(default)]
    s: Option<u64>,
}

#[derive(Deserialize)]
struct Data<T> {
    d: T,
}

/// A frame of the gateway.
#[derive(Debug)]
pub(crate) enum Message {
    Dispatch(Received),
    /// The session cannot be resumed.
    InvalidSession,
    /// A frame that the connection itself handles.
    Control,
}

/// Reads a frame. An error never quotes the frame.
pub(crate) fn read(text: &str) -> Result<Message, serde_json::Error> {
    let frame: Frame = serde_json::from_str(text)?;
    let (kind, seq) = match (frame.op, frame.t, frame.s) {
        (0, Some(kind), Some(seq)) => (kind, seq),
        (9, ..) if !data::<bool>(text)? => return Ok(Message::InvalidSession),
        _ => return Ok(Message::Control),
    };
    let event = match kind.as_str() {
        "READY" => Event::Ready(data(text)?),
        "GUILD_CREATE" => Event::Guild(data(text)?),
        "GUILD_DELETE" => match data::<Guild>(text)? {
            Guild { unavailable: true, .. } => Event::Other,
            left => Event::GuildLeft(left.id),
        },
        "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" => {
            Event::Messages(vec![serde_json::from_str(text)?])
        }
        "MESSAGE_DELETE_BULK" => Event::Messages(deletions(data(text)?, seq)),
        _ => Event::Other,
    };
    Ok(Message::Dispatch(Received { seq, event }))
}

/// Returns a `MESSAGE_DELETE` for each message of a `MESSAGE_DELETE_BULK`.
fn deletions(bulk: DeletedInBulk, seq: u64) -> Vec<Value> {
    let DeletedInBulk { ids, window } = bulk;
    let deletion = |id: String| {
        let mut message = window.clone();
        message.insert("id".into(), id.into());
        json!({"op": 0, "t": "MESSAGE_DELETE", "s": seq, "d": message})
    };
    ids.into_iter().map(deletion).collect()
}

fn data<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str::<Data<T>>(text).map(|data| data.d)
}

fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| serde::de::Error::custom("an id is not a number"))
}

fn optional_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dispatch(kind: &str, data: &Value) -> Received {
        let text = json!({"t": kind, "s": 7, "op": 0, "d": data}).to_string();
        match read(&text) {
            Ok(Message::Dispatch(received)) => received,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_are_whole_and_the_rest_is_reduced() {
        let created = dispatch("MESSAGE_CREATE", &json!({"id": "1", "content": "hi"}));
        assert_eq!(created.seq, 7);
        let Event::Messages(whole) = created.event else { panic!("{created:?}") };
        assert_eq!(
            whole,
            [json!({"t": "MESSAGE_CREATE", "s": 7, "op": 0, "d": {"id": "1", "content": "hi"}})]
        );
        assert!(matches!(dispatch("TYPING_START", &json!({})).event, Event::Other));

        let channels = json!([{"id": "11", "type": 0, "last_message_id": "99"}, {"id": "12", "type": 2}]);
        let threads = json!([{"id": "13", "type": 11, "last_message_id": null}]);
        let guild = json!({"id": "5", "name": "g", "channels": channels, "threads": threads});
        let Event::Guild(guild) = dispatch("GUILD_CREATE", &guild).event else { panic!() };
        let last: Vec<_> = guild.channels.iter().chain(&guild.threads).map(|c| c.last_message_id).collect();
        assert_eq!((guild.id, guild.unavailable, last), (5, false, vec![Some(99), None, None]));
    }

    #[test]
    fn messages_deleted_in_bulk_are_deleted_one_by_one() {
        let bulk =
            dispatch("MESSAGE_DELETE_BULK", &json!({"ids": ["1", "2"], "channel_id": "3", "guild_id": "4"}));
        let Event::Messages(deletions) = bulk.event else { panic!("{bulk:?}") };
        let deletion = |id| {
            let message = json!({"id": id, "channel_id": "3", "guild_id": "4"});
            json!({"t": "MESSAGE_DELETE", "s": 7, "op": 0, "d": message})
        };
        assert_eq!(deletions, [deletion("1"), deletion("2")]);
    }

    #[test]
    fn an_outage_of_a_guild_is_no_departure() {
        let outage = dispatch("GUILD_DELETE", &json!({"id": "5", "unavailable": true})).event;
        assert!(matches!(outage, Event::Other));
        assert!(matches!(dispatch("GUILD_DELETE", &json!({"id": "5"})).event, Event::GuildLeft(5)));
    }

    #[test]
    fn an_invalid_session_may_be_resumable() {
        assert!(matches!(read(r#"{"t":null,"s":null,"op":9,"d":false}"#), Ok(Message::InvalidSession)));
        assert!(matches!(read(r#"{"t":null,"s":null,"op":9,"d":true}"#), Ok(Message::Control)));
        assert!(matches!(read(r#"{"t":null,"s":null,"op":11}"#), Ok(Message::Control)));
    }
}
