//! People who may answer approval requests, and the texts for those who answer: [`Approvers`].

use std::sync::Arc;

use annals_channel::webhook::{ApprovalResult, Effect};
use annals_core::texts::Texts;

use crate::delivery::Deliverer;

/// People who may approve calls in addition to the askers.
#[derive(Clone, Default)]
pub struct Approvers {
    /// `ADMINS`: persons, by the ids that they have across channels.
    pub admins: Arc<[String]>,
    /// Client for asking a platform for the administrators of a group.
    pub platforms: Option<Deliverer>,
}

/// Returns the answer for a person who may not use the bot.
pub fn refused(texts: &dyn Texts) -> ApprovalResult {
    ApprovalResult { text: texts.not_yours().to_owned(), effect: Effect::Refused }
}

pub(super) fn settled(text: impl Into<String>) -> ApprovalResult {
    ApprovalResult { text: text.into(), effect: Effect::Settled }
}
