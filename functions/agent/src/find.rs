//! Finds the work in a chat that this run has claimed, and prepares it: reads the records, captures ended sessions, recalls
//! memory, waits for the rest of a burst, and compacts. The decision itself is [`next`], a pure function.

use annals_core::chat_key::ChatKey;
use annals_core::chat_settings::GroupActivation;
use annals_core::context::{Policy, context, records_of_turn};
use annals_core::limits::{Quota, Scope};
use annals_core::record::Record;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::trace::Step;
use annals_engine::usage::Allowance;
use annals_store::history::turn::{Ending, Lease, OpenTurn};
use annals_store::history::{ContextRead, HistoryError};

use crate::agent::Agent;
use crate::budget::{self, Summaries};
use crate::coverage::newest_covered;
use crate::deliver::still_blocked;
use crate::error::TurnError;
use crate::making::Unstored;
use crate::mcp::ServerTools;
use crate::next::{Next, has_stopped, next};
use crate::quiet::pause_for_more;
use crate::remember::{capture_ended, recall, uncaptured};
use crate::reread::{add_covered, add_edited};
use crate::run::Run;
use crate::surroundings::append_surroundings;
use crate::task::{ClaimedTurn, Found, PausedReply, StoppedTurn, Task, Work};
use crate::tools::offered::{OWN, Offered};
use crate::typing::Typing;

/// Finds the work of a run: first a turn that a `/stop` has ended, then a committed turn, then unanswered messages.
pub(crate) async fn find(agent: &Agent, run: &Run<'_>) -> Result<Found, TurnError> {
    let mut lease = run.lease.clone();
    let committed = run.lease.head.turn.as_ref();
    let nothing = |ending| Found { task: Task::Nothing, ending, leaves_more: committed.is_some() };
    let from = run.named.iter().min();
    reach_back(agent, &mut lease, from).await?;
    let first_covered = committed.and_then(|turn| turn.covers.first());
    let from = [from, first_covered].into_iter().flatten().min().cloned();
    let policy = agent.policy(0);
    // Where every message asks, each comes as an event of its own.
    let is_overheard = lease.head.settings.activation != Some(GroupActivation::Always);
    let mut is_incomplete = committed.is_none() && is_overheard;
    let mut prepared = Prepared::default();
    loop {
        // A message that comes during the read may be one of a burst.
        let read_at = agent.clock.now();
        let Some(seen) = read(agent, &lease, run.named, from.as_ref(), &policy).await? else {
            return Ok(nothing(Ending::default()));
        };
        let next = next(&lease.head, &seen.records, &seen.context, agent.clock.now());
        if let Next::End { turn, command } = next {
            return find_stopped(agent, lease, turn, &command, seen.records, run.unstored).await;
        }
        if let Next::Answer { turn, .. } = &next {
            announce(agent, run.typing, &lease, turn, &seen.records);
        }
        if std::mem::take(&mut is_incomplete) && append_surroundings(agent, &lease.head, &seen).await? {
            continue;
        }
        let ContextRead { records, context } = seen;
        let title = lease.head.title_after(&records);
        let sends = matches!(&next, Next::Answer { turn, .. }
            if turn.covers.last().is_some_and(|base| context.to_send.contains(base)));
        if prepared.captured.is_none() {
            prepared.captured = Some(match &next {
                // A turn that only sends its reply asks no model, however often it is repeated.
                Next::Answer { has_reply, .. } if *has_reply || sends => uncaptured(&records),
                _ => capture_ended(agent, &lease, &records).await,
            });
        }
        let ending = prepared.captured.clone().unwrap_or_default();
        let Next::Answer { turn, leaves_more, has_reply } = next else {
            let read_from = run.lease.head.context_from.as_ref();
            let context_from =
                context.reaches_back_to.filter(|from| starts_elsewhere(from, &lease, read_from));
            let has_stopped = has_stopped(&lease.head);
            return Ok(nothing(Ending { context_from, has_stopped, title, ..ending }));
        };
        if turn.resumes.is_some() {
            // A reply that is gone asks nothing any more.
            let Some(task) = find_paused(agent, &lease, turn).await? else { return Ok(nothing(ending)) };
            return Ok(Found { task, ending, leaves_more: true });
        }
        if committed.is_none()
            && !sends
            && let Some(pause) = pause_for_more(agent.quiet, read_at, &records, &context.unanswered)
        {
            let _pause = agent.recorder.begin(Step::Pause);
            agent.clock.sleep(pause).await;
            continue;
        }
        let asks_model = !sends && turn.covers.last().is_some_and(|base| !context.to_compact.contains(base));
        if !has_reply && asks_model {
            if let Some((quota, until)) = prepared.reached(agent, &lease.chat, &records, &turn).await? {
                let ending = Ending { context_from: context.reaches_back_to, title, ..ending };
                let mut turn = ClaimedTurn::new(lease, turn, records)?;
                // The next run answers the others. A committed turn keeps its messages.
                let is_for_one = quota.scope == Scope::Person && committed.is_none();
                let leaves_more = (is_for_one && turn.leave_others()) || leaves_more;
                let task = Task::Turn(turn, Work::Refuse { quota, until });
                return Ok(Found { task, ending, leaves_more });
            }
            // Neither memory nor compaction is for messages of another turn, maybe on another line of the chat.
            let (own, _) = records_of_turn(&records, &turn.covers, agent.clock.now(), &policy);
            if prepared.compact_if_due(agent, &mut lease, &own).await? {
                continue;
            }
        }
        let ending = Ending { context_from: context.reaches_back_to, title, ..ending };
        let allowance = prepared.allowance.unwrap_or_default();
        let turn = ClaimedTurn { allowance, ..ClaimedTurn::new(lease, turn, records)? };
        let work = work_on(&turn, prepared.offered.unwrap_or_default(), from);
        return Ok(Found { task: Task::Turn(turn, work), ending, leaves_more });
    }
}

