//! Responses to interactions, which Discord wants within three seconds.
//!
//! ```text
//! {"type": 5}                                                   the answer follows: "… is thinking"
//! {"type": 5, "data": {"flags": 64}}                            the same, seen by the sender of a command alone
//! {"type": 6}                                                   the result of a pressed button follows
//! {"type": 4, "data": {"content": "New conversation.", "flags": 64, "allowed_mentions": {"parse": []}}}
//! {"type": 7, "data": {"components": []}}                       the message of a pressed button, without it
//! ```
//!
//! If a deferred answer is seen by its asker alone is decided here, since it cannot be changed later.
//!
//! Source: <https://discord.com/developers/docs/interactions/receiving-and-responding#responding-to-an-interaction>.

use annals_channel::split::split;
use annals_channel::webhook::{Effect, Response};
use annals_core::command::Command;
use serde_json::{Value, json};

use crate::buttons::Pressed;
use crate::render::{DIALECT, LIMIT, no_mentions, without_previews};

/// Flag of a message that only the person who made the interaction sees.
pub const EPHEMERAL: u64 = 1 << 6;
/// Longest description of an embed, and longest text of all embeds of a message.
const EMBED_LIMIT: usize = 4096;
const EMBEDS_LIMIT: usize = 6000;

/// Returns the response to Discord's check of the address.
pub fn pong() -> Response {
    Response::Json(json!({"type": 1}))
}

/// Returns the response that an answer follows, to be seen by everybody in the chat.
pub fn deferred() -> Response {
    Response::Json(json!({"type": 5}))
}

/// Returns the response to `command` that its confirmation follows: see [`to_command`].
pub fn deferred_command(command: &Command) -> Value {
    json!({"type": 5, "data": {"flags": flags(command)}})
}

/// Returns the response to a pressed button whose result follows.
pub fn deferred_press() -> Value {
    json!({"type": 6})
}

/// Returns the response without a choice to a person who is typing an option.
pub fn no_choices() -> Response {
    Response::Json(json!({"type": 8, "data": {"choices": []}}))
}

/// Returns the response that shows `text` to the person alone.
pub fn privately(text: &str) -> Response {
    message(text, EPHEMERAL)
}

/// Returns the response to `command` that shows its confirmation: to all if it concerns all in the chat, and otherwise to the
/// sender alone.
pub fn to_command(command: &Command, confirmation: &str) -> Response {
    message(confirmation, flags(command))
}

/// Returns [`EPHEMERAL`] unless `command` concerns all in the chat.
fn flags(command: &Command) -> u64 {
    let concerns_all =
        matches!(command, Command::New { .. } | Command::Reset | Command::Compact | Command::Stop);
    if concerns_all { 0 } else { EPHEMERAL }
}

/// Returns the response to a pressed button. A settled request loses its buttons; other results are shown to the person.
pub fn to_press(pressed: &Pressed, text: &str, effect: Effect) -> Response {
    if effect != Effect::Settled {
        return privately(text);
    }
    let mut data = json!({"components": pressed.left});
    let noted = format!("{}\n-# {}", pressed.content, text.replace('\n', " "));
    if DIALECT.cost(&noted) <= LIMIT {
        data["content"] = noted.into();
        data["allowed_mentions"] = no_mentions();
    }
    Response::Json(json!({"type": 7, "data": data}))
}

/// Returns a message. A text that is longer than a message's is shown in embeds.
fn message(text: &str, flags: u64) -> Response {
    let mut data = json!({"allowed_mentions": no_mentions()});
    if DIALECT.cost(text) <= LIMIT {
        data["content"] = text.into();
        data["flags"] = without_previews(flags).into();
    } else {
        let mut left = EMBEDS_LIMIT;
        let pieces = split(text, EMBED_LIMIT.min(EMBEDS_LIMIT / 2), &DIALECT).into_iter();
        let fitting = pieces.take_while(|piece| {
            let cost = DIALECT.cost(piece);
            let fits = cost <= left;
            left = left.saturating_sub(cost);
            fits
        });
        data["embeds"] = fitting.map(|piece| json!({"description": piece})).collect::<Value>();
        data["flags"] = flags.into();
    }
    Response::Json(json!({"type": 4, "data": data}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(response: Response) -> Value {
        let Response::Json(mut body) = response else { panic!("{response:?}") };
        body["data"].take()
    }

    #[test]
    fn a_list_that_is_too_long_for_a_message_is_shown_whole() {
        let short = data(privately("a"));
        assert_eq!((&short["content"], &short["flags"]), (&json!("a"), &json!(68)));
        let list: Vec<String> = (0..300).map(|number| format!("{number}. tea")).collect();
        let long = data(to_command(&Command::Help, &list.join("\n")));
        let embeds = long["embeds"].as_array().unwrap();
        let shown: Vec<&str> =
            embeds.iter().flat_map(|embed| embed["description"].as_str().unwrap().lines()).collect();
        assert_eq!(shown, list);
        assert_eq!(long["flags"], 64, "with previews off, no embed would be seen");
    }

    #[test]
    fn what_concerns_all_is_shown_to_all() {
        let flags = |command: &Command| data(to_command(command, "x"))["flags"].clone();
        assert_eq!(flags(&Command::Reset), 4);
        assert_eq!(flags(&Command::Memory { up_to: None }), 68);
    }

    #[test]
    fn a_settled_request_loses_its_buttons_and_says_who_answered() {
        let pressed = Pressed { left: json!([]), content: "May I?".into() };
        let settled = data(to_press(&pressed, "Approved.", Effect::Settled));
        assert_eq!(
            settled,
            json!({"components": [], "content": "May I?\n-# Approved.", "allowed_mentions": {"parse": []}})
        );
        let long = Pressed { content: "x".repeat(1995), ..pressed.clone() };
        assert_eq!(data(to_press(&long, "Approved.", Effect::Settled)), json!({"components": []}));
        assert_eq!(data(to_press(&pressed, "No.", Effect::Refused))["content"], "No.");
    }
}
