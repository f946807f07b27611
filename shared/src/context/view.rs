//! Which messages a history has, and which of them are the Session's: [`View`].

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::Value;

use super::Policy;
use super::replaced::mark_replaced;
use super::session::Session;
use crate::approval;
use crate::markup::{self, Sender};
use crate::media::{self, IMAGE_TOKENS};
use crate::message::{Role, UiMessage};
use crate::record::{Kind, Record, Source};
use crate::sender;
use crate::sort_key::{SortKey, Timestamp};
use crate::tokens;

/// How far before a summary's records were read the context is read, although the summary stands for that time: a message
/// may have been on its way then. What arrives later than this after its own time is announced by a turn; see
/// [`crate::ingress::PROMPT`].
const IN_FLIGHT: Duration = Duration::from_secs(15);

/// The same for a summary that does not say when its records were read: a run's time before it was stored.
const IN_FLIGHT_OF_A_RUN: Duration = Duration::from_mins(5);

/// The messages of one line of a history, sorted out.
#[derive(Debug)]
pub struct View<'a> {
    /// The Session's newest summary, which stands for all that it and those that it folds count.
    pub summary: Option<&'a Record>,
    /// The Session's messages that are answered or ask nothing and that no summary counts, in order.
    pub earlier: Vec<Message<'a>>,
    /// What waits for its answer, in order.
    pub unanswered: Vec<Message<'a>>,
    /// See [`super::Context::to_compact`].
    pub to_compact: Vec<SortKey>,
    /// See [`super::Context::to_resume`].
    pub to_resume: Vec<SortKey>,
    /// See [`super::Context::others_wait`].
    pub others_wait: bool,
    /// See [`super::Context::session_start`].
    pub session_start: Option<SortKey>,
    /// See [`super::Context::reaches_back_to`].
    pub reaches_back_to: Option<SortKey>,
    /// Up to where there are summaries, of the Session or not: the place of the next one is behind that.
    pub summed_up_to: Option<SortKey>,
    /// Whether several people speak in what is shown, so that the model is told who each message is from.
    pub has_several: bool,
    /// When somebody last spoke in the Session, as far as is known.
    pub last_interaction: Option<Timestamp>,
    /// By how much the model's own count of tokens exceeds the estimate.
    correction: f64,
}

