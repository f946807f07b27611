//! Meaning of the `code` in Lark's answers to a send.
//!
//! Source: the error codes of "Send message" and "Reply to message"
//! (<https://open.larksuite.com/document/uAjLw4CM/ukTMukTMukTM/reference/im-v1/message/reply>), "Generic error codes"
//! (<https://open.larksuite.com/document/ukTMukTMukTM/ugjM14COyUjL4ITN>), "Frequency control"
//! (<https://open.larksuite.com/document/ukTMukTMukTM/uUzN04SN3QjL1cDN>).

/// Meaning of an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The tenant access token is missing, expired or invalid.
    Token,
    TooFast,
    /// An error on Lark's side, or the same message is being sent at the moment.
    Trouble,
    /// The bot may not write to this chat at all.
    Blocked,
    Refused,
}

pub(super) fn meaning(code: i64) -> Meaning {
    match code {
        // In order: token missing; expired or invalid; of an app, a tenant, a user; malformed.
        99_991_661 | 99_991_663 | 99_991_664 | 99_991_665 | 99_991_668 | 99_991_671 => Meaning::Token,
        // In order: limit of the API; of the chat; of the method, the app; of the older messages API in total, per
        // chat, per day.
        99_991_400 | 230_020 | 1_000_004 | 1_000_005 | 11_232 | 11_233 | 11_247 => Meaning::TooFast,
        // "Internal error"; 230049 "The message is being sent".
        1_500 | 1_503 | 1_551 | 1_642 | 2_200 | 5_000 | 65_001 | 230_049 => Meaning::Trouble,
        // In order: the bot is not in the group; the user is out of its reach, has left the company, has stopped it;
        // the chat was dissolved.
        230_002 | 230_013 | 230_029 | 230_053 | 232_009 => Meaning::Blocked,
        _ => Meaning::Refused,
    }
}

/// Returns true if plain text may be accepted instead: invalid content (230001), a form that this chat or this reply
/// does not accept (230054), or an invalid card (230099).
pub(super) fn is_about_form(code: i64) -> bool {
    matches!(code, 230_001 | 230_054 | 230_099)
}

/// The message that is replied to was recalled.
pub(super) const RECALLED: i64 = 230_011;

/// The content is too long.
pub(super) const TOO_LONG: i64 = 230_025;

/// There is no such reaction.
pub(super) const UNKNOWN_EMOJI: i64 = 231_001;

/// The file is larger than Lark's limit for downloads.
pub(super) const FILE_TOO_LARGE: i64 = 234_037;

/// Returns true if a person can solve it in the app's settings, or by adding the bot to the group (234004).
pub(super) fn is_for_admins(code: i64) -> bool {
    !hint_for_app(code).is_empty() || matches!(code, 234_002 | 234_004 | 99_991_679)
}

/// Returns true if the group, or the message that is replied to, has no threads.
pub(super) fn is_about_thread(code: i64) -> bool {
    matches!(code, 230_071 | 230_072)
}

/// Returns true if the message exists but cannot be replied to: it is not visible to the bot (230050), is of a kind
/// without replies (230054), or is about to delete itself (230111).
pub(super) fn is_about_reply(code: i64) -> bool {
    matches!(code, 230_050 | 230_054 | 230_111)
}

/// Returns a fixed description for codes whose own description may quote the message: sensitive words (230022),
/// findings of an audit (230028).
pub(super) fn words(code: i64) -> Option<&'static str> {
    match code {
        230_022 => Some("The content of the message contains sensitive information."),
        230_028 => Some("The messages do NOT pass the audit."),
        _ => None,
    }
}

/// Returns advice for the operator.
pub(super) fn hint(code: i64) -> &'static str {
    match code {
        RECALLED => " (the message that it answers was withdrawn)",
        code => hint_for_app(code),
    }
}

/// Returns advice for the administrator of the app.
fn hint_for_app(code: i64) -> &'static str {
    match code {
        // Codes of the token's endpoint: wrong app id or secret, or the app is not in use.
        10_003 | 10_012 | 10_014 | 10_015 | 99_991_543 => " (check LARK_APP_ID and LARK_APP_SECRET)",
        230_006 => " (switch the app's bot on)",
        230_027 | 99_991_672 => " (check the app's permissions)",
        _ => "",
    }
}
