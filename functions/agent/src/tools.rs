//! What a model may call in a turn: [`Toolbox`].
//!
//! - `history.rs`: `chat_history_search`, where the chat has archived messages
//! - `memory.rs`: `memory_search`, `memory_save`, `memory_forget`, where the turn has a memory
//! - `mcp.rs`, beside this: those of outside servers
//! - `schema.rs`: whether an input is what the tool wants
//! - `result.rs`: what comes of a call, and how much of it is passed on
//!
//! *Invariant:* whatever a call meets, an error, a timeout, an unknown name, is a result that the model is given, and no
//! failure of the turn.

mod history;
mod memory;
pub(crate) mod result;
mod schema;

use std::time::Duration;

use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::config::tools::CallApproval;
use annals_shared::history::History;
use annals_shared::history::turn::Head;
use annals_shared::markup::clean_name;
use annals_shared::memory::sessions::Recalled;
use annals_shared::memory::{Memory, Source};
use annals_shared::message::{Part, PartView, UiMessage};
use annals_shared::model::{Tool, ToolCall};
use annals_shared::sort_key::SortKey;
use annals_shared::tokens;

use self::memory::Notes;
use self::result::Output;
use crate::mcp::{External, Session};
use crate::turn::Agent;
use crate::work::Work;

/// What part of the window all tools may take, as one in this many: the rest is for what is said.
const TOOLS_SHARE: u32 = 4;

/// The most that a turn offers, near enough: what providers take.
const MAX_TOOLS: usize = 120;

/// Maximum number of outside tools that an entry of memory names.
const MAX_LABELS: usize = 8;

/// The names of the agent's own tools.
pub(crate) const OWN: [&str; 4] = [history::SEARCH, memory::SEARCH, memory::SAVE, memory::FORGET];

/// Where a call is carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) history: &'a History,
    pub(crate) chat: &'a ChatKey,
    /// The line of the chat that the turn is on.
    pub(crate) line: Option<&'a str>,
}

/// What one turn may call.
pub(crate) struct Toolbox<'a> {
    place: Place<'a>,
    clock: &'a Clock,
    notes: Option<Notes>,
    outside: &'a [External],
    session: Option<Session<'a>>,
    offered: Vec<Tool>,
    /// The tools whose results the messages in view hold.
    in_view: Vec<String>,
}

/// Tools that are offered together or not at all.
#[derive(Clone, Debug)]
pub(crate) struct Kit {
    tools: Vec<Tool>,
}

impl Kit {
    fn tokens(&self) -> u32 {
        self.tools.iter().map(Tool::tokens).fold(0, u32::saturating_add)
    }
}

/// What a turn could offer, in a fixed order: the provider keeps what it has read of a request, and tools come first in it.
pub(crate) fn available(head: &Head, memory: Option<&Recalled>, outside: &[External]) -> Vec<Kit> {
    // A chat that has no segment has nothing to search.
    let search = head.longest_segment.map(|_| Kit { tools: vec![history::tool()] });
    let notes = memory.map(|memory| Kit { tools: memory::tools(&memory.owner) });
    let outside = outside.iter().map(|external| Kit { tools: vec![external.tool.clone()] });
    search.into_iter().chain(notes).chain(outside).take(MAX_TOOLS).collect()
}

/// Those of `kits` that are offered where a request may take `window` tokens: a part of it at most, and where that is
/// small the later ones give way.
pub(crate) fn fitting(kits: &[Kit], window: u32) -> Vec<Kit> {
    let mut left = window / TOOLS_SHARE;
    let fits = |kit: &&Kit| {
        let takes = kit.tokens();
        let fits = takes <= left;
        left = left.saturating_sub(if fits { takes } else { 0 });
        fits
    };
    kits.iter().filter(fits).cloned().collect()
}

/// The token estimate of what stands beside the prompt and the messages: notes, and the tools that are offered.
pub(crate) fn beside(notes: Option<&str>, offered: &[Kit]) -> u32 {
    offered.iter().map(Kit::tokens).fold(notes.map_or(0, tokens::of_text), u32::saturating_add)
}

