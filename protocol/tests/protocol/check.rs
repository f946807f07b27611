//! Exploration of a model, with the path to a state in which a property fails.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, DiscoveryClassification, HasDiscoveries, Model};

/// Explores every state of `model`.
///
/// # Panics
/// If a property fails, with the path to the state.
pub(crate) fn explore<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let failures = failures(name, model, HasDiscoveries::AnyFailures);
    assert!(failures.is_empty(), "{name}: not so: {failures:#?}");
}

/// Explores a model with a flaw until `property`, or any if `None`, fails.
///
/// # Panics
/// If it does not fail.
pub(crate) fn find<M>(flaw: &str, model: M, property: Option<&'static str>)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let until = property.map_or(HasDiscoveries::AnyFailures, |name| HasDiscoveries::AnyOf([name].into()));
    let failures = failures(flaw, model, until);
    let is_found = failures.iter().any(|failure| property.is_none_or(|name| failure.starts_with(name)));
    assert!(is_found, "{flaw} does no harm to {property:?}: {failures:#?}");
}

/// Explores `model` and returns the properties that fail: name, steps, last state.
fn failures<M>(name: &str, model: M, until: HasDiscoveries) -> Vec<String>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let started = Instant::now();
    let checker = model.checker().threads(2).finish_when(until).spawn_bfs().join();
    let counts = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    println!("{name}: {counts:?} states, with repeats, depth, {:.1?}", started.elapsed());
    let is_failure = |name: &str| {
        matches!(checker.discovery_classification(name), DiscoveryClassification::Counterexample)
    };
    let discoveries = checker.discoveries().into_iter().filter(|(name, _)| is_failure(name));
    let failures: Vec<String> = discoveries
        .map(|(name, path)| {
            let last = format!("{:#?}", path.last_state());
            format!("{name}: {:?}\n{last}", path.into_actions())
        })
        .collect();
    if failures.is_empty() {
        // And what should be possible was seen.
        checker.assert_properties();
    }
    failures
}
