//! The retry policy of a turn: every bound and every decision on how often and how long a model, a tool and a platform are
//! tried. Pure; the loops that do the work ask it.
//!
//! *Invariant:* a turn makes at most [`MAX_REQUESTS`] requests to models in all of its attempts, repeats, summaries and
//! captures included: the [`Recorder`](annals_io::recorder::Recorder) of a run counts each before it is sent. Not counted
//! are the requests of a run that dies, loses its chat or cannot write to the table: the queue repeats such a run, up to 100
//! times. A reply that continues after an approval is a turn of its own.
//!
//! # A new bound
//!
//! Of a run: a constant here, a field of [`Asking`], and a case in `failed` or `may_call`. Of a turn, which may take
//! several runs: a counter in [`Trace`](annals_core::trace::Trace), which the head keeps between them without a further
//! write, and a `may_…` beside the recorder's `may_request`, with the limit as a parameter of `Recorder::new`. A count that
//! holds over a run that dies would cost a write for each request. A profile's `limits` (`agents/profile.rs` in the core)
//! lower some of these bounds. A turn ends where a reply asks for an approval; the reply continues as another turn, for
//! which each bound begins anew.
//!
//! - **Requests** are counted in `hosted.rs` of the models, whose `send` sends every request and asks `may_request` first
//!   (which keeps two thirds of the number for the answer). A refused one is `ModelError::RequestsSpent`: [`Asking::failed`]
//!   gives up with a notice, summaries and captures are skipped, a `/compact` gets a notice, and a join fails the attempt. A
//!   tool is called only if two requests are left. Visits of the compactor belong to no turn, and are not counted.
//! - **Their number as a setting** goes to `Recorder::new` in `run_turns` (`turn.rs`), before the profile is known, and
//!   `RequestsSpent` names it; the constant goes. Refuse less than 6, whose third is one summary and its repeat. A summary
//!   that fails is repeated only in the turn's next attempt, and only while less than a third is spent; its own run asks
//!   again only in another way: a fallback, without a limit, or for less. From 6 to 11, a run's joins ([`JOINS`], each with a
//!   summary) can spend that third and then the attempts, so that the turn ends in a notice.
//! - **Calls** are made in `call_tools` (`rounds.rs`) and, once approved, in `call_approved` (`resume.rs`). Count them in
//!   `call_allowed` (`tools.rs`), after `check` and the look at `left`, before `carry_out`; its span has begun. Today a run
//!   makes at most [`ROUNDS`] × [`CALLS`], and before them those that were approved. If none is left, `request` (`ask.rs`) must ask
//!   for words as for `may_call`, or the model calls in vain; a new field of its `Question`, counted in `tokens` and said after
//!   the steps in `Conversation::of_question`, tells the model why. Calls outlive their run in two cases alone: an approved
//!   call, and a reply that could not be stored. Otherwise the run makes the remaining attempts itself.
//! - **Time of calls** is a deadline, `left`: no sum. [`CALLS_TIME`] stays beside a sum, since it counts the model's time, too.
//!   Calls of one answer run at once, so a sum is measured around `join_all` in `call_tools` and around each call in
//!   `call_approved`, not in `call_allowed`. `left` is then the lesser of the deadline and the rest of the sum.
//! - **Pieces of a reply** are counted in each client's `send`. A limit goes into `OutgoingReply`, and spares `question`, which
//!   buttons answer. A run continues at the count of sent pieces, so the limit is kept in `OpenTurn`, which the commit writes
//!   anyway: the pieces are the same in each run.
//! - **A counter in `Trace`** is named in `Recorder::take`, which drops all else, is 0 in `Delivery::new`, and has a
//!   `#[serde(default, …)]`, without which older heads and segments cannot be read. The compiler asks for none of the three.

use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_model::ModelError;

/// Maximum number of requests to models for one turn. Summaries and captures may make the first third of them, so that the
/// rest is left for the answer.
pub(crate) const MAX_REQUESTS: u32 = 120;

