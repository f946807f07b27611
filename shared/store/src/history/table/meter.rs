//! Consumed capacity, as DynamoDB reports it with each answer.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::types::ConsumedCapacity;

/// The capacity that a table's operations have consumed, its index included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Consumed {
    pub read_units: f64,
    pub write_units: f64,
    pub calls: u32,
}

/// A sum of consumed capacity. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Consumed>>);

impl Meter {
    /// Returns what was consumed since the last call, and starts again from zero.
    pub fn take(&self) -> Consumed {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn read(&self, units: Option<&ConsumedCapacity>) {
        self.count(units, |total| &mut total.read_units);
    }

    pub(super) fn wrote(&self, units: Option<&ConsumedCapacity>) {
        self.count(units, |total| &mut total.write_units);
    }

    /// Counts a write whose condition failed. DynamoDB bills one unit per KB of the item, but reports no figure.
    pub(super) fn refused(&self) {
        self.wrote(Some(&ConsumedCapacity::builder().capacity_units(1.0).build()));
    }

    fn count(&self, units: Option<&ConsumedCapacity>, total_of: impl Fn(&mut Consumed) -> &mut f64) {
        let mut total = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        total.calls += 1;
        *total_of(&mut total) += units.and_then(ConsumedCapacity::capacity_units).unwrap_or_default();
    }
}
