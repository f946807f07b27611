//! The compactor alone: the schedule's event.

use serde_json::Value;

use crate::bootstrap::emulated::{Emulated, event, queue};
use crate::stack::beside;

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn the_schedules_event_is_one_run_which_reports_its_figures() {
    beside(async |stack| {
        let queue = queue(stack, "compactor-alone").await;
        let compactor = Emulated::start(stack, "Compactor", &queue, &[]).await;
        assert_eq!(compactor.invoke(&event("compactor-schedule")).await, Value::Null, "{}", compactor.log());
        let log = compactor.log();
        let metrics = log.lines().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            line.get("_aws").is_some().then_some(line)
        });
        let metrics = metrics.unwrap_or_else(|| panic!("{log}"));
        assert_eq!(metrics["Table"], stack.output("TableName"));
        assert_eq!(metrics["_aws"]["CloudWatchMetrics"][0]["Namespace"], "Annals");
    });
}
