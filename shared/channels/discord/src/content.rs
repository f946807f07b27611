//! Content of a message, as parts that a model can read: [`Content`].
//!
//! A text is verbatim, except that mentions are replaced by names. An attachment becomes a file part whose URL is
//! `discord:attachments/<channel>/<attachment>/<name>`, without the query, which Discord changes from day to day. A sticker,
//! a poll and a service message become a line in brackets.
//!
//! Source: [message object](https://discord.com/developers/docs/resources/message#message-object).

use annals_channel::json::JsonView;
use annals_core::message::Part;
use serde_json::{Map, Value};

use crate::metadata::Sender;

#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) parts: Vec<Part>,
    /// True for a service message, which nobody said.
    pub(super) is_event: bool,
    /// The text as it was typed, with the ids of mentions.
    pub(super) said: String,
}

/// Types of messages that people write: ordinary ones and replies.
const TYPED: [i64; 2] = [0, 19];
/// Types of the responses to commands.
const RESPONSES: [i64; 2] = [20, 23];
/// Type of the first message of a thread that was opened on a message, which it refers to. It has no content of its own.
const THREAD_STARTER: i64 = 21;

impl Content {
    /// Returns the content of `message`; without parts if Discord withholds it.
    pub(super) fn of(message: JsonView<'_>) -> Self {
        let kind = message.int("type").unwrap_or(0);
        if kind == THREAD_STARTER {
            return message.object("referenced_message").map(Self::of_thread).unwrap_or_default();
        }
        let said = message.text("content").unwrap_or_default().to_owned();
        if !TYPED.contains(&kind) && !RESPONSES.contains(&kind) {
            let text = with_words(service(kind), &named(&said, message));
            return Self { parts: vec![Part::text(text)], is_event: true, said };
        }
        let mut texts = Vec::new();
        if !said.trim().is_empty() {
            texts.push(named(&said, message));
        }
        texts.extend(displays(message).into_iter().map(|text| named(text, message)));
        texts.extend(message.objects("message_snapshots").filter_map(snapshot));
        texts.extend(stickers(message));
        texts.extend(message.object("poll").map(poll));
        // Those of a person are previews of links, which come later and change.
        let is_of_bot = message.object("author").is_some_and(|author| author.flag("bot"));
        texts.extend(message.objects("embeds").filter(|_| is_of_bot).filter_map(embed));
        let mut parts = Vec::new();
        if !texts.is_empty() {
            parts.push(Part::text(texts.join("\n")));
        }
        parts.extend(message.objects("attachments").filter_map(|file| attachment(file, false)));
        Self { parts, is_event: false, said }
    }

    /// Returns the event that a thread was opened on the message `original`.
    fn of_thread(original: JsonView<'_>) -> Self {
        let author = original.object("author").and_then(|author| Sender::of(author, None));
        let mut parts = Self::of(original).parts;
        if !parts.is_empty() {
            let name = author.map_or("somebody", Sender::shown_name);
            parts.insert(0, Part::text(format!("[this thread was opened on a message of {name}]")));
        }
        Self { parts, is_event: true, said: String::new() }
    }
}

/// Replaces the mentions in `text` by the names that `message` gives them: `<@42>` by `@Ada`.
pub(super) fn named(text: &str, message: JsonView<'_>) -> String {
    with_names(text, message.objects("mentions").map(|user| (user, user.object("member"))))
}

/// Replaces the mentions of these users in `text`, each with what it is in the guild.
pub(super) fn with_names<'a>(
    text: &str,
    users: impl Iterator<Item = (JsonView<'a>, Option<JsonView<'a>>)>,
) -> String {
    let mut named = text.to_owned();
    for (user, member) in users {
        let nick = member.and_then(|member| member.text("nick"));
        let name = nick.or_else(|| user.text("global_name")).or_else(|| user.text("username"));
        if let (Some(id), Some(name)) = (user.id("id"), name) {
            for mention in [format!("<@{id}>"), format!("<@!{id}>")] {
                named = named.replace(&mention, &format!("@{name}"));
            }
        }
    }
    named
}

