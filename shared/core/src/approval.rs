//! Approval of tool calls: requests in a reply, answers to them, and replies that continue. Pure functions.
//!
//! A reply that ends with such a call holds it in the AI SDK's state `approval-requested`. An answer is a record of
//! kind `notice`, whose key contains the request's id. So the first answer counts, and a second one, by anybody, finds
//! it:
//!
//! ```json
//! {"sk": "1763765920000#…42#4reply-approval-5f2b81c09a3de417", "kind": "notice", "role": "user", "userId": "42",
//!  "message": "{\"id\":\"approval-5f2b81c09a3de417\",\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"/approve 1\"}],
//!               \"metadata\":{\"approval\":{\"id\":\"5f2b81c09a3de417\",\"approved\":true}}}"}
//! ```
//!
//! When all requests of a reply are answered, it continues: the rest of it is stored as new forms of the reply, at
//! `#4reply-revision-00000n`. The first of these forms contains the answers (`approval-responded`, `output-denied`) and
//! is put before any call is made. Only one put per key succeeds, so a call is made only by the run whose put
//! succeeded. A run that finds that form without a result after it knows that another run died, but not if the call was
//! made; it reports that.
//!
//! If several people asked in one turn, all of them must approve, or an administrator. Until then, each approval is a
//! record of kind `notice` at `#4reply-approval-<id>-<asker>`, with `metadata.assent` instead of `approval`: see
//! [`Assent`].
//!
//! A call that only administrators may approve is marked in its part: `"callProviderMetadata": {"annals": {"approval":
//! "admins"}}`, a field that the AI SDK keeps and does not show.
//!
//! `/stop` denies all open requests. Its answers contain `stoppedBy`, the id of the command, and so does the last form
//! of a reply that it ends, which does not continue.

use std::collections::HashMap;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::chat_key::ChatKey;
use crate::message::ToolCall;
use crate::message::{Part, PartView, UiMessage};
use crate::record::{Kind, Record};
use crate::sort_key::{SortKey, Timestamp};
use crate::texts::Texts;
use crate::visible::shown_input;

/// Result recorded for a call whose run ended between the start of the call and its result.
pub const UNKNOWN: &str = "the outcome of this call is not known: it was started, and cut off before its result was \
                           stored. It may have been carried out. Check before anything is done again.";
/// State of a call that waits for an approval.
pub const REQUESTED: &str = "approval-requested";
/// State of a call that is approved and not carried out yet.
pub const RESPONDED: &str = "approval-responded";
/// Reason for the denial of a call that was waiting when `/stop` came.
pub const STOPPED: &str = "stopped by /stop";

/// A call that needs an approval.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Id, unique over all chats: 16 hexadecimal digits.
    pub id: String,
    /// Number among the requests of its reply, from 1. It does not change when others are answered.
    pub number: usize,
    pub tool: String,
    pub input: Value,
    /// True if only the `ADMINS` may approve it.
    pub admins_only: bool,
    /// True if the reply contains no answer to it yet.
    pub is_open: bool,
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub id: String,
    /// True if the call may be made.
    pub approved: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Verdict {
    /// Reads the answer in `record`, if it is one.
    pub fn of(record: &Record) -> Option<Self> {
        record.message.metadata.approval().filter(|_| is_answer(record))
    }
}

/// The approval of one of several askers, recorded until all have approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assent {
    pub id: String,
    pub person: String,
}

impl Assent {
    /// Reads the assent in `record`, if it is one.
    pub fn of(record: &Record) -> Option<Self> {
        record.message.metadata.assent().filter(|_| is_answer(record))
    }
}

/// Returns true if `record` has the place of an answer to a request: anywhere else its fields mean nothing.
fn is_answer(record: &Record) -> bool {
    record.kind() == Kind::Notice && record.key.belongs_to_reply()
}

/// Returns the id of the request for the call `call_id` of the reply at `reply`.
pub fn id(chat: &ChatKey, reply: &SortKey, call_id: &str) -> String {
    let hash = digest(&SHA256, format!("{chat}\n{reply}\n{call_id}").as_bytes());
    hex::encode(&hash.as_ref()[..8])
}

