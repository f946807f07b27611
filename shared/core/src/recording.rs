//! From what a channel passes on to what is stored: [`record_of`].

use crate::draft::Draft;
use crate::message::{Role, UiMessage};
use crate::record::{Details, Kind, Record, Said};
use crate::sort_key::{SortKey, Timestamp};
use crate::tokens;

/// Returns the record of `draft` as its `revision`th form at `key`, appended at `sent_at`, which never expires.
pub fn record_of(draft: &Draft, key: SortKey, revision: u32, sent_at: Timestamp) -> Record {
    let mut message = UiMessage::new(draft.message_id.as_str(), draft.role, draft.parts.clone());
    message.metadata.clone_from(&draft.metadata);
    message.flatten();
    let kind = if key.is_later_form() { Kind::Revision } else { draft.kind };
    let said = Details::Message(Said {
        revision,
        form_ts: draft.form_ts,
        album: draft.album.clone(),
        asks: draft.asks && draft.role == Role::User,
        reply_token: draft.reply_token.clone(),
    });
    Record {
        chat: draft.chat.clone(),
        channel: draft.channel,
        chat_id: draft.chat_id.clone(),
        user_id: draft.user_id.clone(),
        message_id: match draft.kind {
            Kind::Boundary => draft.message_id.derived("boundary"),
            _ => draft.message_id.clone(),
        },
        ts: draft.ts,
        sent_at,
        tokens: tokens::of_message(&message),
        message,
        expires_at: None,
        person: draft.person.clone(),
        // No draft is a summary.
        details: Details::of(kind, draft.role, &key, said.attributes()).unwrap_or(said),
        key,
    }
}
