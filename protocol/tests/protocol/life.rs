//! Every state of a chat's records from their append to their deletion, and random walks beyond.

use Content::{A, B};
use annals_protocol::life::properties::{ARCHIVED, COVERED, FORGOTTEN, LISTED, PROGRESS};
use annals_protocol::life::records::Script;
use annals_protocol::life::state::{Budget, Content, Form, Tick};
use annals_protocol::life::{Action, Flaw, Life, Said};
use stateright::{Expectation, Model};

use crate::check::{self, explore};

const fn said(place: u8, content: Content, from: Tick) -> Said {
    Said { place, content, from }
}

/// Returns the life of messages that may be edited and ask for no answer, with one visit at a time.
fn silent(said: &[Said], last: Tick, budget: Budget) -> Life {
    Life {
        script: Script { at: [0, 0], asks: [false, false] },
        said: said.to_vec(),
        runs: 0,
        visits: 1,
        deletes: usize::from(budget.deletes.min(1)),
        page: 2,
        last,
        gives_up: false,
        budget,
        flaw: None,
    }
}

/// Returns a life like that of `silent`, with messages that ask for an answer, and a run that answers them.
fn asking(said: &[Said], last: Tick, budget: Budget) -> Life {
    let at = |place| said.iter().filter(|said| said.place == place).map(|said| said.from).min().unwrap_or(0);
    let script = Script { at: [at(0), at(1)], asks: [true, true] };
    Life { script, runs: 1, ..silent(said, last, budget) }
}

fn list(actions: &[Action]) -> String {
    actions.iter().map(|action| format!("{action:?}")).collect::<Vec<_>>().join(", ")
}

/// Explores `life` with this flaw until `property` fails.
fn find(flaw: Flaw, property: &'static str, life: Life) {
    check::find(&format!("{flaw:?}"), Life { flaw: Some(flaw), ..life }, Some(property));
}

const NONE: Budget = Budget { crashes: 0, repeats: 0, lapses: 0, losses: 0, deletes: 0 };

/// A message and its edit.
const EDITED: [Said; 2] = [said(0, A, 0), said(0, B, 0)];

/// A message that asks.
const ASKED: [Said; 1] = [said(0, A, 0)];

#[test]
fn a_message_that_is_repeated_or_edited_around_its_expiry_is_listed_once() {
    let life = silent(&EDITED, 3, Budget { crashes: 1, repeats: 1, ..NONE });
    find(Flaw::BlindAppend, LISTED, life.clone());
    explore("edit, crash, repeat", life);
    explore("edit, loss", silent(&EDITED, 3, Budget { losses: 1, ..NONE }));
}

#[test]
fn a_deleted_chat_stays_forgotten_and_can_be_used_again() {
    let quiet = silent(&[said(0, A, 0)], 3, Budget { repeats: 1, deletes: 1, ..NONE });
    find(Flaw::ExpiringHead, LISTED, quiet.clone());
    find(Flaw::HastyDelete, FORGOTTEN, quiet.clone());
    explore("deletion, repeat", quiet);
    explore("deletion, edit", silent(&EDITED, 3, Budget { deletes: 1, ..NONE }));
    explore("deletion, answer, repeat", asking(&ASKED, 2, Budget { deletes: 1, repeats: 1, ..NONE }));
    explore("deletion, answer, crash", asking(&ASKED, 2, Budget { deletes: 1, crashes: 1, ..NONE }));
    explore("deletion, answer, loss", asking(&ASKED, 2, Budget { deletes: 1, losses: 1, ..NONE }));
    let two = Life { deletes: 2, ..asking(&ASKED, 2, Budget { deletes: 2, ..NONE }) };
    explore("two deletions, answer", two);
}

#[test]
fn a_message_is_answered_once_in_any_order_of_ttl_deletions() {
    let repeated = asking(&ASKED, 4, Budget { repeats: 1, ..NONE });
    find(Flaw::LateLapse, COVERED, repeated.clone());
    find(Flaw::ProlongedAlone, COVERED, repeated.clone());
    find(Flaw::BlindAppend, COVERED, repeated.clone());
    explore("answer, repeat", repeated);
    explore("answer, edit", asking(&[said(0, A, 0), said(0, B, 1)], 3, NONE));
    explore("two answers", asking(&[said(0, A, 0), said(1, A, 1)], 3, NONE));
    let two = Life { runs: 2, visits: 2, ..asking(&ASKED, 3, Budget { lapses: 1, ..NONE }) };
    explore("answer, two runs, two visits", two);
}

#[test]
fn an_open_turn_whose_message_has_left_the_table_does_not_block_the_chat() {
    let life = asking(&[said(0, A, 0), said(1, A, 2)], 3, Budget { crashes: 1, ..NONE });
    find(Flaw::BlockedTurn, PROGRESS, life.clone());
    explore("open turn", life);
}