/// The results that a run makes once, and keeps if it reads the records again.
#[derive(Default)]
struct Prepared {
    captured: Option<Ending>,
    allowance: Option<Allowance>,
    /// The memory and tools for the model.
    offered: Option<Offered>,
    summaries: Summaries,
}

impl Prepared {
    /// Returns the limit that is reached for the sender of the newest message of `turn`, and the end of that.
    async fn reached(
        &mut self,
        agent: &Agent,
        chat: &ChatKey,
        records: &[Record],
        turn: &OpenTurn,
    ) -> Result<Option<(Quota, Timestamp)>, HistoryError> {
        if self.allowance.is_none()
            && let Some(asked) = newest_covered(records, turn)
        {
            self.allowance = Some(agent.allowance(chat, asked).await?);
        }
        Ok(self.allowance.as_ref().and_then(Allowance::reached))
    }

    /// Offers memory and tools to a turn that sees `records`, and compacts once if the context does not fit beside them. Returns
    /// true if it did, so that the records must be read again.
    async fn compact_if_due(
        &mut self,
        agent: &Agent,
        lease: &mut Lease,
        records: &[Record],
    ) -> Result<bool, TurnError> {
        let offered = match &mut self.offered {
            Some(offered) => offered,
            none => none.insert(offer(agent, &lease.chat, records).await),
        };
        offered.select(&lease.head, agent.view.window);
        let budget = agent.policy(offered.tokens()).token_budget;
        budget::compact_if_due(agent, lease, records, budget, &mut self.summaries).await
    }
}

/// Reads the records of the chat of `lease`, with the `named` messages and those that a committed turn covers, also if they
/// have left the table. Returns `None` if the turn cannot be done any more.
async fn read(
    agent: &Agent,
    Lease { chat, head, .. }: &Lease,
    named: &[SortKey],
    from: Option<&SortKey>,
    policy: &Policy,
) -> Result<Option<ContextRead>, TurnError> {
    let reading = agent.recorder.begin(Step::Read);
    let mut seen = agent.history.context(chat, head, from, policy).await?;
    if add_edited(agent, chat, named, &mut seen.records).await? {
        seen.context = context(&seen.records, agent.clock.now(), policy);
    }
    drop(reading);
    // A `/stop` ends a turn that continues a reply by what it covers, too.
    let is_whole_needed = |turn: &&OpenTurn| turn.resumes.is_none() || head.stopped_to.is_some();
    if let Some(turn) = head.turn.as_ref().filter(is_whole_needed) {
        if !add_covered(agent, chat, turn, &mut seen.records).await? {
            return Ok(None);
        }
        seen.context = context(&seen.records, agent.clock.now(), policy);
    }
    // A reply under an earlier name of the chat continues there.
    let is_own = |key: &SortKey| seen.records.iter().any(|own| own.key == *key && own.chat == *chat);
    seen.context.to_resume.retain(is_own);
    Ok(Some(seen))
}

/// Returns the work on a turn whose reply is new, or stored and to be sent.
fn work_on(turn: &ClaimedTurn, offered: Offered, from: Option<SortKey>) -> Work {
    if let Some(reply) = turn.stored_reply().cloned() {
        Work::Deliver(Box::new(reply))
    } else if turn.newest.dispatch().is_some() {
        Work::Send
    } else if turn.is_compact_command() {
        Work::Compact
    } else {
        Work::Answer { offered, from }
    }
}

/// Returns the task to end `turn`, which the `/stop` at `command` has stopped, or first what the `unstored` reply answers.
async fn find_stopped(
    agent: &Agent,
    lease: Lease,
    turn: OpenTurn,
    command: &SortKey,
    records: Vec<Record>,
    unstored: Option<&Unstored>,
) -> Result<Found, TurnError> {
    let answered = unstored.and_then(|unstored| unstored.answered(&lease.head, &turn));
    let unstored = unstored.filter(|_| answered.is_some()).cloned();
    let turn = answered.unwrap_or(turn);
    let command = records.iter().find(|record| record.key == *command);
    let command_id = command.map(|record| record.message_id.to_string()).unwrap_or_default();
    let mut turn = ClaimedTurn::new(lease, turn, records)?;
    if unstored.is_some() {
        turn.read_allowance(agent).await?;
    }
    let task = Task::End(StoppedTurn { turn, command_id, unstored });
    Ok(Found { task, ending: Ending::default(), leaves_more: true })
}

