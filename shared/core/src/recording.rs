//! From what a channel passes on to what is stored: [`record_of`].

use crate::draft::Draft;
use crate::message::{Role, UiMessage};
use crate::record::{Details, Kind, Record, Said};
use crate::sort_key::{SortKey, Timestamp};
use crate::tokens;

/// Returns the record of `draft` as its `revision`th form at `key`, appended at `sent_at`, which never expires.
pub fn record_of(draft: &Draft, key: SortKey, revision: u32, sent_at: Timestamp) -> Record {
    // Names every field of a draft, so that a new one does not compile until it is stored or left.
    let Draft {
        chat,
        channel,
        chat_id,
        user_id,
        message_id,
        ts,
        form_ts,
        form_ts_is_exact: _,
        role,
        kind,
        parts,
        metadata,
        album,
        asks,
        is_unaddressed: _,
        // The key says it.
        opens_session: _,
        person,
        reply_token,
    } = draft;
    let mut message = UiMessage::new(message_id.as_str(), *role, parts.clone());
    message.metadata.clone_from(metadata);
    message.flatten();
    let said = Details::Message(Said {
        revision,
        form_ts: *form_ts,
        album: album.clone(),
        asks: *asks && *role == Role::User,
        reply_token: reply_token.clone(),
    });
    let message_id =
        if *kind == Kind::Boundary { message_id.derived("boundary") } else { message_id.clone() };
    let kind = if key.is_later_form() { Kind::Revision } else { *kind };
    Record {
        chat: chat.clone(),
        channel: *channel,
        chat_id: chat_id.clone(),
        user_id: user_id.clone(),
        message_id,
        ts: *ts,
        sent_at,
        tokens: tokens::of_message(&message),
        message,
        expires_at: None,
        person: person.clone(),
        // No draft is a summary.
        details: Details::of(kind, *role, &key, said.attributes()).unwrap_or(said),
        key,
    }
}
