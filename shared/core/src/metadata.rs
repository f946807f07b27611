//! Metadata of a message: [`Metadata`], which names each field once, and [`FromPlatform`], the fields that channels set.
//!
//! ```json
//! {"senderName": "Ada L", "chatType": "supergroup", "replyTo": {"messageId": "41"}, "telegram": {"threadId": 17}}
//! ```
//!
//! It is stored as JSON, unknown fields included, in their order. `metadata/own.rs` names the fields that Annals adds.

mod own;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::chat_key::ChatKey;
pub use crate::names::ChatType;
use crate::names::{Channel, Kind};
use crate::sort_key::{SortKey, Timestamp};
use crate::time_zone::TimeZone;

/// Data about a message beside its content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metadata(Map<String, Value>);

/// The fields that a platform says of a message. What it does not say is left out.
///
/// They are kept small, since DynamoDB bills by the kilobyte, and contain nothing that may differ when the platform
/// delivers the event again.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FromPlatform {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_name: Option<String>,
    /// The sender's name for mentions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_username: Option<String>,
    /// The sender's language, as the platform names it, such as `zh-hans`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sender_is_bot: bool,
    /// Name under which somebody wrote on behalf of a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat_type: Option<ChatType>,
    /// Title of the chat: of a private one only if it is not the sender's name. See [`crate::title`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat_title: Option<String>,
    /// Name of the topic in the chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_title: Option<String>,
    /// The replied-to message: `messageId`, and of what the platform gives of it `senderName`, `own` (true for a message of
    /// this bot), `text` and `quote`. See [`crate::markup::about`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Value>,
    /// The origin of a forwarded message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Forward>,
    /// The bot by which a person sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via_bot: Option<String>,
    /// Links whose text is not their URL.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
}

/// Kind of a text by the program itself that others tell apart, whatever its language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Notice {
    NoAnswer,
    NotCompacted,
    /// Confirmation of a `/stop` that ended something.
    Stopped,
    /// In place of a reply that was stopped before its first word.
    StoppedUnanswered,
    LimitReached,
}

/// The origin of a forwarded message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forward {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The platform's id of the chat that it was sent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    pub text: String,
    pub url: String,
}

