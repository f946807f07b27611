//! The next thing that a run does: [`next`], a pure function of the head as it was claimed and the records as they were
//! read after the claim. The exhaustive model of the protocol (`protocol/`) calls this very function.

use std::collections::HashSet;

use annals_core::approval;
use annals_core::context::Context;
use annals_core::record::{Channel, Record, message_at};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_store::history::stop::{ends, going_on_before, waiting_before};
use annals_store::history::turn::{Head, OpenTurn, Resumed};

use crate::coverage::{answered_by, covered_by_one_turn, newest_covered};

/// The next thing that a run does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Nothing,
    /// The `/stop` at `command` ends this turn: it is covered by a notice.
    End {
        /// The turn: the committed one, or one of the unanswered messages before the command, or a reply before it that
        /// would continue.
        turn: OpenTurn,
        command: SortKey,
    },
    Answer {
        /// The turn: the committed one, one in which a reply continues, or one of unanswered messages.
        turn: OpenTurn,
        /// True if there may be more to answer after it.
        leaves_more: bool,
        /// True if its reply is stored, so that it is only delivered, or continues.
        has_reply: bool,
    },
}

/// Returns the next thing to do for a run that has claimed `head` and read `records` since; `context` is theirs.
pub fn next(head: &Head, records: &[Record], context: &Context, now: Timestamp) -> Next {
    if let Some(command) = &head.stopped_to {
        let turn = match &head.turn {
            Some(turn) => Some(turn.clone()).filter(|turn| ends(records, command, turn)),
            None => ended_by(records, command, now),
        };
        if let Some(turn) = turn {
            return Next::End { turn, command: command.clone() };
        }
    }
    // An operator does not wait for a model.
    let sent = || context.to_send.first().map(|sent| sending(records, context, sent, now));
    // The reply that asked first continues first.
    let resumed = || {
        let mut to_resume = context.to_resume.iter().filter(|_| head.takeover.is_none());
        to_resume.find_map(|reply| resuming(records, reply))
    };
    let unanswered: &[SortKey] = if head.takeover.is_some() { &[] } else { &context.unanswered };
    let (turn, leaves_more) = match head.turn.clone().or_else(sent).or_else(resumed) {
        Some(turn) => (turn, true),
        None if unanswered.is_empty() && context.to_compact.is_empty() => return Next::Nothing,
        None => turn_of(records, context, unanswered),
    };
    let has_reply = has_reply(records, &turn);
    Next::Answer { turn, leaves_more, has_reply }
}

/// Returns `turn` with the messages that have come since it began, if a run that claimed `head` has not committed to it and has
/// read `records` since; `context` is theirs. `None` if there are none.
///
/// It is the turn that [`next`] would find now, less the messages of people for whom the run does not work already: theirs
/// would change who must approve its calls. A window of `useChat` shows each reply below the message that it was begun for,
/// under the id of that one, so its turns stay as they are.
pub fn extended(
    head: &Head,
    records: &[Record],
    context: &Context,
    now: Timestamp,
    turn: &OpenTurn,
) -> Option<OpenTurn> {
    if head.turn.is_some() || newest_covered(records, turn)?.channel == Channel::Web {
        return None;
    }
    let Next::Answer { turn: due, has_reply: false, .. } = next(head, records, context, now) else {
        return None;
    };
    if due.resumes.is_some() || !turn.covers.iter().all(|base| due.covers.contains(base)) {
        return None;
    }
    let asker = |base: &SortKey| message_at(records, base).map(|message| message.user_id.as_str());
    let askers: HashSet<_> = turn.covers.iter().map(asker).collect();
    let covers: Vec<_> = due.covers.into_iter().filter(|base| askers.contains(&asker(base))).collect();
    (covers.len() > turn.covers.len()).then(|| OpenTurn::new(covers))
}

/// Returns true if a run that claimed `head` has carried out the `/stop` in it once it ends. After a committed turn that the
/// command did not end, it may have more to end.
pub fn has_stopped(head: &Head) -> bool {
    head.stopped_to.is_some() && head.turn.is_none()
}

/// Returns the first turn that the `/stop` at `command` ends.
fn ended_by(records: &[Record], command: &SortKey, now: Timestamp) -> Option<OpenTurn> {
    let covers = covered_by_one_turn(records, waiting_before(records, command, now), u32::MAX);
    if covers.is_empty() {
        return going_on_before(records, command, now).find_map(|reply| resuming(records, &reply));
    }
    Some(OpenTurn::new(covers))
}

/// Returns the turn in which the reply at `key` continues; `None` if the messages that it answers have left the table.
fn resuming(records: &[Record], key: &SortKey) -> Option<OpenTurn> {
    let reply = records.iter().find(|record| record.key == *key)?;
    message_at(records, reply.covers().last()?)?;
    let shown = approval::newest_form(records, key)?.revision();
    let resumes = Some(Resumed { reply: key.clone(), shown });
    Some(OpenTurn { resumes, ..OpenTurn::new(reply.covers().to_vec()) })
}

/// Returns the turn that sends the operator's message at `sent`, with the messages that it answers.
fn sending(records: &[Record], context: &Context, sent: &SortKey, now: Timestamp) -> OpenTurn {
    let mut waiting = waiting_before(records, sent, now);
    waiting.retain(|base| !context.to_compact.contains(base));
    let answered = answered_by(records, sent, waiting);
    OpenTurn::new(answered.into_iter().chain([sent.clone()]).collect())
}

/// Returns the next turn, and true if it leaves more: a `/compact` if that was said first, else `unanswered` messages, those
/// of the context that a model may answer.
fn turn_of(records: &[Record], context: &Context, unanswered: &[SortKey]) -> (OpenTurn, bool) {
    let to_compact = context.to_compact.first();
    if let Some(command) = to_compact.filter(|command| unanswered.iter().all(|base| *command < base)) {
        let leaves_more = context.to_compact.len() > 1 || !unanswered.is_empty();
        return (OpenTurn::new(vec![command.clone()]), leaves_more || context.others_wait);
    }
    // Messages after a `/compact` are answered after it.
    let before = unanswered.iter().filter(|base| to_compact.is_none_or(|command| *base < command));
    let covers = covered_by_one_turn(records, before.cloned().collect(), context.token_budget);
    let leaves_more = covers.len() < unanswered.len() || to_compact.is_some() || context.others_wait;
    (OpenTurn::new(covers), leaves_more)
}

fn has_reply(records: &[Record], turn: &OpenTurn) -> bool {
    let key = turn.covers.last().map(SortKey::reply);
    records.iter().any(|record| Some(&record.key) == key.as_ref())
}
