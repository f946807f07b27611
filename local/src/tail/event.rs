//! Events of a message: [`events_of`], and how one is printed: [`Look`].

use std::io::Write;

use annals_agent::is_failure_text;
use annals_core::approval::requests;
use annals_core::message::{PartView, Role, UiMessage};
use annals_core::record::{Channel, DeliveryFailure, Kind as RecordKind};
use annals_core::sort_key::Timestamp;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::show::time;
use crate::tty::{excerpt, fit, line};

/// Longest text in JSON and on no terminal, in characters.
const MAX_TEXT_CHARS: usize = 200;
/// Narrowest terminal with columns.
const MIN_COLUMNS_WIDTH: usize = 72;

/// Kind of an event. A message has each at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    /// A person's message or command is stored.
    Arrived,
    /// A later form of a message is stored.
    Edited,
    /// A reply or confirmation is stored.
    Answered,
    /// A reply waits for the approval of a call.
    Waiting,
    Delivered,
    /// The platform does not have a reply.
    NotDelivered,
    /// There is no answer, for good.
    Failed,
    TakenOver,
    HandedBack,
}

impl Kind {
    /// Returns its name, and its colour.
    fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Arrived => ("arrived", "36"),
            Self::Edited => ("edited", "36"),
            Self::Answered => ("answered", "32"),
            Self::Waiting => ("waits for approval", "33"),
            Self::Delivered => ("delivered", "2"),
            Self::NotDelivered => ("not delivered", "31"),
            Self::Failed => ("failed", "31"),
            Self::TakenOver => ("taken over", "33"),
            Self::HandedBack => ("handed back", "33"),
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    pub(super) at: Timestamp,
    pub(super) kind: Kind,
    pub(super) chat_key: String,
    pub(super) title: String,
    pub(super) who: String,
    /// Id of the message, as listed.
    pub(super) message_id: String,
    /// The beginning of the message in one line, or the reason of a failure.
    pub(super) text: String,
}

/// Returns the kinds of the events of a message with their times and texts. A reply to a platform that has not failed counts as
/// delivered `now`.
pub(super) fn events_of(message: &UiMessage, now: Timestamp) -> Vec<(Kind, Timestamp, String)> {
    let metadata = &message.metadata;
    let ts = metadata.ts().unwrap_or(Timestamp::MIN);
    let at = metadata.sent_at().unwrap_or(ts);
    let text = text_of(message);
    match (message.role, metadata.kind()) {
        (_, Some(RecordKind::Summary)) | (Role::System, _) => Vec::new(),
        // The reply that sends an operator's message tells of it.
        (Role::User, _) if metadata.dispatch().is_some() => Vec::new(),
        (Role::User, _) if metadata.takes_over() == Some(true) => vec![(Kind::TakenOver, ts, text)],
        (Role::User, _) if metadata.takes_over() == Some(false) => vec![(Kind::HandedBack, ts, text)],
        (Role::User, Some(RecordKind::Revision)) => vec![(Kind::Edited, ts, text)],
        (Role::User, _) => vec![(Kind::Arrived, ts, text)],
        (Role::Assistant, Some(RecordKind::Notice)) => match metadata.cause() {
            Some(cause) => vec![(Kind::Failed, at, line(cause))],
            None if is_failure_text(message) => vec![(Kind::Failed, at, text)],
            None => vec![(Kind::Answered, at, text)],
        },
        (Role::Assistant, _) => {
            let open: Vec<String> = requests(message)
                .iter()
                .filter(|request| request.is_open)
                .map(|request| line(&request.tool))
                .collect();
            let first = if open.is_empty() {
                (Kind::Answered, at, text)
            } else {
                (Kind::Waiting, at, open.join(", "))
            };
            let is_sent = metadata.channel().is_some_and(Channel::is_platform);
            let failure = metadata.fields().get("deliveryFailure").cloned();
            let failure = failure.and_then(|failure| serde_json::from_value::<DeliveryFailure>(failure).ok());
            let second = match failure {
                Some(failure) => Some((Kind::NotDelivered, failure.at, line(&failure.reason))),
                None => is_sent.then(|| (Kind::Delivered, now, String::new())),
            };
            [Some(first), second].into_iter().flatten().collect()
        }
    }
}

/// Returns the beginning of a message in one line: its texts, or else what it has instead.
fn text_of(message: &UiMessage) -> String {
    let text = excerpt(&message.plain_text(), MAX_TEXT_CHARS);
    if text.is_empty() {
        let parts = message.parts.iter().filter_map(|part| match part.view() {
            PartView::File { media_type, filename, .. } => {
                Some(format!("[{}]", filename.unwrap_or(media_type)))
            }
            PartView::Tool { name, .. } => Some(format!("[{name}]")),
            _ => None,
        });
        return line(&parts.collect::<Vec<_>>().join(" "));
    }
    text
}

/// The form in which events are printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// As JSON, one a line.
    pub(super) json: bool,
    pub(super) colours: bool,
    /// Width of the terminal, if it is one.
    pub(super) width: Option<fn() -> usize>,
    /// With the title of the chat, since there are several.
    pub(super) titles: bool,
}

