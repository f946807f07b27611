//! The tools of a turn: [`Offered`] selects them, [`Toolbox`] carries out calls of them.
//!
//! - `history.rs`: `chat_history_search`, if the chat has archived messages
//! - `memory.rs`: `memory_search`, `memory_save`, `memory_forget`, if the turn has a memory
//! - `sending.rs`: `chat_send`, if there is a chat to send to
//! - `schedules.rs`: `schedule_create`, `schedule_list`, `schedule_cancel`
//! - `mcp.rs`, outside this folder: the tools of external servers
//! - `skills.rs`: `skills_load`, if the chat's agent has skills
//! - `schema.rs`: checks an input against the tool's schema
//! - `result.rs`: results of calls, shortened for the model
//!
//! *Invariant:* an error, a timeout or an unknown name is a result that the model is given, and never fails the turn.

mod history;
mod memory;
pub(crate) mod result;
mod schedules;
mod schema;
mod sending;
mod skills;

use std::sync::Arc;
use std::time::Duration;

use annals_core::agents::Profile;
use annals_core::chat_key::ChatKey;
use annals_core::markup::clean_name;
use annals_core::message::{Part, PartView, ToolCall, UiMessage};
use annals_core::sort_key::SortKey;
use annals_core::time_zone::TimeZone;
use annals_core::tokens;
use annals_core::trace::Step;
use annals_engine::remembering::{Recalled, RecalledMemory};
use annals_engine::settings::tools::CallApproval;
use annals_io::clock::Clock;
use annals_io::recorder::Recorder;
use annals_model::Tool;
use annals_store::history::History;
use annals_store::history::turn::Head;
use annals_store::memory::Memory;

use self::memory::Notes;
use self::result::Output;
use self::schedules::Schedules;
use self::sending::{Sending, Targets};
use crate::agent::Agent;
use crate::mcp::{External, ServerTools, Session};
use crate::task::ClaimedTurn;

/// Share of the window that all tools may take, as one in this many: the rest is for messages.
const TOOLS_SHARE: u32 = 4;

/// Maximum number of tools that a turn offers, about the limit of providers.
const MAX_TOOLS: usize = 120;

/// Maximum number of external tools that an entry of memory names.
const MAX_LABELS: usize = 8;

/// The names of the agent's own tools.
pub(crate) const OWN: [&str; 9] = [
    history::SEARCH,
    memory::SEARCH,
    memory::SAVE,
    memory::FORGET,
    schedules::CREATE,
    schedules::LIST,
    schedules::CANCEL,
    sending::SEND,
    skills::LOAD,
];

/// The memory, the time zone and the tools that a turn gives its model.
#[derive(Clone, Default)]
pub(crate) struct Offered {
    /// The memory of the turn's owner.
    memory: Option<RecalledMemory>,
    /// The time zone in which the model is told times; `None` for `TIME_ZONE`.
    time_zone: Option<TimeZone>,
    servers: ServerTools,
    /// The chats to send to.
    targets: Targets,
    /// True if the person who asks may have a direct chat beside this one; `None` if nothing is sent to other chats.
    sends: Option<bool>,
    /// False for `echo`.
    calls_tools: bool,
    /// The profile of the chat's agent.
    profile: Option<Arc<Profile>>,
    /// Tools that are offered together or not at all.
    selected: Vec<Vec<Tool>>,
}

impl Offered {
    /// Returns the memory and tools of a turn, with no tool selected. Without `calls_tools` none ever is.
    pub(crate) fn new(
        recalled: Option<Recalled>,
        servers: ServerTools,
        calls_tools: bool,
        sends: Option<bool>,
        profile: Option<Arc<Profile>>,
    ) -> Self {
        let (memory, time_zone) =
            recalled.map_or((None, None), |recalled| (recalled.memory, Some(recalled.time_zone)));
        let (targets, selected) = (Targets::default(), Vec::new());
        Self { memory, time_zone, servers, targets, sends, calls_tools, profile, selected }
    }

