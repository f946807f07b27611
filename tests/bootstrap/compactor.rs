//! The compactor alone: the schedule's event.

use serde_json::{Value, json};

use crate::emulated::{Emulated, queue};
use crate::stack::beside;

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn the_schedules_event_is_one_run_which_reports_its_figures() {
    beside(async |stack| {
        let queue = queue(stack, "compactor-alone").await;
        let compactor = Emulated::start(stack, "Compactor", &queue, &[]).await;
        // What EventBridge Scheduler sends where the schedule has no input of its own.
        let event = json!({
            "version": "0", "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa", "detail-type": "Scheduled Event",
            "source": "aws.scheduler", "account": "123456789012", "time": "2025-11-21T22:58:41Z",
            "region": "eu-central-1",
            "resources": ["arn:aws:scheduler:eu-central-1:123456789012:schedule/default/annals-Compactor"],
            "detail": "{}",
        });
        assert_eq!(compactor.invoke(&event).await, Value::Null, "{}", compactor.log());
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
