//! The tools of a turn: [`Offered`] selects them, [`Toolbox`] carries out calls of them.
//!
//! - `history.rs`: `chat_history_search`, if the chat has archived messages
//! - `memory.rs`: `memory_search`, `memory_save`, `memory_forget`, if the turn has a memory
//! - `targets.rs`, `sending.rs`: `chat_send`, if there is a chat to send to
//! - `schedules.rs`: `schedule_create`, `schedule_list`, `schedule_cancel`
//! - `mcp.rs`, outside this folder: the tools of external servers
//! - `skills.rs`: `skills_load`, if the chat's agent has skills
//! - [`offered`]: the tools that a turn gives its model
//! - `schema.rs`: checks an input against the tool's schema
//! - `result.rs`: results of calls, shortened for the model
//!
//! *Invariant:* an error, a timeout or an unknown name is a result that the model is given, and never fails the turn.

mod history;
mod memory;
pub(crate) mod offered;
pub(crate) mod result;
mod schedules;
mod schema;
mod sending;
mod skills;
mod targets;

use std::time::Duration;

use annals_core::markup::clean_name;
use annals_core::message::{Part, PartView, ToolCall, UiMessage};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::texts::Plain;
use annals_core::texts::en::En;
use annals_core::trace::Step;
use annals_core::visible::shown_input;
use annals_engine::settings::tools::CallApproval;
use annals_model::Tool;
use annals_store::memory::Memory;
use tokio::sync::Mutex;

use self::memory::Notes;
use self::offered::{OWN, Offered};
use self::result::Output;
use self::schedules::Schedules;
use self::sending::Sending;
use self::targets::SEND;
use crate::agent::Agent;
use crate::mcp::{External, Session};
use crate::task::ClaimedTurn;

/// Maximum number of external tools that an entry of memory names.
const MAX_LABELS: usize = 8;

/// Carries out the calls of one turn.
pub(crate) struct Toolbox<'a> {
    pub(crate) agent: &'a Agent,
    turn: &'a ClaimedTurn,
    offered: &'a Offered,
    session: Option<&'a Session<'a>>,
    since: Option<Since>,
    notes: Option<Notes>,
    schedules: Schedules<'a>,
    /// One text to another chat at a time, in the order of the calls.
    sends: Mutex<()>,
    /// Ids of the messages in view.
    shown: Vec<String>,
    /// The tools whose results are in the messages in view.
    in_view: Vec<String>,
}

/// The start of what a turn may know, if nothing of an earlier Session.
pub(crate) struct Since {
    /// The first message that a search of the history finds.
    pub(crate) messages: SortKey,
    /// Time after which the schedules of a list were created.
    pub(crate) schedules: Timestamp,
}

impl<'a> Toolbox<'a> {
    /// Returns the toolbox of `turn`, with the selected tools of `offered`, for a model that sees `messages`. External tools are
    /// called over the connections of `session`; searches of the history and lists of schedules find only what came `since`, or
    /// all without it.
    pub(crate) fn new(
        agent: &'a Agent,
        turn: &'a ClaimedTurn,
        offered: &'a Offered,
        messages: &[UiMessage],
        session: Option<&'a Session<'a>>,
        since: Option<Since>,
    ) -> Self {
        let history = &agent.history;
        let notes = offered.memory.as_ref().zip(turn.memory_source()).map(|(recalled, source)| {
            Notes::new(Memory::beside(history), recalled.owner.clone(), source, agent.memory.needs_approval)
        });
        let schedules = Schedules {
            history,
            chat: &turn.lease.chat,
            turn: &turn.turn,
            records: &turn.records,
            newest: &turn.newest,
            is_of_one_person: turn.is_of_one_person(),
            time_zone: offered.time_zone(agent.view.time_zone),
            now: history.clock().now(),
        };
        let sends = Mutex::default();
        let shown = messages.iter().map(|message| message.id.clone()).collect();
        let in_view = messages.iter().flat_map(|message| &message.parts).filter_map(called);
        let in_view = in_view.map(str::to_owned).collect();
        Self { agent, turn, offered, session, since, notes, schedules, sends, shown, in_view }
    }