/// Returns the requests in `message`, open or answered.
pub fn requests(message: &UiMessage) -> Vec<Request> {
    let asked = message.parts.iter().filter_map(|part| {
        let PartView::Tool { name, state, input, .. } = part.view() else { return None };
        let admins_only = part
            .as_map()
            .get("callProviderMetadata")
            .and_then(|metadata| metadata.pointer("/annals/approval"))
            .is_some_and(|approval| approval == "admins");
        Some((name, state, input, approval_of(part)?.get("id")?.as_str()?, admins_only))
    });
    asked
        .enumerate()
        .map(|(at, (tool, state, input, id, admins_only))| Request {
            id: id.to_owned(),
            number: at + 1,
            tool: tool.to_owned(),
            input: input.cloned().unwrap_or_default(),
            admins_only,
            is_open: state == REQUESTED,
        })
        .collect()
}

/// Returns the part of a reply that asks people to approve a call.
pub fn request_part(call: &ToolCall, id: &str, admins_only: bool) -> Part {
    let mut more = json!({"approval": {"id": id}});
    if admins_only {
        more["callProviderMetadata"] = json!({"annals": {"approval": "admins"}});
    }
    Part::tool(&call.name, &call.id, REQUESTED, &call.input, more)
}

/// Returns the question to people in Markdown, with every argument of each call, or `None` if `message` has no open
/// request.
pub fn question(message: &UiMessage, texts: &dyn Texts) -> Option<String> {
    let all = requests(message);
    let open: Vec<&Request> = all.iter().filter(|request| request.is_open).collect();
    let numbered = all.len() > 1;
    let asked = open.iter().map(|request| {
        let number = if numbered { format!("{}. ", request.number) } else { String::new() };
        let shown = shown_input(&request.input, |count| texts.characters_left_out(count))
            .unwrap_or_else(|too_long| too_long.to_string());
        let who =
            if request.admins_only { format!("\n\n{}", texts.admins_must_approve()) } else { String::new() };
        format!("{number}{}\n\n```json\n{shown}\n```{who}", texts.may_i_call(&request.tool))
    });
    if open.is_empty() {
        return None;
    }
    let how = texts.how_to_answer(numbered).to_owned();
    Some(asked.chain([how]).collect::<Vec<_>>().join("\n\n"))
}

/// Returns `message` with the answers: approved calls are to be carried out now, denied ones are finished.
#[must_use]
pub fn answered(message: &UiMessage, verdicts: &[Verdict]) -> UiMessage {
    let parts = message.parts.iter().map(|part| {
        let id = approval_of(part).and_then(|approval| approval.get("id"));
        let verdict = verdicts.iter().find(|verdict| id.and_then(Value::as_str) == Some(&verdict.id));
        match (state_of(part), verdict) {
            (Some(REQUESTED), Some(verdict)) => {
                let state = if verdict.approved { RESPONDED } else { "output-denied" };
                part.in_state(state, &json!({ "approval": verdict }))
            }
            _ => part.clone(),
        }
    });
    UiMessage { parts: parts.collect(), ..message.clone() }
}

/// Returns true if `message` has requests and `verdicts` answer all of them.
pub fn is_answered(message: &UiMessage, verdicts: &[Verdict]) -> bool {
    let requests = requests(message);
    let mut open = requests.iter().filter(|request| request.is_open).peekable();
    open.peek().is_some() && open.all(|request| verdicts.iter().any(|verdict| verdict.id == request.id))
}

/// Returns `message` with the result of each approved call; `outcomes` are in the order of the calls.
#[must_use]
pub fn carried_out(message: &UiMessage, outcomes: Vec<Result<Value, String>>) -> UiMessage {
    let mut outcomes = outcomes.into_iter();
    let parts = message.parts.iter().map(|part| {
        if state_of(part) != Some(RESPONDED) {
            return part.clone();
        }
        match outcomes.next() {
            Some(Ok(output)) => part.in_state("output-available", &json!({ "output": output })),
            Some(Err(error)) => part.in_state("output-error", &json!({ "errorText": error })),
            None => part.clone(),
        }
    });
    UiMessage { parts: parts.collect(), ..message.clone() }
}

/// Returns `message` as it is after the `/stop` with this id: open requests are denied, and the results of calls that
/// were about to be made are unknown. Returns `None` if nothing in it was open.
pub fn stopped(message: &UiMessage, command: &str) -> Option<UiMessage> {
    let is_open = requests(message).iter().any(|request| request.is_open);
    if !is_open && !is_unfinished(message) {
        return None;
    }
    let parts = message.parts.iter().map(|part| match state_of(part) {
        Some(REQUESTED) => {
            let id = approval_of(part).and_then(|approval| approval.get("id")).cloned().unwrap_or_default();
            let approval = json!({"id": id, "approved": false, "reason": STOPPED});
            part.in_state("output-denied", &json!({ "approval": approval }))
        }
        Some(RESPONDED) => part.in_state("output-error", &json!({ "errorText": UNKNOWN })),
        _ => part.clone(),
    });
    let mut stopped = UiMessage { parts: parts.collect(), ..message.clone() };
    stopped.metadata.set_stopped(command);
    Some(stopped)
}