/// Returns true if the head must note that the context starts at `from`, after a run that found nothing and began with
/// `read_from`: a message that is answered may have come with a time before the records that the next run would read.
fn starts_elsewhere(from: &SortKey, lease: &Lease, read_from: Option<&SortKey>) -> bool {
    let known = lease.head.context_from.as_ref();
    known.is_some_and(|known| from < known || (Some(known) != read_from && from > known))
}

/// Reads the memory and the outside tools for a turn that sees `records`; for `echo`, which calls nothing, no tools.
async fn offer(agent: &Agent, chat: &ChatKey, records: &[Record]) -> Offered {
    let _timing = agent.recorder.begin(Step::Prepare);
    let recalled = recall(agent, chat, records).await;
    let servers = match &agent.servers {
        Some(servers) if !agent.model.is_echo() => servers.offer(&agent.history, &OWN).await,
        _ => ServerTools::default(),
    };
    // The same in all turns of the chat, as far as its messages tell.
    let is_group = || records.iter().any(Record::is_group);
    let is_shared = match chat.channel() {
        None => false,
        Some(channel) if channel.is_of_callers() => agent.memory.links,
        // No event of a group tells a person's private window.
        Some(channel) if ChatKey::are_private_windows_untold(channel) => agent.memory.links && is_group(),
        Some(_) => is_group(),
    };
    let sends = agent.outgoing.as_ref().map(|_| is_shared);
    Offered::new(recalled, servers, !agent.model.is_echo(), sends, agent.profile.clone())
}

/// Finds the reply that `turn` continues, with the records that it was made from. Returns `None` if it has left the table, or has
/// lapsed: a later form may have left.
async fn find_paused(agent: &Agent, lease: &Lease, turn: OpenTurn) -> Result<Option<Task>, TurnError> {
    let Some(resumed) = turn.resumes.clone() else { return Ok(None) };
    let forms = agent.history.message(&lease.chat, &resumed.reply).await?;
    let is_it = |record: &&Record| record.key == resumed.reply && !record.has_lapsed(agent.clock.now());
    let Some(reply) = forms.iter().find(is_it).cloned() else { return Ok(None) };
    let (policy, at) = (agent.policy(0), reply.sent_at);
    let base = reply.key.base();
    let from = turn.covers.first().unwrap_or(&base);
    let (chat, head) = (&lease.chat, &lease.head);
    let mut records = agent.history.records_before(chat, head, from, &reply.key, at, &policy).await?;
    if !add_covered(agent, chat, &turn, &mut records).await? {
        return Ok(None);
    }
    if let Some(servers) = &agent.servers {
        // An approved call is made once, so each attempt asks its server.
        servers.ask_again();
    }
    let mut offered = offer(agent, chat, &records_of_turn(&records, &turn.covers, at, &policy).0).await;
    offered.select(head, agent.view.window);
    let mut turn = ClaimedTurn::new(lease.clone(), turn, records)?;
    // A reply that is begun is finished, whatever is left.
    turn.read_allowance(agent).await?;
    let paused = Box::new(PausedReply::new(reply, forms, Some(&resumed)));
    if let Some(token) = paused.reply_token() {
        turn.newest.set_reply_token(token.clone());
    }
    Ok(Some(Task::Turn(turn, Work::Resume { offered, paused })))
}

/// Makes this run and later ones read from the message that the queue named, if that is earlier than the head says. If this
/// turn ends among the dead letters, the chat's next one still finds its messages.
async fn reach_back(agent: &Agent, lease: &mut Lease, from: Option<&SortKey>) -> Result<(), TurnError> {
    let known = lease.head.context_from.as_ref();
    if let Some(from) = from.filter(|from| known.is_some_and(|known| *from < known)) {
        agent.history.reach_back(lease, from).await?;
        lease.head.context_from = Some(from.clone());
    }
    Ok(())
}

/// Returns true if the messages that the queue named are answered, as far as a small query can tell: in a burst, one run
/// answers the messages of many turns. Reads nothing if one of them is newer than all that was answered.
pub(crate) async fn are_answered(
    agent: &Agent,
    lease: &Lease,
    named: &[SortKey],
) -> Result<bool, HistoryError> {
    let Lease { chat, head, .. } = lease;
    let may_be = !named.is_empty() && named.iter().max() <= head.answered_to.as_ref();
    let is_free = head.turn.is_none() && head.stopped_to.is_none();
    Ok(may_be && is_free && agent.history.are_covered_lately(chat, named).await?)
}

/// Starts to show people that `turn` is being answered, if its newest message was read and the platform takes messages.
pub(crate) fn announce(agent: &Agent, typing: &Typing, lease: &Lease, turn: &OpenTurn, records: &[Record]) {
    let blocked = lease.head.blocked.as_ref();
    if let Some(to) = newest_covered(records, turn)
        && to.dispatch().is_none()
        && !blocked.is_some_and(|blocked| still_blocked(agent, blocked, to))
    {
        typing.begin(to, turn.resumes.is_none());
    }
}
