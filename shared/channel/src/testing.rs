//! Events as lines of text, and checks of them, for the tests of all channels.
//!
//! No function of the program calls anything here.

#![allow(missing_docs, clippy::missing_panics_doc, clippy::unwrap_used, reason = "for tests alone")]

use std::fmt::Debug;

use annals_core::draft::Draft;
use annals_core::message::{PartView, Role};
use annals_core::record::Record;
use serde_json::{Value, json};

use crate::delivery::OutgoingReply;
use crate::settings::{DmScope, GroupActivation, Settings};
use crate::webhook::{Incoming, ReadError};

/// The `parse` of a channel.
pub type Parse = fn(&Value, &Settings) -> Result<Vec<Incoming>, ReadError>;

pub fn settings() -> Settings {
    Settings {
        agent_id: "annals".into(),
        group_activation: GroupActivation::Mention,
        dm_scope: DmScope::Chat,
        language: None,
    }
}

/// Returns the settings of a case of rules: `always` answers all in groups, `user` has one chat for each person.
fn settings_of(case: &Value) -> Settings {
    match case["settings"].as_str() {
        Some("always") => Settings { group_activation: GroupActivation::Always, ..settings() },
        Some("user") => Settings { dm_scope: DmScope::User, ..settings() },
        other => other.map_or_else(settings, |other| panic!("{other}")),
    }
}

/// Checks that each of `cases`, a list in JSON, gives one event, whose outline contains the words of the case's field `is`.
/// `event` builds the event of a case.
pub fn check_rules(cases: &str, event: fn(&Value) -> Value, parse: Parse) {
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    for case in &cases {
        let found = parse(&event(case), &settings_of(case)).unwrap();
        assert_eq!(found.len(), 1, "{case}\ngives {found:?}");
        let summary = summary(&found[0]);
        let outline = summary.lines().next().unwrap_or_default();
        assert!(outline.contains(case["is"].as_str().unwrap()), "{case}\ngives {outline}");
        assert!(!outline.contains("secret"), "{outline}");
    }
}

/// Checks that JSON which is not an object is not an event.
pub fn check_not_events(parse: Parse) {
    for other in [json!([]), json!("x"), json!(1), json!(null)] {
        assert_eq!(parse(&other, &settings()), Err(ReadError::NotAnEvent));
    }
}