/// The model found these faults when it was new, besides those that it was made for.
#[test]
fn five_earlier_faults_of_the_code_are_found() {
    let crash = Budget { crashes: 1, ..NONE };
    find(Flaw::LostReply, COVERED, asking(&[said(0, A, 0), said(1, A, 2)], 3, crash));
    find(Flaw::RevivedAlone, COVERED, asking(&[said(0, A, 0), said(1, A, 1)], 3, NONE));
    let twice = [said(0, B, 0), said(0, A, 0), said(0, A, 0)];
    find(Flaw::BareAnchor, LISTED, silent(&twice, 0, Budget { deletes: 1, ..NONE }));
    let two = [said(0, A, 0), said(1, A, 0)];
    let budget = Budget { crashes: 1, deletes: 1, ..NONE };
    let abandoned = Life { gives_up: true, ..silent(&two, 2, budget) };
    find(Flaw::AbandonedDelete, ARCHIVED, abandoned.clone());
    explore("abandoned deletion", abandoned);
    find(Flaw::LatePlace, FORGOTTEN, silent(&ASKED, 2, Budget { deletes: 1, ..NONE }));
}

/// More processes and faults at once: takes minutes.
#[test]
#[ignore = "takes long: cargo test -p annals-protocol life -- --ignored --nocapture"]
fn more_at_once() {
    let two = [said(0, A, 0), said(1, A, 0)];
    explore("two messages, deletion, crash", silent(&two, 2, Budget { crashes: 1, deletes: 1, ..NONE }));
    let faults = Budget { crashes: 1, repeats: 1, ..NONE };
    explore("deletion, answer, crash, repeat", asking(&ASKED, 2, Budget { deletes: 1, ..faults }));
    explore("answer, crash, loss, repeat", asking(&ASKED, 3, Budget { losses: 1, ..faults }));
    explore(
        "answer, edit, repeat",
        asking(&[said(0, A, 0), said(0, B, 1)], 3, Budget { repeats: 1, ..NONE }),
    );
    let two = Budget { lapses: 1, crashes: 1, ..NONE };
    explore("answer, two runs, two visits, crash", Life { runs: 2, visits: 2, ..asking(&ASKED, 3, two) });
    let all = Budget { deletes: 2, lapses: 1, ..NONE };
    explore("two of each", Life { runs: 2, visits: 2, deletes: 2, ..asking(&ASKED, 2, all) });
    let two = [said(0, A, 0), said(1, A, 1)];
    explore("two answers, repeat", asking(&two, 4, Budget { repeats: 1, ..NONE }));
}

/// Number of random walks, and the steps of each.
const WALKS: u64 = 6000;
const STEPS: usize = 300;

#[test]
fn random_walks_with_two_messages_and_two_of_every_process_find_nothing() {
    let budget = Budget { crashes: 4, repeats: 4, lapses: 2, losses: 4, deletes: 2 };
    let edits = [said(0, A, 0), said(0, B, 0), said(1, A, 1), said(1, B, 2)];
    let twins = [said(0, A, 0), said(0, A, 0), said(0, B, 1), said(1, A, 3)];
    let (mut steps, mut ends) = (0, 0);
    let (mut summed_up, mut left, mut used_again, mut removed) = (0, 0, 0, 0);
    for walk in 0..WALKS {
        // A deleted chat shows few other states.
        let deletes = if walk % 2 == 0 { 0 } else { budget.deletes };
        let said = if walk % 3 == 0 { &twins } else { &edits };
        let asked = asking(said, 5, Budget { deletes, ..budget });
        let life = Life { runs: 2, visits: 2, deletes: 2, ..asked };
        let properties = life.properties();
        let mut random = fastrand::Rng::with_seed(walk);
        let mut state = life.init_states().remove(0);
        let (mut way, mut was_forgotten) = (Vec::new(), false);
        for _ in 0..STEPS {
            let mut actions = Vec::new();
            life.actions(&state, &mut actions);
            let Some(action) = random.choice(&actions).copied() else { break };
            let had_head = state.head.is_some();
            state = life.apply(&state, action);
            way.push(action);
            for property in properties.iter().filter(|property| property.expectation == Expectation::Always) {
                let holds = (property.condition)(&life, &state);
                assert!(holds, "walk {walk}: not so: {}:\n{state:#?}\n{}", property.name, list(&way));
            }
            steps += 1;
            was_forgotten |= state.head.is_some_and(|head| head.forgotten_at.is_some());
            let has = |form| state.table.iter().any(|item| item.kept.key.form == form);
            summed_up += u32::from(has(Form::Summary));
            left += u32::from(!state.pointers.is_empty() && !has(Form::First));
            used_again += u32::from(was_forgotten && state.acknowledged != 0);
            removed += u32::from(had_head && state.head.is_none());
        }
        ends += u32::from(state.now == life.last);
    }
    println!(
        "{WALKS} walks, {steps} steps, {ends} to the last tick, {removed} heads removed; states: {left} with \
         all messages in the archive alone, {summed_up} with a summary, {used_again} used again"
    );
    assert!(ends > 0 && summed_up > 0 && left > 0 && used_again > 0 && removed > 0, "too tame");
}
