//! The tools that a turn gives its model: [`Offered`].

use std::sync::Arc;

use annals_core::agents::Profile;
use annals_core::time_zone::TimeZone;
use annals_core::tokens;
use annals_engine::remembering::{Recalled, RecalledMemory};
use annals_model::Tool;
use annals_store::history::History;
use annals_store::history::turn::Head;

use super::targets::{SEND, Targets};
use super::{history, memory, schedules, skills};
use crate::mcp::{ServerTools, Session};

/// Share of the window that all tools may take, as one in this many: the rest is for messages.
const TOOLS_SHARE: u32 = 4;

/// Maximum number of tools that a turn offers, about the limit of providers.
const MAX_TOOLS: usize = 120;

/// The names of the agent's own tools.
pub(crate) const OWN: [&str; 9] = [
    history::SEARCH,
    memory::SEARCH,
    memory::SAVE,
    memory::FORGET,
    schedules::CREATE,
    schedules::LIST,
    schedules::CANCEL,
    SEND,
    skills::LOAD,
];

/// The memory, the time zone and the tools that a turn gives its model.
#[derive(Clone, Default)]
pub(crate) struct Offered {
    pub(super) memory: Option<RecalledMemory>,
    /// The time zone in which the model is told times; `None` for `TIME_ZONE`.
    time_zone: Option<TimeZone>,
    pub(super) servers: ServerTools,
    pub(super) targets: Targets,
    /// True if the person who asks may have a direct chat beside this one; `None` if nothing is sent to other chats.
    sends: Option<bool>,
    /// False for `echo`.
    calls_tools: bool,
    pub(super) profile: Option<Arc<Profile>>,
    /// Tools that are offered together or not at all.
    selected: Vec<Vec<Tool>>,
    /// The selected tools one after the other.
    pub(super) tools: Vec<Tool>,
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
        Self { memory, time_zone, servers, sends, calls_tools, profile, ..Self::default() }
    }

    /// Selects the tools for a chat of this head, for requests of `window` tokens. The same in each turn of the chat, in a
    /// fixed order: providers cache the beginning of a request, and tools come first in it.
    pub(crate) fn select(&mut self, head: &Head, window: u32) {
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
        self.tools = self.selected.concat();
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

    /// Returns true if the tool `name` is not offered, and may be one of a server that cannot be reached.
    pub(crate) fn may_be_unreachable(&self, name: &str) -> bool {
        let is_of =
            |server: &String| name.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with('_'));
        self.servers.unreachable.iter().any(is_of) && !self.names().any(|offered| offered == name)
    }

    /// Returns the names of the selected tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name.as_str())
    }

    /// Returns the time zone in which the model is told times; `default` is `TIME_ZONE`.
    pub(crate) fn time_zone(&self, default: TimeZone) -> TimeZone {
        self.time_zone.unwrap_or(default)
    }

    /// Returns the token estimate of the notes and the selected tools.
    pub(crate) fn tokens(&self) -> u32 {
        let notes = self.notes().map_or(0, |notes| tokens::of_text(&notes));
        self.tools.iter().map(Tool::tokens).fold(notes, u32::saturating_add)
    }
}
