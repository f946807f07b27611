//! What the `code` of Lark's answers means for a send.
//!
//! Source: the error codes of "Send message" and "Reply to message"
//! (<https://open.larksuite.com/document/uAjLw4CM/ukTMukTMukTM/reference/im-v1/message/reply>), "Generic error codes"
//! (<https://open.larksuite.com/document/ukTMukTMukTM/ugjM14COyUjL4ITN>), "Frequency control"
//! (<https://open.larksuite.com/document/ukTMukTMukTM/uUzN04SN3QjL1cDN>).

/// What an answer with an error code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The tenant access token is missing, expired or not one.
    Token,
    /// Too much in too short a time.
    TooFast,
    /// Lark's own trouble, or the same message is on its way already.
    Trouble,
    /// Nothing is taken for this chat, whatever it is.
    Blocked,
    /// This request is not taken.
    Refused,
}

/// What `code` means.
pub(super) fn meaning(code: i64) -> Meaning {
    match code {
        // Needs a token; expired or not valid; of an app, a tenant, a user; not of a token's form.
        99_991_661 | 99_991_663 | 99_991_664 | 99_991_665 | 99_991_668 | 99_991_671 => Meaning::Token,
        // Of the API; of the chat; of the method, the app; of the older messages API, in all, in the chat, in a day.
        99_991_400 | 230_020 | 1_000_004 | 1_000_005 | 11_232 | 11_233 | 11_247 => Meaning::TooFast,
        // "Internal error"; 230049 "The message is being sent".
        1_500 | 1_503 | 1_551 | 1_642 | 2_200 | 5_000 | 65_001 | 230_049 => Meaning::Trouble,
        // The bot is not in the group; the user is out of its reach, has left the company, has stopped it; the chat
        // has been dissolved.
        230_002 | 230_013 | 230_029 | 230_053 | 232_009 => Meaning::Blocked,
        _ => Meaning::Refused,
    }
}

/// Whether a plain text may be taken where this was not: content that is none (230001), that is not taken in this
/// chat or in answer to this message (230054), or that makes no card (230099).
pub(super) fn is_about_form(code: i64) -> bool {
    matches!(code, 230_001 | 230_054 | 230_099)
}

/// The content is too long.
pub(super) const TOO_LONG: i64 = 230_025;

/// There is no such reaction.
pub(super) const UNKNOWN_EMOJI: i64 = 231_001;

/// The file is over what Lark gives out.
pub(super) const FILE_TOO_LARGE: i64 = 234_037;

/// Whether somebody can put it right in the app's settings, or by letting its bot in (234004).
pub(super) fn is_for_admins(code: i64) -> bool {
    !hint_for_app(code).is_empty() || matches!(code, 234_002 | 234_004 | 99_991_679)
}

/// Whether the group, or the message that is answered, has no threads.
pub(super) fn is_about_thread(code: i64) -> bool {
    matches!(code, 230_071 | 230_072)
}

/// Whether the message is there, but nobody may answer it, or not the bot: it is not to be seen by it (230050), not of
/// a kind that is answered (230054), or about to be deleted by itself (230111).
pub(super) fn is_about_reply(code: i64) -> bool {
    matches!(code, 230_050 | 230_054 | 230_111)
}

/// Lark's words for the codes whose own words may quote the message: sensitive words (230022), what an audit found
/// (230028).
pub(super) fn words(code: i64) -> Option<&'static str> {
    match code {
        230_022 => Some("The content of the message contains sensitive information."),
        230_028 => Some("The messages do NOT pass the audit."),
        _ => None,
    }
}

/// What a person may do about `code`.
pub(super) fn hint(code: i64) -> &'static str {
    match code {
        230_011 => " (the message that it answers was withdrawn)",
        code => hint_for_app(code),
    }
}

/// What the app's administrator may do about `code`.
fn hint_for_app(code: i64) -> &'static str {
    match code {
        // Of the token's own endpoint: the app id or the secret is wrong, the app is not in use.
        10_003 | 10_012 | 10_014 | 10_015 | 99_991_543 => " (check LARK_APP_ID and LARK_APP_SECRET)",
        230_006 => " (switch the app's bot on)",
        230_027 | 99_991_672 => " (check the app's permissions)",
        _ => "",
    }
}
