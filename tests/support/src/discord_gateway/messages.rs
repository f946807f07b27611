//! Guilds, channels and messages: [`Messages`], and how a test adds to them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{BOT_ID, DiscordGateway};

/// Milliseconds of Discord's epoch.
const EPOCH: i64 = 1_420_070_400_000;

/// Permission without which nobody sees a channel.
const VIEW_CHANNEL: u64 = 1 << 10;
/// Name of the bot in guilds, which the REST API does not tell.
const NICK: &str = "Bo";

/// Guilds, channels and messages.
#[derive(Default)]
pub struct Messages {
    /// True if the intent `MESSAGE_CONTENT` is on in the developer portal.
    pub may_read_content: bool,
    pub(super) now: i64,
    ids: u64,
    /// Each guild, and true if it is unavailable.
    guilds: BTreeMap<u64, bool>,
    channels: BTreeMap<u64, Channel>,
}

struct Channel {
    guild: Option<u64>,
    kind: u8,
    is_hidden: bool,
    messages: BTreeMap<u64, Value>,
}

/// A message as a person sends it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Post<'a> {
    /// The channel.
    pub channel: u64,
    /// The author's id.
    pub author: u64,
    /// The text.
    pub text: &'a str,
    /// True if it mentions the bot.
    pub mentions_bot: bool,
    /// True if it replies to a message of the bot.
    pub replies_to_bot: bool,
}

impl Messages {
    pub(super) fn guild_ids(&self) -> impl Iterator<Item = String> {
        self.guilds.keys().map(u64::to_string)
    }

    pub(super) fn guild_creates(&self) -> Vec<Value> {
        let available = self.guilds.iter().filter(|(_, is_unavailable)| !**is_unavailable);
        available.map(|(id, _)| self.guild_create(*id)).collect()
    }

    pub(super) fn guild_create(&self, guild: u64) -> Value {
        let listed = |are_threads: bool| -> Vec<Value> {
            let mut listed = Vec::new();
            for (id, channel) in &self.channels {
                if channel.guild == Some(guild) && matches!(channel.kind, 10..=12) == are_threads {
                    let last = channel.messages.keys().next_back().map(u64::to_string);
                    let (id, kind) = (id.to_string(), channel.kind);
                    let hides = json!({"id": guild.to_string(), "type": 0, "allow": "0", "deny": VIEW_CHANNEL.to_string()});
                    let overwrites = if channel.is_hidden { json!([hides]) } else { json!([]) };
                    listed.push(json!({"id": id, "type": kind, "name": "general", "last_message_id": last,
                        "permission_overwrites": overwrites}));
                }
            }
            listed
        };
        json!({
            "id": guild.to_string(), "name": "Guild", "owner_id": "7", "large": false, "member_count": 2,
            "channels": listed(false), "threads": listed(true),
            "members": [{"user": {"id": BOT_ID}, "roles": []}],
            "roles": [{"id": guild.to_string(), "name": "@everyone", "permissions": VIEW_CHANNEL.to_string()}],
        })
    }

    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        (u64::try_from(self.now - EPOCH).unwrap() << 22) + self.ids
    }

    fn message(&self, id: u64, post: &Post<'_>) -> Value {
        let channel = &self.channels[&post.channel];
        let bot = json!({"id": BOT_ID, "username": "annals", "discriminator": "0", "bot": true});
        let mut mentioned = bot.clone();
        if channel.guild.is_some() {
            mentioned["member"] = json!({"nick": NICK, "roles": []});
        }
        let mentions = if post.mentions_bot { json!([mentioned]) } else { json!([]) };
        let mut message = json!({
            "type": if post.replies_to_bot { 19 } else { 0 }, "tts": false, "pinned": false, "flags": 0,
            "timestamp": "2026-11-23T12:00:00.000000+00:00", "edited_timestamp": null, "mention_everyone": false,
            "mentions": mentions, "mention_roles": [], "id": id.to_string(), "embeds": [], "components": [],
            "attachments": [], "content": post.text, "channel_id": post.channel.to_string(),
            "author": {"id": post.author.to_string(), "username": "ann", "global_name": "Ann", "discriminator": "0"},
        });
        if post.replies_to_bot {
            message["referenced_message"] = json!({"id": "5", "author": bot, "content": "earlier"});
        }
        message["channel_type"] = json!(channel.kind);
        if let Some(guild) = channel.guild {
            message["guild_id"] = json!(guild.to_string());
            message["member"] =
                json!({"nick": null, "roles": [], "joined_at": "2026-01-01T00:00:00.000000+00:00"});
        }
        message
    }
}

impl DiscordGateway {
    /// Adds a guild that the bot is in.
    pub fn add_guild(&self, guild: u64) {
        self.change(|world| {
            world.messages.guilds.insert(guild, false);
        });
    }