// Bounds by number.
const ATTEMPTS: u32 = 3; // at a turn that ask the model; then the user gets a notice
const DELIVERY_ATTEMPTS: u32 = 15; // at a turn that send its stored reply, over the better part of an hour
const TRIES: u32 = 3; // requests of one question to one model in an attempt
const SHORTENINGS: u32 = 3; // in one run, of a question that the model finds too long
pub(crate) const ROUNDS: u32 = 8; // answers with calls in one run; the next must be text
pub(crate) const CALLS: usize = 8; // of one answer that are carried out
pub(crate) const SUMMARIES: u32 = 4; // before a turn, and for a `/compact`
pub(crate) const JOINS: u32 = 4; // chats of a person that one run tells of; the last attempt asks no model
pub(crate) const FILE_TRIES: u32 = 2; // requests to a platform for one file in a turn

// Bounds by time.
pub(crate) const MODEL_RESERVE: Duration = Duration::from_secs(45); // of the lease, kept for storing and sending the reply
pub(crate) const SEND_RESERVE: Duration = Duration::from_secs(30); // of the lease, kept for the last piece of a reply
const MODEL_TIME: Duration = Duration::from_secs(150); // for a reply with its calls; the first of two models gets two thirds
pub(crate) const CALLS_TIME: Duration = Duration::from_secs(90); // for calls, at most three fifths of the time for the reply
pub(crate) const SUMMARIES_TIME: Duration = Duration::from_mins(2); // before a turn; one request may take as long
pub(crate) const JOIN_TIME: Duration = Duration::from_mins(1); // for one chat of a person that a run tells of
pub(crate) const CAPTURES_TIME: Duration = Duration::from_secs(30); // before a turn; upkeep captures the rest
pub(crate) const FILES_TIME: Duration = Duration::from_secs(20); // for all files of a turn
pub(crate) const FILE_PAUSE: Duration = Duration::from_secs(1); // between two requests for a file
const BACKOFF: Duration = Duration::from_millis(500); // after the first failed try; twice as long after the second
const MAX_BACKOFF: Duration = Duration::from_secs(8); // for a provider that asks for more with `Retry-After`

/// Number of an attempt at one turn, from 1.
///
/// Only failures of the model, the platform and the server of an approved call count; the chat's head counts them. A turn
/// that the queue delivers again because it was throttled, because another run had the chat, or because a process died is
/// the same attempt. Failures of the store end nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u32);

impl Attempt {
    pub const FIRST: Self = Self(1);

    /// Returns the attempt after so many failures.
    pub fn after(failures: u32) -> Self {
        Self(failures.saturating_add(1))
    }

    /// Returns true if the user gets a notice now if there is no answer.
    pub(crate) fn ends_asking(self) -> bool {
        self.0 >= ATTEMPTS
    }

    /// Returns true if a reply is given up now if the platform cannot take it.
    pub(crate) fn ends_sending(self) -> bool {
        self.0 >= DELIVERY_ATTEMPTS
    }

    /// Returns the pause before the next attempt.
    pub fn pause(self) -> Duration {
        Duration::from_secs(match self.0 {
            0..=2 => 5,
            3 => 15,
            4 => 30,
            5 => 60,
            6 => 120,
            _ => 300,
        })
    }
}

/// The next step of a run after a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Ask the same question again, after this pause.
    Again(Duration),
    /// Ask the fallback model, which then answers the rest of the turn.
    AskFallback,
    HideImages,
    /// Ask with the unanswered messages alone, since a content filter may refuse one before them.
    HideEarlier,
    Shorten,
    /// Return the turn to the queue, for its next attempt.
    HandBack,
    /// Store a notice: after calls that there is no more, else that there is no answer.
    GiveUp,
}

/// The requests of one run for one reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asking {
    /// Once something was called, further attempts follow in the same run.
    attempt: Attempt,
    /// End of the run's time for the reply.
    pub(crate) until: Timestamp,
    pub(crate) calls_until: Timestamp,
    /// Time at which the fallback takes over at the latest; `None` if there is none, or it has taken over.
    fallback_at: Option<Timestamp>,
    tries: u32,
    rounds: u32,
    max_rounds: u32,
    shortenings: u32,
    shows_images: bool,
    /// True if the question has messages before the unanswered ones.
    pub(crate) shows_earlier: bool,
    /// True if the first model failed in a way that may pass, and its fallback took over.
    may_recover: bool,
}