    pub(crate) fn offered(&self) -> &'a [Tool] {
        &self.offered.tools
    }

    /// Returns true if the call needs approval. One that cannot be carried out anyway does not.
    fn needs_approval(&self, call: &ToolCall) -> bool {
        self.approval(call) != CallApproval::NotNeeded && self.check(call).is_ok()
    }

    /// Returns true if only administrators may approve the call.
    pub(crate) fn needs_admin(&self, call: &ToolCall) -> bool {
        self.approval(call) == CallApproval::ByAdmins
    }

    fn approval(&self, call: &ToolCall) -> CallApproval {
        if call.name == SEND {
            return self.offered.targets.approval(&call.input);
        }
        self.external(&call.name).map_or(CallApproval::NotNeeded, |external| external.approval)
    }

    /// Carries out a call, within `left`. It is the `nth` call of its tool in the reply, from 0; the reply has called the tools
    /// `so_far`. Returns `None` if it needs approval, and so has no result yet.
    pub(crate) async fn call(
        &self,
        call: &ToolCall,
        nth: usize,
        so_far: &[&str],
        left: Duration,
    ) -> Option<Output> {
        if !self.needs_approval(call) {
            return Some(self.call_allowed(call, nth, so_far, left).await);
        }
        // Nobody is asked to approve an input that cannot be shown.
        let shown = shown_input(&call.input, |count| En.characters_left_out(count));
        Some(Err(shown.err()?.to_string()))
    }

    /// Carries out a call that needs no approval, or has it. The parameters are those of [`Toolbox::call`].
    pub(crate) async fn call_allowed(
        &self,
        call: &ToolCall,
        nth: usize,
        so_far: &[&str],
        left: Duration,
    ) -> Output {
        self.check(call)?;
        let mut timing = self.agent.recorder.begin(Step::Tool).named(&call.name);
        if left.is_zero() {
            return Err("not carried out: this turn has no time left for calls".into());
        }
        let carrying_out = Box::pin(self.carry_out(call, nth, so_far));
        let output = self.agent.clock.within(left, carrying_out).await.unwrap_or_else(|| {
            tracing::warn!(
                tool = call.name,
                "gave up a call of a tool: the turn has no time left for it; the model is told"
            );
            Err("the call was given up: it took longer than this turn has. Its outcome is not known.".into())
        });
        if output.is_err() {
            timing.failed("failed");
        }
        output
    }

    /// Returns the reason why a call cannot be carried out as it is.
    fn check(&self, call: &ToolCall) -> Result<(), String> {
        let Some(tool) = self.offered().iter().find(|tool| tool.name == call.name) else {
            let name = &call.name;
            return Err(if self.offered.may_be_unreachable(name) {
                format!("the tool {name:?} cannot be reached at the moment; nothing was carried out")
            } else {
                format!("there is no tool {name:?}")
            });
        };
        schema::problem(&tool.input_schema, &call.input).map_or(Ok(()), Err)
    }

    #[tracing::instrument(name = "tool", skip_all, fields(
        gen_ai.operation.name = "execute_tool",
        // The name of an offered tool: a name that the model made up is not carried out.
        gen_ai.tool.name = call.name.as_str(),
    ))]
    async fn carry_out(&self, call: &ToolCall, nth: usize, so_far: &[&str]) -> Output {
        let Self { agent, turn, offered, since, shown, .. } = self;
        if call.name == history::SEARCH {
            let (history, chat) = (&agent.history, &turn.lease.chat);
            let since = since.as_ref().map(|since| &since.messages);
            return history::search(history, chat, turn.newest.line(), since, shown, &call.input).await;
        }
        if let Some(profile) = offered.profile.as_ref().filter(|_| call.name == skills::LOAD) {
            return skills::load(profile, &call.input);
        }
        if let Some(notes) = &self.notes
            && let Some(output) = notes.call(&call.name, nth, &call.input, &self.read(so_far)).await
        {
            return output;
        }
        let since = since.as_ref().map(|since| since.schedules);
        if let Some(output) = self.schedules.call(&call.name, nth, &call.input, since, shown).await {
            return output;
        }
        if call.name == SEND
            && let Some(ingress) = &agent.outgoing
        {
            let _turn = self.sends.lock().await;
            let sending = Sending { agent, ingress, targets: &offered.targets, turn };
            return sending.call(&call.id, nth, &call.input).await;
        }
        match (self.external(&call.name), self.session) {
            (Some(external), Some(session)) => session.call(external, &call.input).await,
            _ => Err(format!("there is no tool {:?}", call.name)),
        }
    }

    /// Returns the external tools whose results the model has read: those in view, and those that the reply has called, also
    /// in the same step. A tool that is not offered any more is given by its name.
    fn read(&self, so_far: &[&str]) -> Vec<String> {
        let names = self.in_view.iter().map(String::as_str).chain(so_far.iter().copied());
        let external = names.filter(|name| !OWN.contains(name));
        let labels = external.map(|name| match self.external(name) {
            Some(external) => external.label.clone(),
            None => clean_name(name),
        });
        let mut read: Vec<String> = Vec::new();
        for label in labels {
            if read.len() < MAX_LABELS && !read.contains(&label) {
                read.push(label);
            }
        }
        read
    }

    fn external(&self, name: &str) -> Option<&External> {
        self.offered.servers.tools.iter().find(|external| external.tool.name == name)
    }
}

/// Returns the tool that `part` is a call of, if it has a result.
fn called(part: &Part) -> Option<&str> {
    match part.view() {
        PartView::Tool { name, state: "output-available" | "output-error", .. } => Some(name),
        _ => None,
    }
}
