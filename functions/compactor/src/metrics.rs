//! Metrics of a run, as one line for CloudWatch, in addition to those that it [counted](annals_io::metrics).

use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_io::metrics;
use serde_json::Value;

use crate::Report;

/// Returns the metrics of `report`, of a run that ended at `now` on `table`. `grace` is `ARCHIVE_GRACE`. `GraceUsed` is
/// the percentage of it that the longest overdue chat has used up; some time after it exceeds 100, records begin to
/// expire unarchived. It is left out if a part of the index was not read, since an older chat may be there: the alarm fires
/// if there is no value for two hours.
pub fn embedded(report: &Report, table: &str, grace: Duration, now: Timestamp) -> Value {
    let overdue = report.oldest_overdue.as_secs_f64();
    // With no grace, the first overdue second uses up all of it; if nothing is overdue, none is used.
    let grace_used = if overdue > 0.0 { 100.0 * overdue / grace.as_secs_f64().max(1.0) } else { 0.0 };
    let mut metrics: Vec<(&str, &'static str, Value)> = vec![
        ("Visited", "Count", report.visited.into()),
        ("Failed", "Count", report.failed.into()),
        ("Busy", "Count", report.busy.into()),
        ("Left", "Count", report.left.into()),
        ("UnreadShards", "Count", report.unread_shards.into()),
        ("Segments", "Count", report.segments.into()),
        ("RecordsArchived", "Count", report.archived.into()),
        ("Summaries", "Count", report.summaries.into()),
        ("MemoryEntries", "Count", report.captured.into()),
        ("Duration", "Seconds", report.duration.as_secs_f64().into()),
    ];
    // A share that is known is a lower bound: it is told once an alarm is near.
    if report.unread_shards == 0 || grace_used >= 50.0 {
        metrics.extend([
            ("OldestOverdue", "Seconds", overdue.into()),
            ("GraceUsed", "Percent", grace_used.into()),
        ]);
    }
    let metrics = metrics.into_iter().map(|(name, unit, value)| (name.to_owned(), unit, value)).collect();
    metrics::line(table, None, metrics, now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_795_305_600_000;

    fn line(report: &Report, grace: Duration) -> Value {
        embedded(report, "annals-t", grace, Timestamp::from_millis(NOW).unwrap())
    }

    #[test]
    fn each_declared_metric_has_a_value() {
        let report = Report {
            visited: 12,
            failed: 1,
            busy: 2,
            left: 3,
            unread_shards: 0,
            segments: 5,
            archived: 60,
            summaries: 7,
            captured: 8,
            duration: Duration::from_millis(1500),
            oldest_overdue: Duration::from_hours(42),
        };
        let line = line(&report, Duration::from_hours(168));
        let mut values = line.clone();
        let metadata = values.as_object_mut().unwrap().shift_remove("_aws").unwrap();
        let expected = json!({
            "Table": "annals-t", "Visited": 12, "Failed": 1, "Busy": 2, "Left": 3, "UnreadShards": 0, "Segments": 5,
            "RecordsArchived": 60, "Summaries": 7, "MemoryEntries": 8, "Duration": 1.5, "OldestOverdue": 151_200.0,
            "GraceUsed": 25.0,
        });
        assert_eq!(values, expected);
        assert_eq!(metadata["Timestamp"], NOW);
        let metrics = &metadata["CloudWatchMetrics"][0];
        assert_eq!((&metrics["Namespace"], &metrics["Dimensions"]), (&json!("Annals"), &json!([["Table"]])));
        let declared =
            metrics["Metrics"].as_array().unwrap().iter().map(|metric| metric["Name"].as_str().unwrap());
        assert!(declared.eq(expected.as_object().unwrap().keys().skip(1)));
        assert!(!line.to_string().contains('\n'), "one line");
    }

    #[test]
    fn grace_used_is_left_out_if_a_part_of_the_index_was_not_read() {
        let line = line(&Report { unread_shards: 1, ..Report::default() }, Duration::from_hours(168));
        assert_eq!(line["UnreadShards"], 1);
        let line = line.to_string();
        assert!(!line.contains("GraceUsed") && !line.contains("OldestOverdue"), "{line}");
    }

    #[test]
    fn a_large_share_of_the_grace_is_told_though_a_part_of_the_index_was_not_read() {
        let oldest_overdue = Duration::from_hours(126);
        let report = Report { unread_shards: 1, oldest_overdue, ..Report::default() };
        assert_eq!(line(&report, Duration::from_hours(168))["GraceUsed"], 75.0);
    }

    #[test]
    fn grace_used_is_zero_if_nothing_is_left_and_large_if_there_is_no_grace() {
        assert_eq!(line(&Report::default(), Duration::ZERO)["GraceUsed"], 0.0);
        let late = Report { oldest_overdue: Duration::from_secs(1), ..Report::default() };
        assert_eq!(line(&late, Duration::ZERO)["GraceUsed"], 100.0);
    }
}
