//! The fields to which Annals gives a meaning, beside those for readers and those of the channels. A client sets none of
//! them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Metadata;
use crate::schedule::due::Due;
use crate::takeover::{Dispatch, SentFrom};

/// Stored instead of `sentAt`, which a client may send back in metadata of its own.
pub(super) const EXPORTED_SENT_AT: &str = "exportedSentAt";

/// Declares the fields: those with methods that do nothing but get and set them, and the names of the others.
macro_rules! own {
    (
        texts { $($(#[$text_doc:meta])* $text:literal => $get_text:ident $(, $set_text:ident)?;)+ }
        values { $($(#[$value_doc:meta])* $value:literal => $get_value:ident, $set_value:ident: $type:ty;)+ }
        of_callers { $($(#[$any_doc:meta])* $any:literal => $get_any:ident, $set_any:ident;)+ }
        others { $($other:expr,)+ }
    ) => {
        pub(super) const NAMES: &[&str] = &[$($text,)+ $($value,)+ $($any,)+ $($other,)+];

        impl Metadata {
            $(
                $(#[$text_doc])*
                pub fn $get_text(&self) -> Option<&str> {
                    self.text($text)
                }

                $(
                    pub fn $set_text(&mut self, text: &str) {
                        self.set($text, text);
                    }
                )?
            )+
            $(
                $(#[$value_doc])*
                pub fn $get_value(&self) -> Option<$type> {
                    self.parsed($value)
                }
                pub fn $set_value(&mut self, value: &$type) {
                    self.set($value, json!(value));
                }
            )+
            $(
                $(#[$any_doc])*
                pub fn $get_any<T: DeserializeOwned>(&self) -> Option<T> {
                    self.parsed($any)
                }
                pub fn $set_any<T: Serialize>(&mut self, value: &T) {
                    self.set($any, json!(value));
                }
            )+
        }
    };
}

own! {
    texts {
        "senderName" => sender_name;
        /// Returns the sender's language, as the platform or the browser names it.
        "language" => language, set_language;
        "chatTitle" => chat_title;
        /// Returns the name of the topic in the chat: on an event the name that it has now, on other messages maybe an
        /// earlier one.
        "topicTitle" => topic_title;
        /// Returns the id of the `/stop` because of which the messages that this one covers are not answered any more.
        "stoppedBy" => stopped_by, set_stopped_by;
        /// Returns the identity of another person that an event or a confirmation is about.
        "about" => about, set_about;
        /// Returns the operator who wrote this message of the agent.
        "sentBy" => sent_by, set_sent_by;
        /// Returns the id of the command that answered a request for approval.
        "command" => command, set_command;
        /// Returns the name of the model that made the reply.
        "model" => model, set_model;
        /// Returns the cause of a failed turn, for administrators: a status and names of settings, nothing else.
        "cause" => cause, set_cause;
    }
    values {
        /// Returns the chat and the agent that sent this message here from elsewhere.
        "sentFrom" => sent_from, set_sent_from: SentFrom;
        /// Returns how an operator's message is to be sent.
        "dispatch" => dispatch, set_dispatch: Dispatch;
        /// Returns the occurrence of a schedule that the message is, or answers.
        "schedule" => due, set_due: Due;
    }
    of_callers {
        /// Returns a person's answer to a request for approval.
        "approval" => approval, set_approval;
        /// Returns the approval of one of several askers.
        "assent" => assent, set_assent;
        /// Returns the counts of tokens of the reply's requests.
        "usage" => usage, set_usage;
    }
    others {
        "agent", "chatType", "context", EXPORTED_SENT_AT, "forward", "imported", "joined", "links", "notice",
        "recalled", "replacesFrom", "replyTo", "senderIsBot", "senderUsername", "signature", "stopped", "takeover",
        "telegram", "timeZone", "viaBot",
    }
}