    /// Selects the tools for a chat of this head, for requests of `window` tokens. The same in each turn of the chat, in a
    /// fixed order: providers cache the beginning of a request, and tools come first in it.
    pub(crate) fn select(&mut self, head: &Head, window: u32) {
        self.selected.clear();
        if self.calls_tools {
            // A chat without segments has nothing to search.
            let search = head.longest_segment().map(|_| vec![history::tool()]);
            let notes = self.memory.as_ref().map(|memory| memory::tools(&memory.owner));
            let named = || head.settings.sends_to.clone();
            let targets = self.sends.map(|has_direct| Targets { has_direct, named: named() });
            self.targets = targets.unwrap_or_default();
            let sending = self.targets.tool().map(|tool| vec![tool]);
            let external = self.servers.tools.iter().filter(|tool| self.is_allowed(&tool.label));
            let external = external.map(|tool| vec![tool.tool.clone()]);
            let own = search.into_iter().chain(notes).chain([schedules::tools()]).chain(sending);
            let own = own.map(|mut tools| {
                tools.retain(|tool| self.is_allowed(&tool.name));
                tools
            });
            let skills = self.profile.as_deref().and_then(skills::tool).map(|tool| vec![tool]);
            let all = skills.into_iter().chain(own).chain(external).filter(|tools| !tools.is_empty());
            self.selected = all.take(MAX_TOOLS).collect();
            self.fit(window);
        }
    }

    /// Returns true if the profile of the chat's agent lets it have a tool, by its name or `<server>/<tool>`.
    fn is_allowed(&self, name: &str) -> bool {
        let server = name.split('/').next();
        let allowed = self.profile.as_ref().and_then(|profile| profile.tools.as_ref());
        allowed.is_none_or(|allowed| {
            allowed.iter().any(|allowed| allowed.name == name || Some(allowed.name.as_str()) == server)
        })
    }

    /// Selects the tools again for the next request of a turn, if a server has said over a connection of `session` that its
    /// tools have changed. The other parameters are those of [`Offered::select`].
    pub(crate) async fn renew(&mut self, session: &Session<'_>, history: &History, head: &Head, window: u32) {
        if session.relist(&mut self.servers, history, &OWN).await {
            self.select(head, window);
        }
    }

    /// Drops tools, the last first, that take more than their share of a request of `window` tokens.
    pub(crate) fn fit(&mut self, window: u32) {
        let mut left = window / TOOLS_SHARE;
        self.selected.retain(|tools| {
            let takes = tools.iter().map(Tool::tokens).fold(0, u32::saturating_add);
            let fits = takes <= left;
            left = left.saturating_sub(if fits { takes } else { 0 });
            fits
        });
    }

    /// Returns the notes for the model: the recalled memory, and the servers that cannot be reached. Both change from turn to
    /// turn, so they follow everything that does not.
    pub(crate) fn notes(&self) -> Option<String> {
        let known = self.memory.as_ref().and_then(|memory| memory.section.clone());
        let unreachable = self.servers.unreachable.join(", ");
        let unreachable = Some(unreachable).filter(|names| !names.is_empty());
        let unreachable =
            unreachable.map(|names| format!("At the moment the tools of {names} cannot be reached."));
        let notes: Vec<String> = known.into_iter().chain(unreachable).collect();
        (!notes.is_empty()).then(|| notes.join("\n\n"))
    }

    /// Returns the names of the selected tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.selected.iter().flatten().map(|tool| tool.name.as_str())
    }

    /// Returns the time zone in which the model is told times.
    pub(crate) fn time_zone(&self, agent: &Agent) -> TimeZone {
        self.time_zone.unwrap_or(agent.view.time_zone)
    }

    /// Returns the token estimate of the notes and the selected tools.
    pub(crate) fn tokens(&self) -> u32 {
        let notes = self.notes().map_or(0, |notes| tokens::of_text(&notes));
        self.selected.iter().flatten().map(Tool::tokens).fold(notes, u32::saturating_add)
    }
}

/// Carries out the calls of one turn.
pub(crate) struct Toolbox<'a> {
    history: &'a History,
    clock: &'a Clock,
    recorder: &'a Recorder,
    chat: &'a ChatKey,
    /// The line of the chat that the turn is on.
    line: Option<&'a str>,
    /// The first message of the chat that a search finds; `None` for all.
    since: Option<SortKey>,
    notes: Option<Notes>,
    schedules: Schedules,
    sending: Option<Sending<'a>>,
    targets: &'a Targets,
    profile: Option<&'a Profile>,
    external: &'a [External],
    session: Option<&'a Session<'a>>,
    offered: Vec<Tool>,
    /// Ids of the messages in view.
    shown: Vec<String>,
    /// The tools whose results are in the messages in view.
    in_view: Vec<String>,
}