/// Returns the event, which must be the only one.
pub fn only(found: Result<Vec<Incoming>, ReadError>) -> Incoming {
    let mut found = found.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Returns the draft of the event, which must be the only one.
pub fn only_draft(found: Result<Vec<Incoming>, ReadError>) -> Draft {
    let incoming = only(found);
    draft_of(&incoming).unwrap_or_else(|| panic!("no draft: {incoming:?}")).clone()
}

pub fn draft_of(incoming: &Incoming) -> Option<&Draft> {
    match incoming {
        Incoming::Message(draft)
        | Incoming::Partial(draft)
        | Incoming::Command { draft, .. }
        | Incoming::Migration { event: draft, .. } => Some(draft),
        _ => None,
    }
}

/// Returns the parts, one per line: texts as they are, files as `<kind> <media type> <filename> <url>`.
pub fn shown(draft: &Draft) -> String {
    let lines = draft.parts.iter().map(|part| match part.view() {
        PartView::Text(text) => text.to_owned(),
        PartView::File { media_type, filename, url } => {
            let provider = &part.as_map()["providerMetadata"][draft.channel.to_string()];
            let kind = provider["kind"].as_str().or_else(|| provider["type"].as_str()).unwrap_or_default();
            format!("{kind} {media_type} {} {url}", filename.unwrap_or("-"))
        }
        other => panic!("{other:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns everything that the events of `cases` say, a list in JSON, for a snapshot. `event` builds the event of a case.
pub fn summaries_of(cases: &str, event: fn(&Value) -> Value, parse: Parse) -> String {
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    let events: Vec<_> = cases.iter().map(|case| (case.to_string(), event(case))).collect();
    summaries(&events, parse)
}

/// Returns everything that the events of each payload say, for a snapshot.
pub fn summaries(payloads: &[(String, Value)], parse: Parse) -> String {
    let texts = payloads.iter().map(|(name, payload)| {
        let lines: Vec<String> = parse(payload, &settings()).unwrap().iter().map(summary).collect();
        format!("== {name}\n{}", lines.join("\n").trim_end())
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn summary(incoming: &Incoming) -> String {
    let head = match incoming {
        Incoming::Message(_) => "message".to_owned(),
        Incoming::Partial(_) => "partial".to_owned(),
        Incoming::Command { command, .. } => format!("{command:?}"),
        Incoming::Migration { old, new, .. } => format!("migration {old} > {new}"),
        Incoming::Withdrawal { message_id, places, at, words } => {
            let (key, chats) = places.exact.clone().unzip();
            let chats = chats.into_iter().flatten().chain(places.window.clone());
            let chats: Vec<String> = chats.map(|chat| chat.to_string()).collect();
            let (at, key) = (at.map(|at| at.to_string()), key.map(|key| key.to_string()));
            let (at, key) = (at.unwrap_or_default(), key.unwrap_or_default());
            format!("withdrawal {message_id} at {at} in {chats:?} under {key}: {words}")
        }
        Incoming::Membership { chat, left, at } => {
            let reason = left.map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("membership {chat} {} {at}{reason}", left.is_none())
        }
        Incoming::Press(press) => format!("press {} by {}", press.button.data(), press.by.user_id),
        Incoming::Ignored { kind, reason } => format!("ignored {kind}: {reason}"),
    };
    let Some(draft) = draft_of(incoming) else { return head };
    let asks = if draft.asks { "asks" } else { "silent" };
    let role = if draft.role == Role::User { "" } else { " of the bot" };
    let form = draft.form_ts.filter(|ts| *ts != draft.ts).map(|ts| format!(" form {ts}")).unwrap_or_default();
    let album = draft.album.as_ref().map(|album| format!(" album {album}")).unwrap_or_default();
    format!(
        "{head} | {} of {} | {}{form}{album} | {} {asks}{role}\n{}\n{}",
        draft.chat,
        draft.user_id,
        draft.key(),
        draft.kind,
        shown(draft),
        json!(draft.metadata),
    )
}

/// Checks that `payload`, which may be anything, is refused only if it is not an object, and that it gives the same sound
/// drafts each time. Returns them.
pub fn survives<E: Debug + PartialEq>(
    payload: &Value,
    parse: impl Fn(&Value) -> Result<Vec<Incoming>, E>,
) -> Vec<Draft> {
    let found = parse(payload);
    assert_eq!(parse(payload), found);
    assert_eq!(found.is_err(), !payload.is_object());
    let drafts: Vec<Draft> = found.iter().flatten().filter_map(draft_of).cloned().collect();
    drafts.iter().for_each(check_sound);
    drafts
}

/// Checks that a draft can be stored.
pub fn check_sound(draft: &Draft) {
    assert!(!draft.parts.is_empty() && draft.chat.actor_key(&draft.user_id).is_ok(), "{draft:?}");
    assert_eq!(draft.chat.to_string().parse().as_ref(), Ok(&draft.chat));
    let _ = draft.key();
}

/// Returns a reply to `to`, with its key and of its time.
pub fn outgoing<'a>(to: &'a Record, text: &'a str, question: &'a str) -> OutgoingReply<'a> {
    OutgoingReply {
        to,
        key: &to.key,
        text,
        question,
        ts: to.ts,
        moved_to: None,
        survives_recall: false,
        requests: &[],
    }
}

/// Returns all that a log may show of an error.
pub fn logged(error: &dyn std::error::Error) -> String {
    format!("{} {error:?}", annals_io::errors::chain(error))
}
