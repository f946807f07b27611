//! Checks the stored histories at the end, and the messages that the platforms received, from outside the program.

use std::collections::BTreeMap;
use std::path::Path;

use annals_core::message::Role;
use annals_core::record::{Kind, Record};
use annals_core::settings::Env;
use annals_core::sort_key::SortKey;
use annals_io::clock::Clock;
use annals_local::histories::open_history;
use annals_store::history::{MAX_PAGE, Position};
use annals_store::settings::retention;

use crate::program::Report;
use crate::world::{Channel, Lived, World, text};

/// Counts of messages, except for `replies` and `sends`.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    said: usize,
    /// Messages in a chat that was deleted later.
    forgotten: usize,
    /// Messages of `forgotten` that are still there, or there again.
    back: usize,
    lost: usize,
    doubled: usize,
    /// Messages whose edits are not all there, each once and in order.
    misedited: usize,
    /// Records that are only in the archive at the end.
    archived: usize,
    /// Messages without a reply that covers them.
    uncovered: usize,
    /// Messages that two replies cover.
    covered_twice: usize,
    /// Messages answered with a notice, since the model failed for good.
    given_up: usize,
    replies: usize,
    summaries: usize,
    /// Replies that are sent through a platform.
    deliverable: usize,
    undelivered: usize,
    /// Repeated sends of messages that had arrived, by channel.
    sent_again: BTreeMap<&'static str, usize>,
}

/// Reads every chat.
pub(crate) async fn of(data: &Path, world: &World, lived: &[Lived], per_chat: u64) -> Verdict {
    let settings: BTreeMap<&str, String> = world.settings().into_iter().collect();
    let retention = retention(Env::new(&|name| settings.get(name).cloned())).unwrap();
    let history = open_history(&data.join("stores"), retention, Clock::system()).await.unwrap();
    let received = Received::of(world);
    let mut verdict = Verdict::default();
    for (number, lived) in (1..).zip(lived) {
        let channel = Channel::of(number);
        let chat = channel.chat_key(number).parse().unwrap();
        let mut records = Vec::new();
        let mut position = Some(Position::Oldest);
        while let Some(at) = position {
            let page = history.page(&chat, &at, MAX_PAGE).await.unwrap();
            records.extend(page.records);
            position = page.after.map(Position::After);
        }
        let in_table = history.range(&chat, None).await.unwrap().len();
        verdict.archived += records.len() - in_table;
        verdict.look_at(&records, lived, number, per_chat);
        if channel != Channel::Http {
            verdict.look_at_deliveries(&records, channel, number, &received);
        }
    }
    verdict
}

/// Counts how often each text was accepted, by chat.
struct Received(BTreeMap<(Channel, u64), BTreeMap<String, usize>>);

impl Received {
    fn of(world: &World) -> Self {
        let mut all: BTreeMap<(Channel, u64), BTreeMap<String, usize>> = BTreeMap::new();
        let telegram = world
            .telegram
            .sent()
            .into_iter()
            .map(|sent| (Channel::Telegram, u64::try_from(sent.chat_id).unwrap(), sent.text));
        let lark = world.lark.sent().into_iter().map(|sent| {
            // Found by its chat, or by the message that it replies to: om_<chat>_<message>.
            let id = sent.reply_to.as_deref().unwrap_or(&sent.chat_id);
            (Channel::Lark, id.split('_').nth(1).unwrap().parse().unwrap(), sent.text())
        });
        for (channel, number, text) in telegram.chain(lark) {
            *all.entry((channel, number)).or_default().entry(text).or_default() += 1;
        }
        Self(all)
    }
}