impl<'a> Toolbox<'a> {
    /// Returns the toolbox of `turn`, with the selected tools of `offered`, for a model that sees `messages`. External tools are
    /// called over the connections of `session`.
    pub(crate) fn new(
        agent: &'a Agent,
        turn: &'a ClaimedTurn,
        offered: &'a Offered,
        messages: &[UiMessage],
        session: Option<&'a Session<'a>>,
    ) -> Self {
        let Agent { history, clock, recorder, .. } = agent;
        let (chat, asked) = (&turn.lease.chat, &turn.newest);
        let notes = offered.memory.as_ref().zip(turn.memory_source()).map(|(recalled, source)| {
            Notes::new(Memory::beside(history), recalled.owner.clone(), source, agent.memory.needs_approval)
        });
        let in_view = messages.iter().flat_map(|message| &message.parts).filter_map(called);
        Self {
            history,
            clock,
            recorder,
            chat,
            line: asked.line(),
            since: None,
            notes,
            schedules: Schedules::new(history.clone(), chat.clone(), asked.clone(), offered.time_zone(agent)),
            sending: agent.outgoing.as_ref().map(|ingress| Sending::new(ingress, &offered.targets, turn)),
            targets: &offered.targets,
            profile: offered.profile.as_deref(),
            external: &offered.servers.tools,
            session,
            offered: offered.selected.concat(),
            shown: messages.iter().map(|message| message.id.clone()).collect(),
            in_view: in_view.map(str::to_owned).collect(),
        }
    }

    /// Limits searches of the history to the messages since one of them.
    pub(crate) fn searching_since(self, since: Option<SortKey>) -> Self {
        Self { since, ..self }
    }

    /// Returns the tools that the model is offered.
    pub(crate) fn offered(&self) -> &[Tool] {
        &self.offered
    }

    /// Returns true if the call needs approval. One that cannot be carried out anyway does not.
    pub(crate) fn needs_approval(&self, call: &ToolCall) -> bool {
        self.approval(call) != CallApproval::NotNeeded && self.check(call).is_ok()
    }

    /// Returns true if only administrators may approve the call.
    pub(crate) fn needs_admin(&self, call: &ToolCall) -> bool {
        self.approval(call) == CallApproval::ByAdmins
    }

    fn approval(&self, call: &ToolCall) -> CallApproval {
        if call.name == sending::SEND {
            return self.targets.approval(&call.input);
        }
        self.external(&call.name).map_or(CallApproval::NotNeeded, |external| external.approval)
    }

    /// Carries out a call, within `left`. It is the `nth` call of its tool in the reply, from 0; the reply has called the tools
    /// `so_far`.
    pub(crate) async fn call(&self, call: &ToolCall, nth: usize, so_far: &[&str], left: Duration) -> Output {
        if self.needs_approval(call) {
            return Err("this call must be allowed by somebody first".into());
        }
        self.call_allowed(call, nth, so_far, left).await
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
        let mut timing = self.recorder.begin(Step::Tool).named(&call.name);
        if left.is_zero() {
            return Err("not carried out: this turn has no time left for calls".into());
        }
        let output = tokio::select! {
            output = self.carry_out(call, nth, so_far) => output,
            () = self.clock.sleep(left) => {
                tracing::warn!(tool = call.name, "gave up a call of a tool: the turn has no time left for it; the model is told");
                Err("the call was given up: it took longer than this turn has. Its outcome is not known.".into())
            }
        };
        if output.is_err() {
            timing.failed("failed");
        }
        output
    }

    /// Returns the reason why a call cannot be carried out as it is.
    fn check(&self, call: &ToolCall) -> Result<(), String> {
        let Some(tool) = self.offered.iter().find(|tool| tool.name == call.name) else {
            return Err(format!("there is no tool {:?}", call.name));
        };
        schema::problem(&tool.input_schema, &call.input).map_or(Ok(()), Err)
    }

    #[tracing::instrument(name = "tool", skip_all, fields(
        gen_ai.operation.name = "execute_tool",
        // The name of an offered tool: a name that the model made up is not carried out.
        gen_ai.tool.name = call.name.as_str(),
    ))]
    async fn carry_out(&self, call: &ToolCall, nth: usize, so_far: &[&str]) -> Output {
        if call.name == history::SEARCH {
            return history::search(
                self.history,
                self.chat,
                (self.line, self.since.as_ref()),
                &self.shown,
                &call.input,
            )
            .await;
        }
        if let Some(profile) = self.profile.filter(|_| call.name == skills::LOAD) {
            return skills::load(profile, &call.input);
        }
        if let Some(notes) = &self.notes
            && let Some(output) = notes.call(&call.name, nth, &call.input, &self.read(so_far)).await
        {
            return output;
        }
        if let Some(output) = self.schedules.call(&call.name, nth, &call.input).await {
            return output;
        }
        if call.name == sending::SEND
            && let Some(sending) = &self.sending
        {
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
        self.external.iter().find(|external| external.tool.name == name)
    }
}

/// Returns the tool that `part` is a call of, if it has a result.
fn called(part: &Part) -> Option<&str> {
    match part.view() {
        PartView::Tool { name, state: "output-available" | "output-error", .. } => Some(name),
        _ => None,
    }
}