/// Returns the file part of an attachment. `keeps_url` keeps its whole URL, which is good for a day, for attachments of
/// interactions: nothing delivers them again, and no other URL leads to them.
pub(super) fn attachment(file: JsonView<'_>, keeps_url: bool) -> Option<Part> {
    let url = file.text("url")?;
    let path = url.split_once("://")?.1.split_once('/')?.1;
    let path = path.split(['?', '#']).next()?;
    let media_type = file.text("content_type").and_then(|kind| kind.split(';').next());
    let media_type = media_type.unwrap_or("application/octet-stream");
    let kind = media_type.split('/').next().filter(|kind| matches!(*kind, "image" | "audio" | "video"));
    let mut discord = Map::new();
    discord.insert("kind".into(), kind.unwrap_or("file").into());
    if let Some(id) = file.id("id") {
        discord.insert("fileUniqueId".into(), id.into());
    }
    if let Some(size) = file.int("size") {
        discord.insert("size".into(), size.into());
    }
    if let Some(duration) = file.raw("duration_secs").and_then(Value::as_f64) {
        #[allow(clippy::cast_possible_truncation, reason = "a voice message is at most some minutes long")]
        let duration = duration.clamp(0.0, 1e6).round() as i64;
        discord.insert("duration".into(), duration.into());
    }
    if keeps_url {
        discord.insert("url".into(), url.into());
    }
    let name = file.text("title").or_else(|| file.text("filename"));
    Some(Part::file(media_type, name, format!("discord:{path}"), ("discord", &Value::Object(discord))))
}

/// Returns the text of a forwarded message.
fn snapshot(snapshot: JsonView<'_>) -> Option<String> {
    let message = snapshot.object("message")?;
    let text = named(message.text("content").unwrap_or_default(), message);
    // The others are previews of links.
    let is_written = |embed: &JsonView<'_>| embed.text("type").is_none_or(|kind| kind == "rich");
    let embeds = message.objects("embeds").filter(is_written).filter_map(embed);
    let files = message.objects("attachments").filter_map(|file| file.text("filename"));
    let files = files.map(|name| format!("[file: {name}]"));
    let displays = displays(message).into_iter().map(|text| named(text, message));
    let lines = [text].into_iter().chain(displays).chain(stickers(message)).chain(embeds).chain(files);
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    Some(with_words("forwarded message", &lines.join("\n")))
}

/// Returns a line for each sticker.
fn stickers(message: JsonView<'_>) -> impl Iterator<Item = String> {
    let names = message.objects("sticker_items").filter_map(|sticker| sticker.text("name"));
    names.map(|name| format!("[sticker: {name}]"))
}

fn poll(poll: JsonView<'_>) -> String {
    let question = poll.object("question").and_then(|question| question.text("text")).unwrap_or_default();
    let answers = poll.objects("answers").filter_map(|answer| answer.object("poll_media")?.text("text"));
    let lines: Vec<String> = answers.map(|answer| format!("- {answer}")).collect();
    with_words("poll", &[question.to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n"))
}

/// Returns the texts of the components in `of`, at any depth. A message may have no others.
///
/// Source: [text display](https://discord.com/developers/docs/components/reference#text-display).
fn displays(of: JsonView<'_>) -> Vec<&str> {
    const TEXT_DISPLAY: i64 = 10;
    let mut texts = Vec::new();
    for component in of.objects("components") {
        let is_text = component.int("type") == Some(TEXT_DISPLAY);
        texts.extend(component.text("content").filter(|_| is_text));
        texts.extend(displays(component));
    }
    texts
}

/// Returns the readable words of an embed.
fn embed(embed: JsonView<'_>) -> Option<String> {
    let fields = embed.objects("fields").flat_map(|field| [field.text("name"), field.text("value")]);
    let words: Vec<&str> =
        [embed.text("title"), embed.text("description")].into_iter().chain(fields).flatten().collect();
    (!words.is_empty()).then(|| words.join("\n"))
}

/// Returns `[what]`, followed by the words, if there are any.
fn with_words(what: &str, words: &str) -> String {
    if words.is_empty() { format!("[{what}]") } else { format!("[{what}]\n{words}") }
}

/// Returns the words for a type of service message.
fn service(kind: i64) -> &'static str {
    match kind {
        1 => "somebody was added to the group",
        2 => "somebody left the group",
        3 => "call",
        4 => "the channel was renamed",
        5 => "the channel has another picture",
        6 => "a message was pinned",
        7 => "somebody joined the server",
        8..=11 => "somebody boosted the server",
        12 => "the channel follows another one",
        18 => "a thread was opened",
        24 => "moderation",
        46 => "a poll has ended",
        _ => "service message",
    }
}