impl Asking {
    /// Returns the policy for a run that has until `until`.
    pub(crate) fn new(attempt: Attempt, has_fallback: bool, now: Timestamp, until: Timestamp) -> Self {
        let until = until.min(now.plus(MODEL_TIME));
        let time = until.since(now);
        let calls_until = now.plus(CALLS_TIME.min(time * 3 / 5));
        let fallback_at = has_fallback.then(|| now.plus(time * 2 / 3));
        Self {
            attempt,
            until,
            calls_until,
            fallback_at,
            tries: 0,
            rounds: 0,
            max_rounds: ROUNDS,
            shortenings: 0,
            shows_images: true,
            shows_earlier: false,
            may_recover: false,
        }
    }

    /// Returns the same policy with at most `rounds` rounds of calls, if that is fewer.
    pub(crate) fn with_rounds(self, rounds: Option<u32>) -> Self {
        Self { max_rounds: rounds.unwrap_or(ROUNDS).min(ROUNDS), ..self }
    }

    /// Returns the time until which the current model may answer.
    pub(crate) fn deadline(&self) -> Timestamp {
        self.fallback_at.unwrap_or(self.until)
    }

    /// Returns true if the next answer may have calls.
    pub(crate) fn may_call(&self, now: Timestamp) -> bool {
        self.rounds < self.max_rounds && now < self.calls_until
    }

    /// Returns true if an empty answer after calls ends the reply: the same question has failed before, and calls were offered.
    /// Models end a reply like that, and do it again.
    pub(crate) fn may_end(&self, now: Timestamp) -> bool {
        self.tries > 0 && self.may_call(now)
    }

    /// Notes that the model has answered with calls.
    pub(crate) fn called(&mut self) {
        (self.tries, self.rounds) = (0, self.rounds + 1);
    }

    /// Decides the next step after a request that failed with `error`; with `None` if the store failed.
    pub(crate) fn failed(&mut self, error: Option<&ModelError>, now: Timestamp) -> Decision {
        let error = match error {
            None if self.rounds == 0 => return Decision::HandBack,
            Some(ModelError::RequestsSpent) => return Decision::GiveUp,
            Some(ModelError::ImagesRefused) if self.shows_images => {
                (self.tries, self.shows_images) = (0, false);
                return Decision::HideImages;
            }
            // A fallback is asked first, since it may take the whole question.
            Some(ModelError::Filtered) if self.shows_earlier && self.fallback_at.is_none() => {
                (self.tries, self.shows_earlier) = (0, false);
                return Decision::HideEarlier;
            }
            Some(ModelError::ContextTooLong) if self.shortenings < SHORTENINGS => {
                (self.tries, self.shortenings) = (0, self.shortenings + 1);
                return Decision::Shorten;
            }
            // The same question would fail again, with any model.
            None | Some(ModelError::ImagesRefused | ModelError::ContextTooLong) => {
                return self.end_attempt(now);
            }
            Some(error) => error,
        };
        let backoff = BACKOFF * 2_u32.pow(self.tries);
        let pause = error.retry_after().unwrap_or_default().max(backoff).min(MAX_BACKOFF);
        let is_final = matches!(error, ModelError::Refused { .. }) && self.fallback_at.is_some();
        let is_hopeless = error.cannot_succeed();
        self.tries += 1;
        if !is_final && !is_hopeless && self.tries < TRIES && pause < self.deadline().since(now) {
            return Decision::Again(pause);
        }
        if now < self.until && self.fallback_at.take().is_some() {
            (self.tries, self.may_recover) = (0, !is_hopeless);
            return Decision::AskFallback;
        }
        if is_hopeless && !self.may_recover {
            return Decision::GiveUp;
        }
        self.end_attempt(now)
    }