/// Declares the fields that readers get beside the stored metadata, once: as a record has them, and as a message brings them
/// that was listed.
macro_rules! listing {
    ($($(#[$attribute:meta])* $name:literal => $field:ident: $type:ty,)+) => {
        /// The fields of a record that readers get beside its stored metadata: see `Record::listed`.
        #[derive(Clone, Debug, Serialize)]
        pub(crate) struct Listing<'a> {
            $($(#[$attribute])* #[serde(rename = $name)] pub(crate) $field: $type,)+
        }

        /// These fields of a message that was listed, as it brings them: see [`Metadata::listed`]. An import names each of
        /// them, so that a new one does not compile until the import keeps or ignores it.
        #[allow(missing_docs, reason = "the names are those of the fields")]
        #[derive(Clone, Copy, Debug)]
        pub struct Listed<'a> {
            $(pub $field: Option<&'a Value>,)+
        }

        const LISTED: &[&str] = &[$($name),+];

        impl Metadata {
            /// Returns the fields for readers that a listed message has.
            pub fn listed(&self) -> Listed<'_> {
                Listed { $($field: self.0.get($name),)+ }
            }
        }
    };
}
listing! {
    "ts" => ts: Timestamp,
    "chatKey" => chat_key: &'a ChatKey,
    "channel" => channel: Channel,
    "chatId" => chat_id: &'a str,
    "userId" => user_id: &'a str,
    "actorKey" => actor_key: Option<String>,
    "messageId" => message_id: &'a str,
    "kind" => kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    "sentAt" => sent_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    "sourceRange" => source_range: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    "deliveryFailure" => delivery_failure: Option<Value>,
}

impl From<FromPlatform> for Metadata {
    fn from(said: FromPlatform) -> Self {
        Self(object(&said))
    }
}

impl From<Map<String, Value>> for Metadata {
    fn from(fields: Map<String, Value>) -> Self {
        Self(fields)
    }
}

/// Fields that a platform says, through its channel.
impl Metadata {
    pub fn chat_type(&self) -> Option<ChatType> {
        self.text("chatType")?.parse().ok()
    }

    /// Returns true if the platform says that one person and the bot are alone in the chat.
    pub fn is_private(&self) -> bool {
        self.chat_type() == Some(ChatType::Private)
    }

    /// Returns true if the platform says that the chat is a group.
    pub fn is_group(&self) -> bool {
        self.chat_type().is_some_and(ChatType::is_group)
    }

    pub fn is_forwarded(&self) -> bool {
        self.0.contains_key("forward")
    }

    /// Returns the name of the author of a forwarded message.
    pub fn forwarded_from(&self) -> Option<&str> {
        self.0.get("forward")?.get("from")?.as_str()
    }

    /// Returns what the platform says of the replied-to message: see [`FromPlatform::reply_to`].
    pub fn replied_to(&self) -> Option<&Value> {
        self.0.get("replyTo")
    }

    /// Returns the linked words of a message's text, each with its address: see [`FromPlatform::links`].
    pub fn links(&self) -> impl Iterator<Item = (&str, &str)> {
        let links = self.0.get("links").and_then(Value::as_array).into_iter().flatten();
        links.filter_map(|link| Some((link["text"].as_str()?, link["url"].as_str()?)))
    }

    /// Replaces the texts of the replied-to message, and removes the addresses of links.
    pub(crate) fn shorten(&mut self, replaced: impl Fn(&str) -> String) {
        self.0.remove("links");
        let fields = self.0.get_mut("replyTo").and_then(Value::as_object_mut).into_iter().flatten();
        for (_, text) in fields.filter(|(name, _)| matches!(name.as_str(), "text" | "quote")) {
            if let Some(long) = text.as_str() {
                *text = replaced(long).into();
            }
        }
    }

    /// Returns the ids that `channel` alone needs, as its crate defines them; the default if there are none.
    pub fn ids_of<T: DeserializeOwned + Default>(&self, channel: Channel) -> T {
        self.0.get(channel.as_str()).and_then(|ids| T::deserialize(ids).ok()).unwrap_or_default()
    }

    /// Sets the ids that `channel` alone needs, unless there are none.
    pub fn set_ids_of<T: Serialize>(&mut self, channel: Channel, ids: &T) {
        let ids = object(ids);
        if !ids.is_empty() {
            self.0.insert(channel.to_string(), Value::Object(ids));
        }
    }

    /// Returns the business connection that it came by, or `None` if it was sent to the bot itself. Telegram gives a
    /// person's chat with a business and the one with the bot the same id; each is one line of the chat.
    pub fn line(&self) -> Option<&str> {
        self.0.get("telegram")?.get("businessConnectionId")?.as_str()
    }

    /// Returns true if the bot can write there only in answer to a command: by an app on Discord that a person installed for
    /// themselves, outside of the direct messages with it.
    pub fn takes_answers_alone(&self) -> bool {
        let is_of_user_app = self.0.get("discord").is_some_and(|ids| ids["userInstalled"] == true);
        is_of_user_app && !self.is_private()
    }

    /// Puts it on the line of `other`: see [`Metadata::line`].
    pub fn copy_line_of(&mut self, other: &Self) {
        if let Some(line) = other.line() {
            self.set("telegram", json!({ "businessConnectionId": line }));
        }
    }

    /// Returns the time zone of the sender, if the client says it, as the console does.
    pub fn time_zone(&self) -> Option<TimeZone> {
        TimeZone::named(self.text("timeZone")?)
    }

    pub fn set_time_zone(&mut self, zone: TimeZone) {
        self.set("timeZone", zone.name());
    }

    /// Returns true if its sender recalled the message.
    pub fn is_recalled(&self) -> bool {
        self.flag("recalled")
    }

    pub fn set_recalled(&mut self) {
        self.set("recalled", true);
    }

    /// Returns the time at which an imported message of the agent was sent, by its export.
    pub fn exported_sent_at(&self) -> Option<Timestamp> {
        self.0.get(own::EXPORTED_SENT_AT)?.as_i64().and_then(Timestamp::from_millis)
    }

    /// Sets [`Metadata::exported_sent_at`], which readers get as `sentAt`.
    pub fn set_exported_sent_at(&mut self, sent_at: Timestamp) {
        self.set(own::EXPORTED_SENT_AT, sent_at.as_millis());
    }
}

/// Fields that Annals adds to what is stored.
impl Metadata {
    /// Returns true if a `/stop` ended the reply, which is as far as it had been made.
    pub fn is_stopped(&self) -> bool {
        self.flag("stopped")
    }

    /// Marks a reply as ended by the `/stop` with this id.
    pub fn set_stopped(&mut self, command_id: &str) {
        self.set("stopped", true);
        self.set_stopped_by(command_id);
    }

    /// Returns the key from which on a message that was edited or sent again replaces earlier messages.
    pub fn replaces_from(&self) -> Option<SortKey> {
        self.text("replacesFrom")?.parse().ok()
    }

    pub fn set_replaces_from(&mut self, key: &SortKey) {
        self.set("replacesFrom", key.as_str());
    }

    /// Returns true for the event that tells what was said in another chat of the person. It counts as an interaction,
    /// so that the Session that it starts begins with it.
    pub fn is_joined(&self) -> bool {
        self.0.contains_key("joined")
    }

    /// Marks the event that tells what the person `about` said in the chat `from` up to the time `until`.
    pub fn set_joined(&mut self, from: &ChatKey, about: &str, until: Timestamp) {
        self.set("joined", json!({"chatKey": from, "until": until}));
        self.set_about(about);
    }

    /// Marks the notice that an operator has taken the chat over, or has handed it back.
    pub fn set_takeover(&mut self, is_taken_over: bool) {
        self.set("takeover", if is_taken_over { "begun" } else { "ended" });
    }

    /// Returns true if an operator takes the chat over with this message, false if the operator hands it back, and `None` for
    /// every other message.
    pub fn takes_over(&self) -> Option<bool> {
        self.0.get("takeover").and_then(Value::as_str).map(|takeover| takeover == "begun")
    }

    /// Returns true if it is a notice of an operator, a schedule or an agent: see [`crate::takeover`].
    pub fn is_of_operator(&self) -> bool {
        self.0.contains_key("dispatch") || self.0.contains_key("takeover")
    }

    /// Copies the fields of `other` by which `channel` finds the chat of a message.
    pub fn copy_address_of(&mut self, other: &Self, channel: Channel) {
        for name in [channel.as_str(), "chatType"] {
            if let Some(value) = other.0.get(name) {
                self.0.insert(name.into(), value.clone());
            }
        }
    }

    /// Notes the program from whose export the message was read, such as `telegram`.
    pub fn set_imported(&mut self, program: &str) {
        self.set("imported", program);
    }

    /// Notes the agent whose profile made a reply.
    pub fn set_agent(&mut self, agent: &str) {
        self.set("agent", agent);
    }

    pub(crate) fn remove_cause(&mut self) {
        self.0.remove("cause");
    }

    /// Returns the kind of the program's own text, if the message has nothing else.
    pub fn notice(&self) -> Option<Notice> {
        self.parsed("notice")
    }

    pub fn set_notice(&mut self, notice: Notice) {
        self.set("notice", json!(notice));
    }

    /// Says which messages the model of a reply was not shown, or not in full.
    pub fn set_left_out(&mut self, count: usize, shortened: &[String]) {
        self.set("context", json!({"leftOut": count, "shortened": shortened}));
    }
}

/// Fields that readers get beside the stored metadata.
impl Metadata {
    /// Adds the fields for readers, in place of fields of these names that a client said when they had no meaning yet.
    pub(crate) fn list(&mut self, listing: &Listing<'_>) {
        self.unlist();
        self.0.shift_remove(own::EXPORTED_SENT_AT);
        self.0.extend(object(listing));
    }

    pub fn unlist(&mut self) {
        self.0.retain(|name, _| !LISTED.contains(&name.as_str()));
    }

    /// Returns a client's own fields: those to which Annals gives no meaning. A client must not set the others.
    #[must_use]
    pub fn of_client(&self) -> Self {
        let is_channel = |name: &str| name.parse::<Channel>().is_ok();
        let is_own = |name: &str| LISTED.contains(&name) || own::NAMES.contains(&name) || is_channel(name);
        let fields = self.0.iter().filter(|(name, _)| !is_own(name));
        Self(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    pub(crate) fn copy_author_of(&mut self, other: &Self) {
        for name in ["userId", "actorKey", "senderName"] {
            match other.0.get(name) {
                Some(value) => self.0.insert(name.into(), value.clone()),
                None => self.0.remove(name),
            };
        }
    }

    /// Returns the kind of a listed message.
    pub fn kind(&self) -> Option<Kind> {
        self.text("kind")?.parse().ok()
    }

    /// Returns the time of a listed message.
    pub fn ts(&self) -> Option<Timestamp> {
        self.0.get("ts")?.as_i64().and_then(Timestamp::from_millis)
    }

    /// Returns the time at which a listed message of the agent was sent.
    pub fn sent_at(&self) -> Option<Timestamp> {
        self.0.get("sentAt")?.as_i64().and_then(Timestamp::from_millis)
    }

    /// Returns the channel of a listed message.
    pub fn channel(&self) -> Option<Channel> {
        self.text("channel")?.parse().ok()
    }

    /// Returns the key that the chat of a listed message had when it was sent, which may not be one.
    pub fn chat_key(&self) -> Option<&str> {
        self.text("chatKey")
    }

    /// Returns the platform's id of the sender of a listed message.
    pub fn user_id(&self) -> Option<&str> {
        self.text("userId")
    }

    /// Returns the id that all forms of a listed message share.
    pub fn message_id(&self) -> Option<&str> {
        self.text("messageId")
    }
}

impl Metadata {
    /// Returns all fields, in order.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns true if it has no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the fields of `other`, which replace those of the same name.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.0.values_mut()
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    fn flag(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    fn parsed<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        T::deserialize(self.0.get(name)?).ok()
    }
}

/// Returns the fields of `value`, which must be a struct of values with JSON forms.
fn object<T: Serialize>(value: &T) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_sets_no_field_of_annals() {
        let fields = |metadata: &Metadata| metadata.fields().keys().cloned().collect::<Vec<_>>();
        let source = include_str!("metadata.rs").split("#[cfg(test)]").next().unwrap();
        // Whatever this file reads or writes by its name.
        let accesses =
            ["get(\"", "set(\"", "flag(\"", "contains_key(\"", "text(\"", "parsed(\"", "remove(\""];
        let mut names: Vec<String> = Vec::new();
        for access in accesses {
            let literals = source.split(access).skip(1).filter_map(|rest| rest.split('"').next());
            names.extend(literals.map(str::to_owned));
        }
        assert!(names.len() > 30, "{names:?}");
        // Fields of the values of `telegram`, `forward` and `reply`.
        names.retain(|name| !["businessConnectionId", "from"].contains(&name.as_str()));
        let everything = FromPlatform {
            sender_name: Some(String::new()),
            sender_username: Some(String::new()),
            language: Some(String::new()),
            sender_is_bot: true,
            signature: Some(String::new()),
            chat_type: Some(ChatType::Group),
            chat_title: Some(String::new()),
            topic_title: Some(String::new()),
            reply_to: Some(Value::Null),
            forward: Some(Forward::default()),
            via_bot: Some(String::new()),
            links: vec![Link { text: String::new(), url: String::new() }],
        };
        let mut stored = fields(&Metadata::from(everything));
        stored.extend(own::NAMES.iter().map(ToString::to_string));
        let taken: Vec<&String> = stored.iter().filter(|name| LISTED.contains(&name.as_str())).collect();
        assert!(taken.is_empty(), "listing a field removes a stored one of its name: {taken:?}");
        names.extend(stored);
        names.extend(Channel::ALL.iter().map(ToString::to_string));
        names.extend(LISTED.iter().map(ToString::to_string));
        let mut said: Map<String, Value> = names.into_iter().map(|name| (name, json!(1))).collect();
        said.insert("draftId".into(), json!({"a": [1]}));
        assert_eq!(fields(&Metadata::from(said).of_client()), ["draftId"]);
    }

    #[test]
    fn each_listed_field_is_described_to_readers() {
        let described = [
            (include_str!("../../../functions/http/src/schema.rs"), "struct UiMessage {"),
            (include_str!("../../../console/src/api.ts"), "interface Metadata {"),
            (include_str!("../../../client/src/message.ts"), "interface Metadata {"),
        ];
        for (source, start) in described {
            let own = source.split(start).nth(1).and_then(|rest| rest.split("\n}").next()).unwrap();
            let words: Vec<&str> = own.split(|c: char| !c.is_alphanumeric()).collect();
            let missing: Vec<_> = LISTED.iter().filter(|name| !words.contains(name)).collect();
            assert!(missing.is_empty(), "{own}\n}} has no {missing:?}");
        }
    }

    #[test]
    fn what_readers_get_is_removed_again() {
        let chat = ChatKey::telegram(42, None);
        let listing = Listing {
            ts: Timestamp::MIN,
            chat_key: &chat,
            channel: Channel::Telegram,
            chat_id: "42",
            user_id: "7",
            actor_key: None,
            message_id: "1",
            kind: Kind::Normal,
            sent_at: Some(Timestamp::MIN),
            source_range: Some(json!({})),
            delivery_failure: Some(json!({})),
        };
        let said = FromPlatform { sender_name: Some("Ada".into()), ..FromPlatform::default() };
        let stored = Metadata::from(said);
        let mut listed = stored.clone();
        listed.list(&listing);
        assert_eq!(listed.fields().len(), 1 + LISTED.len(), "a field of `Listing` is left out");
        assert_eq!(listed.listed().message_id, Some(&json!("1")));
        listed.unlist();
        assert_eq!(listed, stored);
    }
}