impl<'a> View<'a> {
    /// The view of `records`, which must be in order of [`Record::key`], at `now`.
    pub fn of(records: &'a [Record], now: Timestamp, policy: &Policy) -> Self {
        let covered: HashSet<&SortKey> = records.iter().flat_map(|record| &record.covers).collect();
        let newest = newest_forms(records);
        let mut messages = with_whole_albums(messages(records, &newest, &covered, now), &covered);
        mark_replaced(&mut messages, records);
        let line = line_in_view(&messages);
        let waits = messages.iter().any(|message| message.unanswered);
        let (messages, others): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| message.first.line() == line);
        let boundary = records.iter().filter(|record| record.kind == Kind::Boundary).map(Record::place).max();
        // A message that its platform dated into the future is left behind too if it was stored before the boundary.
        let is_left_behind = |message: &Message<'_>| {
            message.first.is_ahead()
                && Some(&message.first.place()) < boundary.as_ref()
                && !message.unanswered
        };
        let messages: Vec<Message<'_>> = messages.into_iter().filter(|m| !is_left_behind(m)).collect();
        let own = records.iter().filter(|record| record.line() == line);
        let summaries: Vec<(&Record, &Source)> =
            own.filter_map(|record| Some((record, record.source.as_ref()?))).collect();
        let summed_up_to = summaries.last().map(|(_, source)| source.to.clone());
        let summed_up = SummedUp::of(summaries.into_iter(), boundary.as_ref());

        let session = Session::of(&messages, &summed_up, boundary.as_ref(), now, policy, waits);
        let start = session.as_ref().map(|session| session.start.clone());
        let is_in = |base: &SortKey| start.as_ref().is_some_and(|start| base >= start);
        let summary = summed_up.newest.filter(|(_, source)| is_in(&source.from)).map(|(record, _)| record);
        // What the Session does not have stands for nothing in it.
        let is_counted = |key: &SortKey| summary.is_some() && summed_up.counted.contains(key);
        let (unanswered, answered): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| message.unanswered);
        let shows_earlier = !policy.fresh || unanswered.is_empty();
        let earlier: Vec<Message<'_>> = answered
            .into_iter()
            .filter(|m| shows_earlier && is_in(&m.base) && !m.newest.is_recalled() && !m.is_replaced)
            .filter(|m| !is_counted(m.key()) || summary.is_some_and(|summary| m.has_gone_on_since(summary)))
            .collect();
        let (mut earlier, mut unanswered) = (earlier, unanswered);
        count_images(&mut earlier, &mut unanswered, policy.images);
        let has_several =
            sender::are_several(earlier.iter().chain(&unanswered).map(|message| message.first), summary);
        if has_several {
            for message in earlier.iter_mut().chain(&mut unanswered) {
                message.sender_tokens = sender::of(message.first).map_or(0, |sender| sender.tokens());
            }
        }
        let last_interaction = session.as_ref().and_then(|session| session.last_interaction);
        let reaches_back_to = session.and_then(|session| match summary {
            Some(summary) => {
                // What waits is shown in its place once it is answered.
                let waiting = unanswered.iter().filter(|message| is_in(&message.base));
                Some(read_from(summary, earlier.iter().chain(waiting))).max(boundary)
            }
            None => session.reaches_back_to,
        });
        let to_compact = to_compact(records, &covered, now);
        // Also what waits from before it, or on another line: its own turn may never come.
        let waiting = unanswered.iter().chain(others.iter().filter(|message| message.unanswered));
        let waiting = waiting.map(|message| &message.base).chain(&to_compact).min().cloned();
        let reaches_back_to = reaches_back_to.map(|from| waiting.map_or(from.clone(), |base| from.min(base)));
        Self {
            to_compact,
            to_resume: approval::to_resume(records),
            others_wait: others.iter().any(|message| message.unanswered),
            session_start: start,
            reaches_back_to,
            summed_up_to,
            has_several,
            last_interaction,
            correction: correction(records),
            summary,
            earlier,
            unanswered,
        }
    }

    /// The records that it shows, beside what waits: the summary, and of each message the first and the newest form,
    /// which may be the same.
    pub fn earlier_records(&self) -> impl Iterator<Item = &'a Record> {
        let forms = self.earlier.iter().flat_map(|message| [message.first, message.newest.record]);
        self.summary.into_iter().chain(forms)
    }

    /// [`View::earlier_records`], and of each message that waits the first and the newest form.
    pub fn shown_records(&self) -> impl Iterator<Item = &'a Record> {
        let waiting = self.unanswered.iter().flat_map(|message| [message.first, message.newest.record]);
        self.earlier_records().chain(waiting)
    }

    /// An estimate as the model would count, by what it counted last.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number, and `as` saturates"
    )]
    pub fn corrected(&self, tokens: u32) -> u32 {
        (f64::from(tokens) * self.correction).ceil() as u32
    }

    /// The corrected estimate of what tells the model how to read messages of several people.
    pub fn guide_tokens(&self) -> u32 {
        if self.has_several { self.corrected(tokens::of_text(markup::GUIDE)) } else { 0 }
    }

    /// The corrected estimate of `messages`, with the images that they show, and with their senders where those are told.
    pub fn tokens_of(&self, messages: &[Message<'_>]) -> u32 {
        messages.iter().fold(0, |sum, message| sum.saturating_add(self.corrected(message.shown_tokens())))
    }
}

/// What the summaries of one line stand for, those before the last boundary left out.
pub(super) struct SummedUp<'a> {
    /// The summary that was made last, and so folds those that start no earlier than it.
    pub(super) newest: Option<(&'a Record, &'a Source)>,
    /// What it and those that it folds count.
    pub(super) counted: HashSet<&'a SortKey>,
    /// When somebody last spoke in what earlier ones stand for: in Sessions that had ended when the newest was made, and
    /// that nothing which comes late, and fills the gap, brings back.
    pub(super) ended_at: Option<Timestamp>,
}

impl<'a> SummedUp<'a> {
    fn of(summaries: impl Iterator<Item = (&'a Record, &'a Source)>, boundary: Option<&SortKey>) -> Self {
        let summaries: Vec<_> = summaries.filter(|(_, source)| Some(&source.from) >= boundary).collect();
        let made = |(record, source): &(&'a Record, &'a Source)| (record.sent_at, source.count, &record.key);
        let newest = summaries.iter().copied().max_by_key(made);
        let from = newest.map(|(_, source)| &source.from);
        let (folded, earlier): (Vec<_>, Vec<_>) =
            summaries.into_iter().partition(|(_, source)| Some(&source.from) >= from);
        Self {
            newest,
            counted: folded.into_iter().flat_map(|(_, source)| &source.counts).collect(),
            ended_at: earlier.into_iter().map(|(_, source)| source.last_interaction).max(),
        }
    }
}

/// A message with all its forms.
#[derive(Debug)]
pub struct Message<'a> {
    /// What names it, and its reply too.
    pub base: SortKey,
    /// Its first form.
    pub first: &'a Record,
    newest: Form<'a>,
    unanswered: bool,
    is_replaced: bool,
    /// How many images it shows.
    images: u32,
    /// What its sender takes, where the model is told.
    sender_tokens: u32,
}

