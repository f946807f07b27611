//! Parses a body as every route does that takes one: [`parse_all`], for the tests of hostile input.

use annals_runtime::problem::Problem;

use crate::chat::body::Submission;
use crate::chat_settings::ChangedSettings;
use crate::chats::Retitle;
use crate::memory::NewContent;
use crate::messages::{Compact, Incoming, Reset};
use crate::people::NewLinks;
use crate::request::{JsonBody, parse};
use crate::schedules::{NewSchedule, check};
use crate::takeover::{NewDispatch, NewTakeover};

/// Parses `body` as each route does. Returns the detail of each refusal.
pub fn parse_all(body: &[u8]) -> Vec<String> {
    let results = [
        parse(body).and_then(Incoming::message).map(drop),
        Submission::parse(body).map(drop),
        parse::<NewSchedule>(body).and_then(check),
        only::<Reset>(body),
        only::<Compact>(body),
        only::<NewContent>(body),
        only::<NewLinks>(body),
        only::<Retitle>(body),
        only::<NewTakeover>(body),
        only::<NewDispatch>(body),
        only::<ChangedSettings>(body),
    ];
    results.into_iter().filter_map(Result::err).map(|problem| problem.detail).collect()
}

fn only<T: JsonBody>(body: &[u8]) -> Result<(), Problem> {
    parse::<T>(body).map(drop)
}