    /// Ends an attempt without an answer. After calls the turn is not handed back, since its repeat would call them again:
    /// the run makes the remaining attempts itself, with the same pauses.
    fn end_attempt(&mut self, now: Timestamp) -> Decision {
        let pause = self.attempt.pause();
        let is_last = self.attempt.ends_asking();
        if !is_last && self.rounds == 0 {
            return Decision::HandBack;
        }
        if is_last || pause >= self.until.since(now) {
            return Decision::GiveUp;
        }
        (self.tries, self.attempt) = (0, Attempt(self.attempt.0 + 1));
        Decision::Again(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::Decision::{Again, AskFallback, GiveUp, HandBack, HideEarlier, HideImages, Shorten};
    use super::*;

    const NOW: Timestamp = Timestamp::MIN;
    const LONG: ModelError = ModelError::ContextTooLong;
    const IMAGES: ModelError = ModelError::ImagesRefused;
    const REFUSED: ModelError = ModelError::Refused { status: 401 };
    const BAD: ModelError = ModelError::Refused { status: 400 };
    const GONE: ModelError = ModelError::Unreachable("no connection");

    fn busy(secs: u64) -> ModelError {
        ModelError::Busy { status: 429, retry_after: Some(Duration::from_secs(secs)) }
    }

    fn again(secs: f64) -> Decision {
        Again(Duration::from_secs_f64(secs))
    }

    fn asking(attempt: u32, has_fallback: bool) -> Asking {
        Asking::new(Attempt(attempt), has_fallback, NOW, NOW.plus(MODEL_TIME))
    }

    #[track_caller]
    fn check(mut asking: Asking, steps: &[(ModelError, Decision)]) {
        for (number, (error, wanted)) in steps.iter().enumerate() {
            assert_eq!(asking.failed(Some(error), NOW), *wanted, "step {number}: {error}");
        }
    }

    #[test]
    fn a_failed_model_gets_three_tries_then_its_fallback_then_the_queue() {
        check(asking(1, false), &[(GONE, again(0.5)), (GONE, again(1.0)), (GONE, HandBack)]);
        check(asking(3, false), &[(GONE, again(0.5)), (GONE, again(1.0)), (GONE, GiveUp)]);
        check(asking(1, false), &[(busy(3), again(3.0)), (busy(60), again(8.0)), (BAD, HandBack)]);
        let fallback = [(GONE, again(0.5)), (GONE, again(1.0)), (GONE, AskFallback), (GONE, again(0.5))];
        check(asking(1, true), &fallback);
        check(asking(1, true), &[(BAD, AskFallback), (BAD, again(0.5))]);
        // No time is left, so the fallback is not asked.
        assert_eq!(asking(1, true).failed(Some(&GONE), NOW.plus(MODEL_TIME)), HandBack);
        assert_eq!(asking(3, true).failed(Some(&GONE), NOW.plus(MODEL_TIME)), GiveUp);
    }

    #[test]
    fn what_cannot_succeed_is_not_retried() {
        check(asking(1, false), &[(REFUSED, GiveUp)]);
        check(asking(1, true), &[(REFUSED, AskFallback), (REFUSED, GiveUp)]);
        // One of the two models may answer in the next attempt.
        check(asking(1, true), &[(BAD, AskFallback), (REFUSED, HandBack)]);
        check(
            asking(1, true),
            &[(REFUSED, AskFallback), (GONE, again(0.5)), (GONE, again(1.0)), (GONE, HandBack)],
        );
        let mut called = asking(1, false);
        called.called();
        check(called, &[(REFUSED, GiveUp)]);
        check(asking(1, true), &[(ModelError::RequestsSpent, GiveUp)]);
        check(asking(1, false), &[(ModelError::Filtered, GiveUp)]);
        check(asking(1, false), &[(ModelError::Exhausted, GiveUp)]);
        check(asking(1, true), &[(ModelError::Filtered, AskFallback), (ModelError::Filtered, GiveUp)]);
    }

    #[test]
    fn a_question_that_the_model_cannot_take_is_changed_and_goes_to_no_other_model() {
        let long = [(LONG, Shorten), (LONG, Shorten), (LONG, Shorten), (LONG, HandBack)];
        check(asking(1, true), &long);
        check(asking(1, true), &[(IMAGES, HideImages), (IMAGES, HandBack)]);
        // The changed question has all tries.
        check(
            asking(1, false),
            &[(GONE, again(0.5)), (LONG, Shorten), (GONE, again(0.5)), (GONE, again(1.0))],
        );
    }

    #[test]
    fn a_filtered_question_is_asked_once_without_the_earlier_messages() {
        const FILTERED: ModelError = ModelError::Filtered;
        let full = |has_fallback| Asking { shows_earlier: true, ..asking(1, has_fallback) };
        check(full(false), &[(FILTERED, HideEarlier), (GONE, again(0.5)), (FILTERED, GiveUp)]);
        check(full(true), &[(FILTERED, AskFallback), (FILTERED, HideEarlier), (FILTERED, GiveUp)]);
    }

    #[test]
    fn after_calls_the_remaining_attempts_are_made_in_the_run() {
        let mut called = asking(2, false);
        called.called();
        let tries = [(GONE, again(0.5)), (GONE, again(1.0)), (GONE, again(5.0))];
        check(called.clone(), &[&tries[..], &tries[..2], &[(GONE, GiveUp)]].concat());
        assert_eq!(called.failed(None, NOW), again(5.0));
        assert_eq!(called.failed(None, NOW), GiveUp);
        assert_eq!(asking(3, false).failed(None, NOW), HandBack, "a failed store ends nothing");
    }

    #[test]
    fn an_empty_answer_is_repeated_once_before_it_can_end_a_reply() {
        let mut called = asking(1, true);
        called.called();
        assert!(!called.may_end(NOW));
        assert_eq!(called.failed(Some(&ModelError::Empty), NOW), again(0.5));
        assert!(called.may_end(NOW));
        called.called();
        assert!(!called.may_end(NOW), "another question");
    }

    #[test]
    fn no_pause_is_longer_than_the_time_that_is_left() {
        let (mut first, late) = (asking(1, true), NOW.plus(Duration::from_secs(99)));
        assert_eq!(first.deadline(), NOW.plus(Duration::from_secs(100)));
        assert_eq!(first.failed(Some(&busy(1)), late), AskFallback);
        assert_eq!(first.deadline(), NOW.plus(MODEL_TIME));
        let end = NOW.plus(MODEL_TIME);
        assert_eq!(first.failed(Some(&GONE), end), HandBack);
        first.called();
        assert_eq!(first.failed(Some(&GONE), end), GiveUp);
    }

    #[test]
    fn calls_end_after_eight_rounds_or_three_fifths_of_the_time() {
        let mut asking = Asking::new(Attempt::FIRST, false, NOW, NOW.plus(Duration::from_secs(50)));
        assert!(asking.may_call(NOW.plus(Duration::from_secs(29))));
        assert!(!asking.may_call(NOW.plus(Duration::from_secs(30))));
        (0..ROUNDS).for_each(|_| asking.called());
        assert!(!asking.may_call(NOW));
        // An agent may have fewer rounds, and never more.
        for (given, rounds) in [(Some(2), 2), (Some(0), 0), (Some(ROUNDS + 5), ROUNDS), (None, ROUNDS)] {
            let mut asking = self::asking(1, false).with_rounds(given);
            let made =
                (0..2 * ROUNDS).take_while(|_| asking.may_call(NOW).then(|| asking.called()).is_some());
            assert_eq!(made.count(), usize::try_from(rounds).unwrap(), "{given:?}");
        }
    }

    #[test]
    fn attempts_end_and_their_pauses_grow() {
        let attempts: Vec<Attempt> = (1..=DELIVERY_ATTEMPTS).map(Attempt).collect();
        let pauses = attempts.iter().map(|attempt| attempt.pause().as_secs());
        assert_eq!(pauses.take(8).collect::<Vec<_>>(), [5, 5, 15, 30, 60, 120, 300, 300]);
        assert_eq!(attempts.iter().position(|attempt| attempt.ends_asking()), Some(2));
        assert_eq!(attempts.iter().position(|attempt| attempt.ends_sending()), Some(14));
        let total: Duration = attempts.iter().map(|attempt| attempt.pause()).sum();
        assert!((45..60).contains(&(total.as_secs() / 60)), "{total:?}");
    }
}