#[derive(Clone, Copy, Debug)]
struct Form<'a> {
    record: &'a Record,
    /// The first form that asks.
    asked: Option<&'a Record>,
}

impl Form<'_> {
    fn is_recalled(&self) -> bool {
        let message = &self.record.message;
        message.parts.is_empty() || message.metadata.get("recalled") == Some(&Value::Bool(true))
    }
}

impl Message<'_> {
    /// What summaries count it by: its base, or for a reply its whole key.
    pub fn key(&self) -> &SortKey {
        if self.first.key.is_reply() { &self.first.key } else { &self.base }
    }

    /// Whether it waits for its answer.
    pub(super) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// Another message stands for it.
    pub(super) fn replace(&mut self) {
        (self.is_replaced, self.unanswered) = (true, false);
    }

    /// Its newest form.
    pub fn newest(&self) -> &Record {
        self.newest.record
    }

    /// The estimate of its newest form, in words.
    pub fn tokens(&self) -> u32 {
        self.newest.record.tokens
    }

    /// The same, with the images that it shows and the sender that the model is told.
    pub fn shown_tokens(&self) -> u32 {
        let images = self.images.saturating_mul(IMAGE_TOKENS);
        self.tokens().saturating_add(images).saturating_add(self.sender_tokens)
    }

    /// Who it is from: by its first form, since nobody else changes it. `None` for what the agent says. With an id only
    /// where several people speak.
    pub fn sender(&self) -> Option<Sender> {
        let sender = sender::of(self.first)?;
        Some(if self.sender_tokens > 0 { sender } else { Sender { id: String::new(), ..sender } })
    }

    /// Whether it holds a tool call without its result, such as one that waits for an approval.
    pub fn is_open(&self) -> bool {
        self.newest.record.message.has_open_call()
    }

    /// Whether it is a reply that went on after `summary` was made, which does not say what came of it.
    fn has_gone_on_since(&self, summary: &Record) -> bool {
        self.first.key.is_reply() && self.newest().revision > 0 && self.newest().sent_at > summary.sent_at
    }

    /// The newest form under the message's own id, with the author of the first form as the speaker.
    pub fn shown(&self) -> UiMessage {
        let mut message = self.newest.record.listed();
        message.id = self.first.message_id.to_string();
        if self.newest.record.user_id != self.first.user_id {
            let author = self.first.listed().metadata;
            for key in ["userId", "actorKey", "senderName"] {
                match author.get(key) {
                    Some(value) => message.metadata.insert(key.into(), value.clone()),
                    None => message.metadata.remove(key),
                };
            }
        }
        message
    }
}

/// The messages of `records`, in order.
fn messages<'a>(
    records: &'a [Record],
    newest: &HashMap<SortKey, Form<'a>>,
    covered: &HashSet<&SortKey>,
    now: Timestamp,
) -> Vec<Message<'a>> {
    let bases = |is_it: fn(&Record) -> bool| -> HashSet<SortKey> {
        records.iter().filter(|record| is_it(record)).map(|record| record.key.base()).collect()
    };
    let said = bases(|r| matches!(r.kind, Kind::Normal | Kind::Event) && !r.key.is_reply());
    // Where the first form has left the table, so may have what answered it: a later form alone is no message.
    let commands = bases(|r| matches!(r.kind, Kind::Notice | Kind::Boundary) && r.key == r.key.base());
    let mut edited_commands: HashSet<SortKey> = HashSet::new();
    records
        .iter()
        .filter(|record| match record.kind {
            Kind::Normal | Kind::Event => true,
            // The first edit of a command, where the command itself is no message.
            Kind::Revision => {
                let base = record.key.base();
                !record.key.hangs_on_reply()
                    && !said.contains(&base)
                    && commands.contains(&base)
                    && edited_commands.insert(base)
            }
            Kind::Summary | Kind::Boundary | Kind::Notice => false,
        })
        .filter(|record| matches!(record.role(), Role::User | Role::Assistant))
        .map(|first| {
            let base = first.key.base();
            let own = Form { record: first, asked: None };
            let place = if first.key.is_reply() { &first.key } else { &base };
            let newest = newest.get(place).copied().unwrap_or(own);
            let waits = newest.asked.is_some_and(|asked| !has_lapsed(asked, now));
            let unanswered = waits && !newest.is_recalled() && !covered.contains(&base);
            Message { base, first, newest, unanswered, is_replaced: false, images: 0, sender_tokens: 0 }
        })
        .collect()
}

