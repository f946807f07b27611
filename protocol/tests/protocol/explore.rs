//! Every state that the protocol can get into, and what holds in all of them.

use Said::{Asks, Compact, Stop};
use annals_protocol::model::{Flaw, Protocol};
use annals_protocol::state::{Budget, Said};

use crate::check::{explore, find};

fn protocol(said: &[Said], budget: Budget) -> Protocol {
    Protocol { said: said.to_vec(), runs: 2, pieces: 2, budget, flaw: None }
}

#[test]
fn processes_die_and_platforms_deliver_again() {
    let budget = Budget { crashes: 2, repeats: 1, failures: 1, ..Budget::default() };
    explore("crashes", protocol(&[Asks, Asks], budget));
}

#[test]
fn leases_run_out_and_the_old_run_lives_on() {
    let budget = Budget { crashes: 1, lapses: 1, expiries: 1, ..Budget::default() };
    explore("zombies", protocol(&[Asks, Asks], budget));
}

#[test]
fn a_stop_comes_between() {
    let budget = Budget { crashes: 1, lapses: 1, expiries: 1, ..Budget::default() };
    explore("stop, zombies", protocol(&[Asks, Stop], budget));
    let budget = Budget { crashes: 1, ..Budget::default() };
    explore("stop, crashes", protocol(&[Asks, Stop, Asks], budget));
}

#[test]
fn messages_are_added_to_a_turn_between_two_requests() {
    let budget = Budget { crashes: 1, failures: 1, rounds: 1, ..Budget::default() };
    explore("additions, crashes", protocol(&[Asks, Asks], budget));
    let budget = Budget { lapses: 1, expiries: 1, rounds: 2, ..Budget::default() };
    explore("additions, zombies", protocol(&[Asks, Asks], budget));
    let budget = Budget { crashes: 1, rounds: 1, ..Budget::default() };
    explore("additions, stop", protocol(&[Asks, Asks, Stop], budget));
    let budget = Budget { rounds: 2, ..Budget::default() };
    explore("additions, compact", protocol(&[Asks, Asks, Compact, Asks], budget));
}

/// All at once: minutes, even in release mode.
#[test]
#[ignore = "takes long: cargo test --profile program -p annals-protocol explore -- --ignored --nocapture"]
fn everything_at_once() {
    let budget = Budget { crashes: 1, repeats: 1, lapses: 1, expiries: 1, visits: 1, failures: 0, rounds: 1 };
    explore("stop between two", protocol(&[Asks, Stop, Asks], Budget { repeats: 0, visits: 0, ..budget }));
    explore("all but stop", protocol(&[Asks, Asks], Budget { crashes: 2, failures: 1, ..budget }));
    let three = Protocol {
        runs: 3,
        ..protocol(&[Asks, Asks], Budget { lapses: 2, expiries: 2, ..Budget::default() })
    };
    explore("three runs", three);
}

#[test]
fn a_compact_command_is_a_turn() {
    let budget = Budget { crashes: 1, failures: 1, ..Budget::default() };
    explore("compact", protocol(&[Asks, Compact, Stop], budget));
}

#[test]
fn upkeep_comes_between() {
    let budget = Budget { crashes: 1, lapses: 1, expiries: 1, visits: 1, ..Budget::default() };
    explore("upkeep", protocol(&[Asks, Asks], budget));
}

#[test]
fn the_model_is_given_up() {
    let budget = Budget { crashes: 1, failures: 3, expiries: 1, lapses: 1, ..Budget::default() };
    explore("failures", protocol(&[Asks], budget));
}

/// Each rule of the protocol is needed.
#[test]
fn every_rule_of_the_protocol_is_needed() {
    let none = Budget::default();
    let crashes = Budget { crashes: 1, repeats: 1, ..none };
    let zombies = Budget { lapses: 1, expiries: 1, ..none };
    for (flaw, said, budget) in [
        (Flaw::UnfencedCommits, &[Asks, Asks][..], zombies),
        (Flaw::ForgottenTurns, &[Asks, Asks], zombies),
        (Flaw::UnfencedStops, &[Asks, Stop], none),
        (Flaw::SilentDuplicates, &[Asks], crashes),
        (Flaw::LostFailures, &[Asks], crashes),
        (Flaw::HastyStops, &[Asks, Compact, Stop], none),
        (Flaw::LateAdditions, &[Asks, Asks], Budget { crashes: 1, rounds: 1, ..none }),
    ] {
        let flawed = Protocol { flaw: Some(flaw), ..protocol(said, budget) };
        find(&format!("{flaw:?}"), flawed, None);
    }
}