    /// Begins or ends an outage of a guild. At its end, all sessions get its `GUILD_CREATE`.
    pub fn set_unavailable(&self, guild: u64, is_unavailable: bool) {
        self.change(|world| {
            *world.messages.guilds.get_mut(&guild).unwrap() = is_unavailable;
            if !is_unavailable {
                let create = world.messages.guild_create(guild);
                world.dispatch("GUILD_CREATE", &create);
            }
        });
    }

    /// Adds a channel or thread of the type `kind` to `guild`, or a channel of direct messages.
    pub fn add_channel(&self, channel: u64, guild: Option<u64>, kind: u8) {
        let added = Channel { guild, kind, is_hidden: false, messages: BTreeMap::new() };
        self.change(|world| {
            world.messages.channels.insert(channel, added);
        });
    }

    /// Hides a channel from the bot.
    pub fn hide_channel(&self, channel: u64) {
        self.change(|world| world.messages.channels.get_mut(&channel).unwrap().is_hidden = true);
    }

    /// Sets the time of the next messages, in milliseconds since the epoch.
    pub fn set_time(&self, now: i64) {
        self.change(|world| world.messages.now = now);
    }

    /// Sends a message. Returns its id.
    pub fn post(&self, post: Post<'_>) -> u64 {
        let mut id = 0;
        self.change(|world| {
            id = world.messages.next_id();
            let message = world.messages.message(id, &post);
            world.messages.channels.get_mut(&post.channel).unwrap().messages.insert(id, message.clone());
            world.dispatch("MESSAGE_CREATE", &message);
        });
        id
    }

    /// Changes the text of a message.
    pub fn edit(&self, channel: u64, id: u64, text: &str) {
        self.change(|world| {
            let messages = &mut world.messages.channels.get_mut(&channel).unwrap().messages;
            let message = messages.get_mut(&id).unwrap();
            message["content"] = json!(text);
            message["edited_timestamp"] = json!("2026-11-23T12:01:00.000000+00:00");
            let message = message.clone();
            world.dispatch("MESSAGE_UPDATE", &message);
        });
    }

    /// Deletes a message.
    pub fn delete(&self, channel: u64, id: u64) {
        self.change(|world| {
            let messages = &mut world.messages.channels.get_mut(&channel).unwrap().messages;
            let message = messages.remove(&id).unwrap();
            let mut deleted = json!({"id": id.to_string(), "channel_id": channel.to_string()});
            if let Some(guild) = message.get("guild_id") {
                deleted["guild_id"] = guild.clone();
            }
            world.dispatch("MESSAGE_DELETE", &deleted);
        });
    }

    /// Deletes messages of a guild at once, as a moderator does.
    pub fn delete_in_bulk(&self, channel: u64, ids: &[u64]) {
        self.change(|world| {
            let messages = &mut world.messages.channels.get_mut(&channel).unwrap().messages;
            let removed: Vec<Value> = ids.iter().map(|id| messages.remove(id).unwrap()).collect();
            let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
            let guild = &removed[0]["guild_id"];
            let deleted = json!({"ids": ids, "channel_id": channel.to_string(), "guild_id": guild});
            world.dispatch("MESSAGE_DELETE_BULK", &deleted);
        });
    }

    /// Returns the oldest messages of a channel after an id as `GET /channels/{id}/messages` does: the newest first, at most
    /// `limit`, without the fields that only the gateway adds. `None` if the bot cannot see the channel.
    pub fn messages_after(&self, channel: u64, after: u64, limit: usize) -> Option<Vec<Value>> {
        let world = self.shared.world();
        let channel = world.messages.channels.get(&channel).filter(|channel| !channel.is_hidden)?;
        let page = channel.messages.range(after + 1..).take(limit).map(|(_, message)| {
            let may_read = world.messages.may_read_content || is_for_the_bot(message);
            let mut message = if may_read { message.clone() } else { without_text(message) };
            let fields = message.as_object_mut().unwrap();
            for name in ["guild_id", "member", "channel_type"] {
                fields.remove(name);
            }
            for mention in fields["mentions"].as_array_mut().into_iter().flatten() {
                mention.as_object_mut().unwrap().remove("member");
            }
            message
        });
        let mut page: Vec<Value> = page.collect();
        page.reverse();
        Some(page)
    }
}

/// Returns true if the bot sees the text of a message without `MESSAGE_CONTENT`.
pub(super) fn is_for_the_bot(message: &Value) -> bool {
    let mentions = message["mentions"].as_array();
    message.get("guild_id").is_none()
        || message["author"]["id"] == BOT_ID
        || message["referenced_message"]["author"]["id"] == BOT_ID
        || mentions.is_some_and(|mentions| mentions.iter().any(|user| user["id"] == BOT_ID))
}

/// Returns a message without the fields that `MESSAGE_CONTENT` reveals.
pub(super) fn without_text(message: &Value) -> Value {
    let mut message = message.clone();
    for (field, empty) in
        [("content", json!("")), ("attachments", json!([])), ("embeds", json!([])), ("components", json!([]))]
    {
        if message.get(field).is_some() {
            message[field] = empty;
        }
    }
    message
}