/// Returns `part` as it is if its run ends here: the result of a call that is under way is unknown.
#[must_use]
pub fn cut_off(part: &Part) -> Part {
    if state_of(part) == Some("input-available") {
        return part.in_state("output-error", &json!({ "errorText": UNKNOWN }));
    }
    part.clone()
}

/// Returns the final form of the reply at `reply` in `records`, if a `/stop` has answered its requests.
pub fn stopped_by_answer(records: &[Record], reply: &SortKey) -> Option<UiMessage> {
    let form = newest_form(records, reply)?;
    let open: Vec<String> = requests(&form.message).into_iter().filter(|r| r.is_open).map(|r| r.id).collect();
    let command = records.iter().find_map(|record| {
        Verdict::of(record).filter(|verdict| open.contains(&verdict.id)).and(record.stopped_by())
    });
    stopped(&form.message, command?)
}

/// Returns the calls in `message` that were approved and have no result.
pub fn allowed(message: &UiMessage) -> impl Iterator<Item = &Part> {
    message.parts.iter().filter(|part| state_of(part) == Some(RESPONDED))
}

/// Returns true if `message` breaks off: no request is open, nothing follows its last call, and no `/stop` has ended
/// it.
pub fn is_unfinished(message: &UiMessage) -> bool {
    let is_call = |part: &Part| matches!(part.view(), PartView::Tool { .. });
    message.parts.last().is_some_and(is_call)
        && message.metadata.stopped_by().is_none()
        && !requests(message).iter().any(|request| request.is_open)
}

/// Returns the newest form of the reply at `reply` in `records`, if the reply does not continue before the next message
/// of a person. One that has lapsed continues no more; see [`to_resume`].
pub fn settled<'a>(records: &'a [Record], reply: &SortKey, now: Timestamp) -> Option<&'a Record> {
    let newest = newest_form(records, reply)?;
    let has_lapsed = || records.iter().any(|record| record.key == *reply && record.has_lapsed(now));
    (!goes_on(newest, records) || has_lapsed()).then_some(newest)
}

/// Returns true if a reply whose newest form is `newest` continues: the verdicts among `records` answer all its requests, or a
/// run broke off after they did.
fn goes_on<'a>(newest: &Record, records: impl IntoIterator<Item = &'a Record>) -> bool {
    let verdicts: Vec<Verdict> = records.into_iter().filter_map(Verdict::of).collect();
    is_answered(&newest.message, &verdicts) || (newest.key.is_later_form() && is_unfinished(&newest.message))
}

/// Returns the newest form of the reply at `reply` in `records`.
pub fn newest_form<'a>(records: &'a [Record], reply: &SortKey) -> Option<&'a Record> {
    let is_form = |record: &&Record| {
        record.key == *reply || (record.kind() == Kind::Revision && record.key.belongs_to_reply())
    };
    let forms = records.iter().filter(is_form).filter(|record| record.key.base() == reply.base());
    forms.max_by_key(|record| record.revision())
}

/// Returns the replies in `records` that have to continue at `now`, in order: all their requests are answered, or a run broke
/// off. One that has lapsed does not continue: its later forms, which lapse no earlier, may have left the table before it.
pub fn to_resume(records: &[Record], now: Timestamp) -> Vec<SortKey> {
    let mut hanging: HashMap<SortKey, Vec<&Record>> = HashMap::new();
    for record in records.iter().filter(|record| record.key.belongs_to_reply()) {
        hanging.entry(record.key.base()).or_default().push(record);
    }
    let is_due = |reply: &&Record| {
        let Some(own) = hanging.get(&reply.key.base()) else { return false };
        let forms = own.iter().copied().filter(|record| record.kind() == Kind::Revision);
        let newest = forms.max_by_key(|record| record.revision()).unwrap_or(reply);
        goes_on(newest, own.iter().copied())
    };
    let is_live =
        |record: &&Record| record.kind() == Kind::Normal && record.key.is_reply() && !record.has_lapsed(now);
    let replies = records.iter().filter(is_live);
    replies.filter(is_due).map(|reply| reply.key.clone()).collect()
}

/// A button of a request, as platforms carry it: the request and the place of its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Button {
    pub id: String,
    /// Base of the reply, if it is known.
    pub base: Option<SortKey>,
    pub approved: bool,
}