impl Look {
    pub(super) fn print(&self, event: &Event, out: &mut impl Write) -> anyhow::Result<()> {
        if self.json {
            serde_json::to_writer(&mut *out, event)?;
            return Ok(writeln!(out)?);
        }
        Ok(writeln!(out, "{}", self.line(event, self.width.map(|width| width())))?)
    }

    /// Returns the line of an event, shortened to `width` columns.
    fn line(&self, event: &Event, width: Option<usize>) -> String {
        let (kind, colour) = event.kind.shown();
        let at = time(event.at);
        // The day is in the output of a file alone.
        let at = if width.is_some() { &at[11..19] } else { &at };
        let title = self.titles.then_some(event.title.as_str());
        let is_wide = width.is_some_and(|width| width >= MIN_COLUMNS_WIDTH);
        let column = |text: &str, columns: usize| {
            let text = if width.is_some() { fit(text, columns) } else { text.to_owned() };
            let blank = if is_wide { columns.saturating_sub(text.width()) } else { 0 };
            text + &" ".repeat(blank)
        };
        let (title_columns, who_columns) = if is_wide { (20, 12) } else { (14, 8) };
        let title = title.map(|title| column(title, title_columns) + "  ").unwrap_or_default();
        let before = format!("{at}  {title}{}  ", column(&event.who, who_columns));
        let taken = before.width() + kind.width() + 2;
        let text = match width {
            Some(width) => fit(&event.text, width.saturating_sub(taken)),
            None => event.text.clone(),
        };
        let kind = if self.colours { format!("\x1b[{colour}m{kind}\x1b[0m") } else { kind.to_owned() };
        let text = if text.is_empty() { String::new() } else { format!("  {text}") };
        format!("{before}{kind}{text}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kinds(message: serde_json::Value) -> Vec<(Kind, String)> {
        let message: UiMessage = serde_json::from_value(message).unwrap();
        let events = events_of(&message, Timestamp::MIN);
        events.into_iter().map(|(kind, _, text)| (kind, text)).collect()
    }

    #[test]
    fn a_message_has_the_events_that_people_ask_about() {
        let reply = |metadata: serde_json::Value| json!({"id": "1/reply", "role": "assistant", "parts": [{"type": "text", "text": "a\n b"}], "metadata": metadata});
        let on_telegram = json!({"kind": "normal", "channel": "telegram"});
        assert_eq!(
            kinds(reply(on_telegram)),
            [(Kind::Answered, "a b".into()), (Kind::Delivered, String::new())]
        );
        // Its caller reads it.
        assert_eq!(kinds(reply(json!({"kind": "normal", "channel": "http"}))).len(), 1);
        let blocked = json!({"kind": "normal", "channel": "telegram",
            "deliveryFailure": {"reason": "blocked\u{1b}[31m", "at": 5}});
        assert_eq!(kinds(reply(blocked))[1], (Kind::NotDelivered, "blocked\u{FFFD}[31m".into()));
        let refused = json!({"kind": "notice", "cause": "401: check MODEL_API_KEY"});
        assert_eq!(kinds(reply(refused)), [(Kind::Failed, "401: check MODEL_API_KEY".into())]);
        assert_eq!(kinds(reply(json!({"kind": "summary"}))), []);
        let notice = |takeover: &str| json!({"id": "1/takeover", "role": "user", "parts": [{"type": "text", "text": "It is."}], "metadata": {"kind": "notice", "takeover": takeover}});
        assert_eq!(kinds(notice("begun")), [(Kind::TakenOver, "It is.".into())]);
        assert_eq!(kinds(notice("ended")), [(Kind::HandedBack, "It is.".into())]);
        let asks = json!({"id": "1/reply", "role": "assistant", "metadata": {"kind": "normal", "channel": "web"}, "parts": [
            {"type": "dynamic-tool", "toolName": "shop_refund", "toolCallId": "c", "state": "approval-requested",
             "input": {}, "approval": {"id": "5f2b81c09a3de417"}}]});
        assert_eq!(kinds(asks), [(Kind::Waiting, "shop_refund".into())]);
        let edit = json!({"id": "1@1", "role": "user", "parts": [{"type": "file", "mediaType": "image/png", "url": "x"}],
            "metadata": {"kind": "revision"}});
        assert_eq!(kinds(edit), [(Kind::Edited, "[image/png]".into())]);
    }

    #[test]
    fn a_line_fits_the_terminal() {
        let event = Event {
            at: Timestamp::from_millis(1_763_765_921_000).unwrap(),
            kind: Kind::Arrived,
            chat_key: "telegram:chat:42".into(),
            title: "今天的天气怎么样我想去公园散步".into(),
            who: "Ada".into(),
            message_id: "1".into(),
            text: "好".repeat(60),
        };
        let look = Look { json: false, colours: false, width: None, titles: true };
        for width in [200, 80, 60, 40] {
            assert!(look.line(&event, Some(width)).width() <= width, "{width}");
        }
        let line = look.line(&event, Some(80));
        assert!(line.starts_with("22:58:41  今天的天气怎么样我…   Ada           arrived  好"), "{line}");
        let single = Look { titles: false, ..look };
        assert_eq!(single.line(&event, Some(32)), "22:58:41  Ada  arrived  好好好…");
        assert!(
            look.line(&event, None)
                .starts_with("2025-11-21T22:58:41Z  今天的天气怎么样我想去公园散步  Ada  arrived  好")
        );
    }
}