/// Notes how many images each message shows: of all, the newest `most`.
fn count_images<'a>(earlier: &mut [Message<'a>], unanswered: &mut [Message<'a>], most: usize) {
    let mut left = most;
    for message in unanswered.iter_mut().rev().chain(earlier.iter_mut().rev()) {
        let newest = message.newest.record;
        let shown = media::count_images(&newest.message, newest.channel).min(left);
        left -= shown;
        message.images = u32::try_from(shown).unwrap_or(u32::MAX);
    }
}

/// The line of the first message that waits; where none does, of the last one that a person said.
fn line_in_view<'a>(messages: &[Message<'a>]) -> Option<&'a str> {
    let waiting = messages.iter().find(|m| m.unanswered);
    let last = || messages.iter().rev().find(|m| m.first.is_interaction());
    waiting.or_else(last).and_then(|m| m.first.line())
}

/// The newest form of each message, by the platform's word on their order, else in order of arrival.
fn newest_forms(records: &[Record]) -> HashMap<SortKey, Form<'_>> {
    let mut forms: HashMap<SortKey, Form<'_>> = HashMap::new();
    for record in records {
        let is_form = matches!(record.kind, Kind::Normal | Kind::Event | Kind::Revision);
        if !is_form || record.key.is_reply() {
            continue;
        }
        let base = record.key.base();
        forms
            .entry(if record.key.hangs_on_reply() { base.reply() } else { base })
            .and_modify(|form| {
                if (record.form_ts, record.revision) >= (form.record.form_ts, form.record.revision) {
                    form.record = record;
                }
                form.asked = form.asked.or(Some(record).filter(|record| record.asks));
            })
            .or_insert(Form { record, asked: Some(record).filter(|record| record.asks) });
    }
    forms
}

/// Marks the items of an album unanswered where one of them is: an album is answered as one.
fn with_whole_albums<'a>(mut messages: Vec<Message<'a>>, covered: &HashSet<&SortKey>) -> Vec<Message<'a>> {
    let albums: HashSet<&str> =
        messages.iter().filter(|m| m.unanswered).filter_map(|m| m.first.album.as_deref()).collect();
    for message in &mut messages {
        message.unanswered |= message.first.album.as_deref().is_some_and(|album| albums.contains(album))
            && !covered.contains(&message.base)
            && !message.newest.is_recalled();
    }
    messages
}

/// The `/compact` commands among `records` that have no answer; one that was edited is a message.
fn to_compact(records: &[Record], covered: &HashSet<&SortKey>, now: Timestamp) -> Vec<SortKey> {
    let edited: HashSet<SortKey> = records
        .iter()
        .filter(|record| record.kind == Kind::Revision && !record.key.hangs_on_reply())
        .map(|record| record.key.base())
        .collect();
    let is_command =
        |record: &&Record| record.kind == Kind::Notice && record.asks && !has_lapsed(record, now);
    let bases = records.iter().filter(is_command).map(|record| record.key.base());
    bases.filter(|base| !covered.contains(base) && !edited.contains(base)).collect()
}

/// Returns whether a message has passed the date on which TTL may delete it, and so is no longer answered: what covers it
/// has a date no earlier than its own, but TTL deletes expired items in any order. The first form that asks decides. An edit
/// has a later date than the reply to what it changes.
fn has_lapsed(asked: &Record, now: Timestamp) -> bool {
    asked.expires_at.is_some_and(|at| Timestamp::from_secs(at) <= now)
}

/// From where on a Session with `summary` is read: the summary, what was on its way when it was made, and what is shown
/// beside it.
fn read_from<'m, 'a: 'm>(summary: &Record, shown: impl Iterator<Item = &'m Message<'a>>) -> SortKey {
    let read_at = summary.source.as_ref().and_then(|source| source.read_at);
    let in_flight =
        read_at.map_or(summary.sent_at.minus(IN_FLIGHT_OF_A_RUN), |read_at| read_at.minus(IN_FLIGHT));
    let in_flight = SortKey::start_of(in_flight);
    shown.map(|message| message.base.clone()).chain([summary.key.base()]).fold(in_flight, SortKey::min)
}

/// By how much the model's own count exceeds the estimate, by the newest reply that says both.
fn correction(records: &[Record]) -> f64 {
    let number = |usage: &Value, name: &str| u32::try_from(usage.get(name)?.as_u64()?).ok();
    let counts = records.iter().rev().find_map(|record| {
        let usage = record.message.metadata.get("usage")?;
        Some((number(usage, "inputTokens")?, number(usage, "estimatedInputTokens")?))
    });
    counts.map_or(1.0, |(counted, estimated)| tokens::correction(counted, estimated))
}