/// Telegram's limit for the data of a button.
const MAX_DATA_BYTES: usize = 64;

impl Button {
    /// Returns `y5f2b81c09a3de4171763765920000#00000000000000000042`: at most 64 bytes, without the base if that is too
    /// long.
    pub fn data(&self) -> String {
        let short = format!("{}{}", if self.approved { 'y' } else { 'n' }, self.id);
        match &self.base {
            Some(base) if short.len() + base.as_str().len() <= MAX_DATA_BYTES => format!("{short}{base}"),
            _ => short,
        }
    }

    pub fn parse(data: &str) -> Option<Self> {
        let (word, rest) = data.split_at_checked(1)?;
        let (id, base) = rest.split_at_checked(16)?;
        let approved = match word {
            "y" => true,
            "n" => false,
            _ => return None,
        };
        let is_id = id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let base = if base.is_empty() { None } else { Some(base.parse().ok()?) };
        is_id.then(|| Self { id: id.to_owned(), base, approved })
    }
}

fn state_of(part: &Part) -> Option<&str> {
    match part.view() {
        PartView::Tool { state, .. } => Some(state),
        _ => None,
    }
}

fn approval_of(part: &Part) -> Option<&Map<String, Value>> {
    part.as_map().get("approval").and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::message::Role;
    use crate::testing;
    use crate::texts::en::En;

    fn reply(states: &[&str]) -> UiMessage {
        let parts = states.iter().enumerate().map(|(at, state)| {
            let approval = json!({"approval": {"id": format!("{at:016x}")}});
            Part::tool("refund", &format!("c{at}"), state, &json!({"order": at}), approval)
        });
        UiMessage::new("1/reply", Role::Assistant, parts.collect())
    }

    fn verdict(at: usize, approved: bool, reason: Option<&str>) -> Verdict {
        Verdict { id: format!("{at:016x}"), approved, reason: reason.map(str::to_owned) }
    }

    #[test]
    fn an_answer_makes_a_request_a_call_or_ends_it_and_touches_no_other() {
        let asked = reply(&[REQUESTED, REQUESTED, REQUESTED]);
        let said = answered(&asked, &[verdict(0, true, None), verdict(1, false, Some("too much"))]);
        let json: Vec<Value> = said.parts.iter().map(|part| json!(part)).collect();
        assert_eq!(json[0]["state"], RESPONDED);
        assert_eq!(json[1]["state"], "output-denied");
        assert_eq!(
            json[1]["approval"],
            json!({"id": "0000000000000001", "approved": false, "reason": "too much"})
        );
        assert_eq!(said.parts[2], asked.parts[2]);
        assert!(!is_unfinished(&said), "somebody is still asked");
        let all = answered(&said, &[verdict(2, true, None)]);
        assert_eq!(allowed(&all).count(), 2);
        assert!(is_unfinished(&all));
        let done = carried_out(&all, vec![Ok(json!(1)), Err("down".into())]);
        let states: Vec<&str> = done.parts.iter().filter_map(state_of).collect();
        assert_eq!(states, ["output-available", "output-denied", "output-error"]);
        assert_eq!(json!(done.parts[0])["approval"]["approved"], true);
        assert!(is_unfinished(&done) && !is_unfinished(&UiMessage::text("", Role::Assistant, "x")));
    }

    /// Returns a form of the reply to a message, with calls in these states.
    fn form(number: u32, states: &[&str]) -> Record {
        let first = testing::reply(&[(0, 1)]);
        let record = if number == 0 { first } else { testing::reply_form(&first, number) };
        Record { message: reply(states), ..record }
    }

    /// Returns the record of a person's answer to the request with this number.
    fn answer(at: usize, approved: bool) -> Record {
        let verdict = verdict(at, approved, None);
        let key = testing::key(0, 1).approval(&verdict.id);
        let mut record = testing::as_kind(Record { key, ..testing::user(0, 2) }, Kind::Notice);
        record.message.metadata.set_approval(&verdict);
        record
    }

    #[track_caller]
    fn check(records: &[Record], goes_on: bool, settled_as: Option<u32>) {
        let records = testing::sorted(records.iter().cloned());
        let reply = testing::key(0, 1).reply();
        assert_eq!(
            to_resume(&records, testing::hours(0)),
            if goes_on { vec![reply.clone()] } else { vec![] }
        );
        assert_eq!(settled(&records, &reply, testing::hours(0)).map(Record::revision), settled_as);
    }

    #[test]
    fn a_reply_goes_on_once_all_its_requests_are_answered_until_it_ends_with_words() {
        let asked = form(0, &[REQUESTED, REQUESTED]);
        check(&[testing::reply(&[(0, 1)])], false, Some(0));
        check(&[form(0, &["output-available"])], false, Some(0));
        check(from_ref(&asked), false, Some(0));
        check(&[asked.clone(), answer(0, true)], false, Some(0));
        let told = [asked, answer(0, true), answer(1, false)];
        check(&told, true, None);
        let with = |forms: &[Record]| [&told[..], forms].concat();
        // A run that broke off before the call, or after it.
        let before = form(1, &[RESPONDED, "output-denied"]);
        check(&with(from_ref(&before)), true, None);
        let called = form(2, &["output-available", "output-denied"]);
        check(&with(&[before.clone(), called.clone()]), true, None);
        let mut done = form(10, &["output-available", "output-denied"]);
        done.message.parts.push(Part::text("It is refunded."));
        check(&with(&[before.clone(), called.clone(), done.clone()]), false, Some(10));
        // It asks again.
        let again = form(11, &["output-available", "output-denied", REQUESTED]);
        check(&with(&[done.clone(), again.clone()]), false, Some(11));
        check(&with(&[done, again, answer(2, true)]), true, None);

        // TTL deletes in any order: the forms that followed may have gone before the reply.
        let lapsed = Record { expires_at: Some(0), ..told[0].clone() };
        check(&[lapsed.clone(), told[1].clone(), told[2].clone()], false, Some(0));
        check(&[lapsed, told[1].clone(), told[2].clone(), before], false, Some(1));
    }

    #[test]
    fn a_stop_denies_what_is_asked_and_ends_what_was_to_be_called() {
        let asked = form(0, &[REQUESTED, REQUESTED]);
        let reply = asked.key.clone();
        let by = |mut record: Record| {
            record.message.metadata.set_stopped_by("9");
            record
        };
        assert_eq!(stopped_by_answer(&[asked.clone(), answer(0, false)], &reply), None, "no /stop");
        assert_eq!(stopped_by_answer(&[asked.clone(), by(answer(2, false))], &reply), None, "of another");
        let ended = stopped_by_answer(&[asked.clone(), by(answer(0, false))], &reply).unwrap();
        let states = |message: &UiMessage| {
            message.parts.iter().filter_map(state_of).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(states(&ended), ["output-denied", "output-denied"]);
        assert_eq!((ended.metadata.is_stopped(), ended.metadata.stopped_by()), (true, Some("9")));
        assert_eq!(json!(ended.parts[1])["approval"]["reason"], STOPPED);
        check(&[asked, Record { message: ended.clone(), ..form(1, &[]) }], false, Some(1));
        let approved = stopped(&form(1, &[RESPONDED]).message, "9").unwrap();
        assert_eq!(states(&approved), ["output-error"], "it may have been made");
        assert_eq!(stopped(&ended, "10"), None, "nothing is open");
    }

    #[test]
    fn the_question_names_the_call_and_the_commands() {
        let question = |states| question(&reply(states), &En);
        assert_eq!(question(&["output-available"]), None);
        let one = question(&[REQUESTED]).unwrap();
        assert!(
            one.starts_with("May I call `refund` with this?\n\n```json\n{\n  \"order\": 0\n}\n```"),
            "{one}"
        );
        assert!(one.ends_with("Answer with /approve or /deny, and why if you like."));
        let two = question(&["output-available", REQUESTED]).unwrap();
        assert!(two.starts_with("2. May I call") && two.contains("/deny and the number"), "{two}");
    }

    #[test]
    fn a_button_reads_back_and_fits() {
        let base: SortKey = "1763765920000#00000000000000000042".parse().unwrap();
        let button = Button { id: "5f2b81c09a3de417".into(), base: Some(base), approved: true };
        assert!(button.data().len() <= 64);
        assert_eq!(Button::parse(&button.data()), Some(button.clone()));
        let long: SortKey = format!("1763765920000#{}", "x".repeat(60)).parse().unwrap();
        let far = Button { base: Some(long), approved: false, ..button.clone() };
        assert_eq!(Button::parse(&far.data()), Some(Button { base: None, ..far }));
        for other in
            ["", "y", "x5f2b81c09a3de417", "y5f2b81c09a3de41", "y5f2b81c09a3de417!", "好".repeat(9).as_str()]
        {
            assert_eq!(Button::parse(other), None, "{other}");
        }
    }
}