impl<'a> Toolbox<'a> {
    /// The tools of the turn that `work` is, of which `kits` are offered.
    pub(crate) fn new(
        agent: &'a Agent,
        work: &'a Work,
        (line, in_view): (Option<&'a str>, &[UiMessage]),
        kits: &[Kit],
    ) -> Self {
        let place = Place { history: &agent.history, chat: &work.lease.chat, line };
        let notes = work.memory.as_ref().zip(source_of(work)).map(|(recalled, source)| {
            Notes::new(Memory::beside(&agent.history), recalled.owner.clone(), source)
        });
        let offered = kits.iter().flat_map(|kit| kit.tools.clone()).collect();
        let session = agent.servers.as_deref().map(Session::new);
        let in_view = in_view.iter().flat_map(|message| &message.parts).filter_map(called);
        let in_view = in_view.map(str::to_owned).collect();
        Self { place, clock: &agent.clock, notes, outside: &work.outside.tools, session, offered, in_view }
    }

    /// What the model is offered.
    pub(crate) fn offered(&self) -> &[Tool] {
        &self.offered
    }

    /// Whether somebody must allow the call first. One that cannot be carried out anyway is not worth asking for.
    pub(crate) fn asks(&self, call: &ToolCall) -> bool {
        self.outside(&call.name).is_some_and(|external| external.approval != CallApproval::NotNeeded)
            && self.check(call).is_ok()
    }

    /// Returns whether only administrators may allow the call.
    pub(crate) fn asks_admins(&self, call: &ToolCall) -> bool {
        self.outside(&call.name).is_some_and(|external| external.approval == CallApproval::ByAdmins)
    }

    /// Carries out a call, within `left`. It is the `nth` of its tool in the reply, from 0, which has called the tools `so_far`.
    pub(crate) async fn call(&self, call: &ToolCall, nth: usize, so_far: &[&str], left: Duration) -> Output {
        if self.asks(call) {
            return Err("this call must be allowed by somebody first".into());
        }
        self.call_allowed(call, nth, so_far, left).await
    }

    /// Carries out a call that needs nobody's word, or has it; else as [`Toolbox::call`].
    pub(crate) async fn call_allowed(
        &self,
        call: &ToolCall,
        nth: usize,
        so_far: &[&str],
        left: Duration,
    ) -> Output {
        self.check(call)?;
        if left.is_zero() {
            return Err("not carried out: this turn has no time left for calls".into());
        }
        tokio::select! {
            output = self.carry_out(call, nth, so_far) => output,
            () = self.clock.sleep(left) => {
                Err("the call was given up: it took longer than this turn has. Its outcome is not known.".into())
            }
        }
    }

    /// Why a call cannot be carried out as it is.
    fn check(&self, call: &ToolCall) -> Result<(), String> {
        let Some(tool) = self.offered.iter().find(|tool| tool.name == call.name) else {
            return Err(format!("there is no tool {:?}", call.name));
        };
        schema::problem(&tool.input_schema, &call.input).map_or(Ok(()), Err)
    }

    async fn carry_out(&self, call: &ToolCall, nth: usize, so_far: &[&str]) -> Output {
        if call.name == history::SEARCH {
            return history::search(&self.place, &call.input).await;
        }
        if let Some(notes) = &self.notes
            && let Some(output) = notes.call(&call.name, nth, &call.input, &self.read(so_far)).await
        {
            return output;
        }
        match (self.outside(&call.name), &self.session) {
            (Some(external), Some(session)) => session.call(external, &call.input).await,
            _ => Err(format!("there is no tool {:?}", call.name)),
        }
    }

    /// Returns the outside tools whose results the model has read: those in view, and those that the reply has called, also beside
    /// this call. A tool that is not offered any more is told by its name.
    fn read(&self, so_far: &[&str]) -> Vec<String> {
        let names = self.in_view.iter().map(String::as_str).chain(so_far.iter().copied());
        let outside = names.filter(|name| !OWN.contains(name));
        let labels = outside.map(|name| match self.outside(name) {
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

    fn outside(&self, name: &str) -> Option<&External> {
        self.outside.iter().find(|external| external.tool.name == name)
    }
}

/// The tool that `part` is a call of, if it has given something.
fn called(part: &Part) -> Option<&str> {
    match part.view() {
        PartView::Tool { name, state: "output-available" | "output-error", .. } => Some(name),
        _ => None,
    }
}

/// Where an entry that the turn saves comes from: what it answers.
fn source_of(work: &Work) -> Option<Source> {
    let (from, to) = (work.turn.covers.first()?, work.turn.covers.last()?);
    let id = |base: &SortKey| {
        let record = work.records.iter().find(|record| record.key.base() == *base);
        record.map(|record| record.message_id.clone())
    };
    let chat = work.lease.chat.clone();
    let session = Source::session_id(&chat, from.ts());
    Some(Source { session, chat, from_id: id(from)?, to_id: id(to)?, from: from.clone(), to: to.clone() })
}