impl Verdict {
    fn look_at(&mut self, records: &[Record], lived: &Lived, number: u64, per_chat: u64) {
        let channel = Channel::of(number);
        let mut covers: BTreeMap<&SortKey, usize> = BTreeMap::new();
        for key in records.iter().flat_map(Record::covers) {
            *covers.entry(key).or_default() += 1;
        }
        for message in 1..=per_chat {
            let (id, text) = (channel.message_id(number, message), text(number, message));
            let stored: Vec<&Record> = (records.iter())
                .filter(|record| record.role() == Role::User && record.message_id.as_str() == id)
                .collect();
            self.said += 1;
            if message <= lived.deleted_to {
                self.forgotten += 1;
                self.back += usize::from(!stored.is_empty());
                continue;
            }
            let (stored, edits): (Vec<&Record>, Vec<&Record>) =
                stored.into_iter().partition(|record| record.revision() == 0);
            let edits: Vec<String> = edits.iter().map(|record| record.message.plain_text()).collect();
            self.misedited += usize::from(edits != lived.edits.get(&message).cloned().unwrap_or_default());
            match stored.as_slice() {
                [] => self.lost += 1,
                [one] => {
                    assert_eq!(one.message.plain_text(), text, "{number}: what is stored is what was said");
                    match covers.get(&one.key).copied().unwrap_or_default() {
                        0 => self.uncovered += 1,
                        1 => {}
                        _ => self.covered_twice += 1,
                    }
                }
                _ => self.doubled += 1,
            }
        }
        let answers = records.iter().filter(|record| !record.covers().is_empty());
        let (notices, replies): (Vec<&Record>, Vec<&Record>) =
            answers.partition(|record| record.kind() == Kind::Notice);
        self.replies += replies.len();
        self.given_up += notices.iter().map(|notice| notice.covers().len()).sum::<usize>();
        self.summaries += records.iter().filter(|record| record.kind() == Kind::Summary).count();
    }

    fn look_at_deliveries(&mut self, records: &[Record], channel: Channel, number: u64, received: &Received) {
        for reply in records.iter().filter(|record| !record.covers().is_empty()) {
            self.deliverable += 1;
            let times =
                received.0.get(&(channel, number)).and_then(|texts| texts.get(&reply.message.plain_text()));
            match times.copied().unwrap_or_default() {
                0 => self.undelivered += 1,
                times => *self.sent_again.entry(channel.name()).or_default() += times - 1,
            }
        }
    }

    /// Returns true if no message is lost, duplicated, unanswered or answered twice, and every reply arrived.
    pub(crate) fn is_clean(&self) -> bool {
        let faults = [self.lost, self.doubled, self.misedited, self.back, self.uncovered, self.covered_twice];
        faults == [0; 6] && self.undelivered == 0
    }

    pub(crate) fn print(&self, report: &Report, lived: &[Lived], world: &World) {
        let sum = |of: fn(&Lived) -> u64| lived.iter().map(of).sum::<u64>().to_string();
        let (requests, faults) = world.dice.counts();
        let rows = [
            ("kills of the process", report.killed.times.to_string()),
            ("requests to the model cut off by them", report.killed.at_the_model.to_string()),
            ("requests to the model, with summaries", world.model.raw_requests().len().to_string()),
            ("faults in requests to the model and the platforms", format!("{faults} of {requests}")),
            ("webhooks and calls without an answer, sent again", report.again.to_string()),
            ("duplicates of what was acknowledged", sum(|lived| lived.duplicates)),
            ("chats deleted", sum(|lived| lived.deletions)),
            ("messages edited", sum(|lived| lived.edited)),
            ("**messages**", self.said.to_string()),
            ("forgotten with their chats", self.forgotten.to_string()),
            ("of them still there, or there again", self.back.to_string()),
            ("lost", self.lost.to_string()),
            ("stored twice", self.doubled.to_string()),
            ("without all of their edits, in order", self.misedited.to_string()),
            ("answered by no reply", self.uncovered.to_string()),
            ("answered by two", self.covered_twice.to_string()),
            ("answered with a notice, the model having failed nine times", self.given_up.to_string()),
            ("**replies**", self.replies.to_string()),
            ("summaries", self.summaries.to_string()),
            ("records in the archive alone, at the end", self.archived.to_string()),
            ("replies for Telegram and Lark", self.deliverable.to_string()),
            ("of them not delivered", self.undelivered.to_string()),
            ("delivered twice", format!("{:?}", self.sent_again)),
        ];
        println!("\n| | |\n|---|---|");
        for (what, count) in rows {
            println!("| {what} | {count} |");
        }
    }
}
