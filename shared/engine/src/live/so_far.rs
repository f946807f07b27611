//! A reply as far as it has been made: [`ReplySoFar`].

use annals_core::approval;
use annals_core::message::{Part, PartView, Role, UiMessage};
use annals_model::{Delta, Usage};

/// A reply as far as it has been made: the parts of its finished steps, and the answer that is under way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplySoFar {
    pub(super) steps: Vec<Part>,
    reasoning: String,
    text: String,
    pub(super) usage: Option<Usage>,
    pub(super) model: Option<String>,
}

impl ReplySoFar {
    /// Adds a piece of the answer that is under way. Its calls come with the parts of their step.
    pub(super) fn add(&mut self, delta: Delta<'_>) {
        match delta {
            Delta::Text(more) => self.text.push_str(more),
            Delta::Reasoning(more) => self.reasoning.push_str(more),
            Delta::Void => self.begin_answer(),
        }
    }

    /// Sets the parts of the finished steps. The answer that was under way is among them.
    pub(super) fn set_steps(&mut self, parts: &[Part]) {
        self.steps = parts.to_vec();
        self.begin_answer();
    }

    fn begin_answer(&mut self) {
        self.text.clear();
        self.reasoning.clear();
    }

    /// Returns the text as it would be delivered: see [`UiMessage::plain_text`].
    pub fn text(&self) -> String {
        let steps = UiMessage::new("", Role::Assistant, self.steps.clone()).plain_text();
        let between = if steps.is_empty() || self.text.is_empty() { "" } else { "\n" };
        [steps.as_str(), between, &self.text].concat()
    }

    /// Returns true if there is neither text nor a call.
    pub fn is_empty(&self) -> bool {
        let says = |part: &Part| matches!(part.view(), PartView::Text(_) | PartView::Tool { .. });
        self.text.trim().is_empty() && !self.steps.iter().any(says)
    }

    /// Returns the reply as it ends here. The outcome of a call that is under way is unknown.
    pub fn into_message(self) -> UiMessage {
        let mut parts: Vec<Part> = self.steps.iter().map(approval::cut_off).collect();
        if !self.text.trim().is_empty() {
            // A reply of one step needs no mark of its start.
            parts.extend((!parts.is_empty()).then(Part::step_start));
            if !self.reasoning.trim().is_empty() {
                parts.push(Part::reasoning(self.reasoning.as_str()));
            }
            parts.push(Part::text(self.text.as_str()));
        }
        let mut message = UiMessage::new("", Role::Assistant, parts);
        if let Some(model) = &self.model {
            message.metadata.set_model(model);
        }
        if let Some(usage) = &self.usage {
            message.metadata.set_usage(usage);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use annals_core::approval::UNKNOWN;
    use serde_json::json;

    use super::*;

    fn said(so_far: &mut ReplySoFar, text: &str) {
        so_far.add(Delta::Text(text));
    }

    #[test]
    fn an_answer_grows_by_steps_and_loses_a_step_that_broke_off() {
        let mut so_far = ReplySoFar::default();
        assert_eq!((so_far.text().as_str(), so_far.is_empty()), ("", true));
        so_far.add(Delta::Reasoning("hm"));
        assert!(so_far.is_empty());
        said(&mut so_far, "Let me ");
        said(&mut so_far, "look.");
        assert_eq!((so_far.text().as_str(), so_far.is_empty()), ("Let me look.", false));
        so_far.set_steps(&[Part::step_start(), Part::text("Let me look.")]);
        assert_eq!(so_far.text(), "Let me look.");
        said(&mut so_far, "Bea");
        assert_eq!(so_far.text(), "Let me look.\nBea");
        so_far.add(Delta::Void);
        said(&mut so_far, "Peas.");
        assert_eq!(so_far.text(), "Let me look.\nPeas.");
    }

    #[test]
    fn a_reply_that_ends_here_keeps_its_calls_and_the_outcome_of_one_under_way_is_unknown() {
        let call = |id: &str, state: &str| Part::tool("search", id, state, &json!({}), json!({}));
        let mut so_far = ReplySoFar::default();
        so_far.set_steps(&[
            Part::step_start(),
            call("c1", "output-available"),
            call("c2", "input-available"),
        ]);
        so_far.add(Delta::Reasoning("hm"));
        said(&mut so_far, "Bea");
        let parts = so_far.into_message().parts;
        let kinds: Vec<&str> = parts.iter().map(Part::kind).collect();
        assert_eq!(kinds, ["step-start", "tool-search", "tool-search", "step-start", "reasoning", "text"]);
        assert_eq!(parts[1], call("c1", "output-available"));
        let PartView::Tool { state, error, .. } = parts[2].view() else { panic!("{:?}", parts[2]) };
        assert_eq!((state, error), ("output-error", Some(UNKNOWN)));
    }
}
