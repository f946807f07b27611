//! Shows people that a run is at work, from the time it knows which message it answers until it ends: by a typing indicator, by
//! the answer as it grows (`STREAM_REPLIES`), and by a reaction to the message, as far as the platform has them.
//!
//! A run waits for none of them, except for the removal of a reaction, which would stay otherwise. A run that dies leaves
//! its reaction.

use std::sync::Arc;
use std::time::Duration;

use annals_channel::delivery::Drafted;
use annals_channel::platform::Platform;
use annals_core::record::Record;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use tokio::sync::watch;

use crate::agent::Agent;
use crate::making::Making;

/// Interval at which the typing indicator is shown again: Telegram's lasts five seconds.
const TYPING_INTERVAL: Duration = Duration::from_secs(4);
/// Minimum interval between two drafts, and between two looks if either is due.
const DRAFT_INTERVAL: Duration = Duration::from_secs(1);
/// Age at which an unchanged draft is shown again: Telegram's lasts half a minute.
const DRAFT_KEPT: Duration = Duration::from_secs(20);
/// Minimum duration of a run that gets a reaction.
const REACTION_AFTER: Duration = Duration::from_secs(2);
/// Maximum time that a run waits at its end for each request about a reaction.
const REACTION_PATIENCE: Duration = Duration::from_secs(3);

/// The state of a run, as the typing indicator shows it.
#[derive(Debug, Default)]
pub(crate) struct Typing {
    state: watch::Sender<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// The message that the run answers.
    to: Option<Arc<Record>>,
    /// True if the reply is new; false if it continues, so that people have seen a part of it.
    is_new: bool,
    /// Number of times that a piece of the reply was about to be sent.
    sends: usize,
    is_over: bool,
}

impl Typing {
    /// Sets the message that the run answers. Only the first call counts.
    pub(crate) fn begin(&self, to: &Record, is_new: bool) {
        self.state.send_if_modified(|state| {
            let is_first = state.to.is_none();
            if is_first {
                (state.to, state.is_new) = (Some(Arc::new(to.clone())), is_new);
            }
            is_first
        });
    }

    /// Says that a piece of the reply is about to be sent, so that no sign is needed for as long as that usually takes.
    pub(crate) fn sending(&self) {
        self.state.send_modify(|state| state.sends += 1);
    }

    /// Says that the run is over.
    pub(crate) fn end(&self) {
        self.state.send_modify(|state| state.is_over = true);
    }

    /// Returns the other side, for [`show`].
    pub(crate) fn watch(&self) -> Watch {
        Watch { state: self.state.subscribe() }
    }
}

/// The receiving side of [`Typing`].
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    state: watch::Receiver<State>,
}

impl Watch {
    /// Waits for the next state. Returns `None` once the run is over.
    async fn next(&mut self) -> Option<State> {
        self.state.changed().await.ok()?;
        let state = self.state.borrow_and_update().clone();
        (!state.is_over).then_some(state)
    }

    async fn end(&mut self) {
        while self.next().await.is_some() {}
    }
}

/// Shows that a run is working, by typing, drafts of the reply that it is `making`, or a reaction; returns after its end.
pub(crate) async fn show(agent: &Agent, mut watch: Watch, making: &Making) {
    let (to, is_new) = loop {
        match watch.next().await {
            Some(State { to: Some(to), is_new, .. }) => break (to, is_new),
            // The rest of a stopped reply is sent without a sign.
            Some(_) => {}
            None => return,
        }
    };
    let Some(platform) = agent.deliverer.platform(&to) else { return watch.end().await };
    let drafted = (agent.stream_replies && is_new).then_some(making);
    tokio::join!(
        show_typing(platform, &agent.clock, &to, drafted, watch.clone()),
        show_reaction(platform, &agent.clock, &to, watch),
    );
}

async fn show_typing(
    platform: &dyn Platform,
    clock: &Clock,
    to: &Record,
    mut drafted: Option<&Making>,
    mut watch: Watch,
) {
    let mut rest = Duration::ZERO;
    loop {
        let changed = tokio::select! {
            biased;
            changed = watch.next() => changed,
            () = signal(platform, clock, to, drafted, rest) => return,
        };
        if changed.is_none() {
            return;
        }
        // The message that is sent takes the place of the draft.
        drafted = None;
        rest = TYPING_INTERVAL;
    }
}

/// Shows the `drafted` reply so far, or the typing indicator while it has no text. Starts after `rest`, and never ends.
async fn signal(
    platform: &dyn Platform,
    clock: &Clock,
    to: &Record,
    mut drafted: Option<&Making>,
    rest: Duration,
) {
    clock.sleep(rest).await;
    let (mut typed, mut shown): (Option<Timestamp>, Option<(String, Timestamp)>) = (None, None);
    let is_past = |at: Timestamp, interval| clock.now().since(at) >= interval;
    loop {
        let text = drafted.map(Making::text).unwrap_or_default();
        if !text.is_empty() {
            if shown.as_ref().is_none_or(|(last, at)| *last != text || is_past(*at, DRAFT_KEPT)) {
                match platform.show_draft(to, &text).await {
                    Drafted::Shown => shown = Some((text, clock.now())),
                    Drafted::NotNow => {}
                    Drafted::Never => {
                        drafted = None;
                        continue;
                    }
                }
            }
        } else if typed.is_none_or(|at| is_past(at, TYPING_INTERVAL)) {
            platform.show_typing(to).await;
            typed = Some(clock.now());
        }
        clock.sleep(DRAFT_INTERVAL).await;
    }
}

async fn show_reaction(platform: &dyn Platform, clock: &Clock, to: &Record, mut watch: Watch) {
    tokio::select! {
        biased;
        () = watch.end() => return,
        () = clock.sleep(REACTION_AFTER) => {}
    }
    // Not given up at the run's end: a reaction can only be removed if its id is known.
    let mut put = platform.add_reaction(to);
    let put = tokio::select! {
        biased;
        put = &mut put => {
            watch.end().await;
            put
        }
        () = watch.end() => clock.within(REACTION_PATIENCE, put).await.flatten(),
    };
    let Some(reaction) = put else { return };
    clock.within(REACTION_PATIENCE, platform.remove_reaction(to, &reaction)).await;
}
