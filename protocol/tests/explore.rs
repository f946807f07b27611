//! Every state that the protocol can get into, and what holds in all of them.
#![allow(clippy::unwrap_used, reason = "a test: a panic is a failure that names its line")]

use std::time::Instant;

use annals_protocol::model::{Flaw, Protocol};
use annals_protocol::state::{Budget, Said};
use stateright::{Checker, DiscoveryClassification, HasDiscoveries, Model};

use Said::{Asks, Compact, Stop};

fn protocol(said: &[Said], budget: Budget) -> Protocol {
    Protocol { said: said.to_vec(), runs: 2, pieces: 2, tries: 2, budget, flaw: None }
}

fn explore(name: &str, protocol: Protocol) {
    let started = Instant::now();
    let checker = protocol.checker().threads(2).spawn_bfs().join();
    println!(
        "{name}: {} states ({} with repeats), depth {}, {:.1?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        started.elapsed()
    );
    for (property, path) in checker.discoveries() {
        let is_example =
            matches!(checker.discovery_classification(property), DiscoveryClassification::Example);
        assert!(
            is_example,
            "{name}: not so: {property}:\n{:#?}\n{:#?}",
            path.last_state(),
            path.clone().into_actions()
        );
    }
    checker.assert_properties();
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

/// All at once: minutes, even in release mode.
#[test]
#[ignore = "takes long: cargo test --release -p annals-protocol -- --ignored --nocapture"]
fn everything_at_once() {
    let budget = Budget { crashes: 1, repeats: 1, lapses: 1, expiries: 1, visits: 1, failures: 0 };
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

/// What the protocol does is what makes it hold.
#[test]
fn nothing_of_it_can_be_left_out() {
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
    ] {
        let flawed = Protocol { flaw: Some(flaw), ..protocol(said, budget) };
        let checker = flawed.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let failed: Vec<_> = checker
            .discoveries()
            .into_iter()
            .filter(|(name, _)| {
                matches!(checker.discovery_classification(name), DiscoveryClassification::Counterexample)
            })
            .map(|(name, path)| (name, path.into_actions().len()))
            .collect();
        println!("{flaw:?}: {failed:?}");
        assert!(!failed.is_empty(), "{flaw:?} does no harm");
    }
}
