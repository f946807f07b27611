//! Raw records go to S3 first: a summary is stored only if the records that it counts are archived and can be read back.

use std::collections::BTreeSet;

use annals_core::message::Role;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::SortKey;

use crate::faults::{Faults, Plan};
use crate::solo::Solo;
use crate::world::records_of;

/// A chat that has outgrown its window by a little: some 1,600 tokens for messages beside the tools, of which one summary can
/// take in all but the six that stay.
async fn outgrown() -> Solo {
    let solo = Solo::new(&[("CONTEXT_WINDOW", "2400"), ("KEEP_RECENT", "6")]).await;
    solo.model.answer_with("Noted.");
    for n in 0..9 {
        solo.hear(n, &format!("message {n}: {}", "lorem ipsum dolor ".repeat(60).trim()), false).await;
    }
    solo
}

/// A turn whose compaction meets `faults` is answered, without a summary.
async fn answers_without_a_summary(solo: &Solo, faults: Faults) {
    let asked = solo.hear(20, "And now?", true).await;
    let mut expected: Vec<String> = solo.whole_context().await.messages.into_iter().map(|m| m.id).collect();
    assert_eq!(expected.len(), 10);
    expected.push(format!("{}/reply", expected[9]));
    solo.start(solo.agent(faults), &asked).await.unwrap().unwrap();
    assert_eq!(solo.model.requests_for_notes().len(), 1, "a compaction was tried, once");
    let records = solo.records().await;
    let reply = records.last().unwrap();
    assert_eq!((reply.role(), reply.kind(), reply.covers()), (Role::Assistant, Kind::Normal, &[asked][..]));
    assert!(
        reply.message.metadata.fields()["context"]["leftOut"].as_u64().unwrap() > 0,
        "what did not fit is on record"
    );

    assert_eq!(solo.summaries().await, []);
    assert_eq!(solo.history().segments(&solo.chat).await.unwrap(), [], "nothing points at S3");
    let shown: Vec<String> = solo.whole_context().await.messages.into_iter().map(|m| m.id).collect();
    assert_eq!(shown, expected, "the context is as it was");
}

async fn keys(solo: &Solo) -> Vec<SortKey> {
    solo.records().await.into_iter().map(|record| record.key).collect()
}

/// The next turn makes up for it: one summary, and one segment that holds exactly what that counts.
async fn recovers(solo: &Solo) {
    let asked = solo.hear(21, "And now?", true).await;
    solo.run(&asked).await;
    let [summary] = &solo.summaries().await[..] else { panic!("{:?}", keys(solo).await) };
    let counts: BTreeSet<SortKey> = summary.source().unwrap().counts.iter().cloned().collect();
    let history = solo.history();
    let [segment] = &history.segments(&solo.chat).await.unwrap()[..] else { panic!("one segment") };
    let held = records_of(&history, segment).await;
    assert_eq!(held.iter().map(|record| record.key.clone()).collect::<BTreeSet<_>>(), counts);
    let stored: Vec<Record> =
        solo.records().await.into_iter().filter(|record| counts.contains(&record.key)).collect();
    assert_eq!(held, stored, "each as it is in the table");
    let reply = solo.records().await.pop().unwrap();
    assert_eq!(reply.covers(), [asked]);
    assert!(reply.message.metadata.fields().get("context").is_none(), "all that is left is seen");
}

#[tokio::test]
async fn without_a_stored_segment_there_is_no_summary() {
    let solo = outgrown().await;
    answers_without_a_summary(&solo, Faults::new(Plan::NoSegments)).await;
    assert_eq!(solo.world.objects("segments/").await, [""; 0]);
    recovers(&solo).await;
}

/// The time in the header is another: it unpacks to the same, and is not what was put.
fn another_time(gzip: &mut [u8]) {
    gzip[4] ^= 1;
}

#[tokio::test]
async fn without_a_readable_segment_there_is_no_summary() {
    let solo = outgrown().await;
    answers_without_a_summary(&solo, Faults::new(Plan::Altered(another_time))).await;
    assert_eq!(solo.world.objects("segments/").await.len(), 1, "it was put");
    // Now it is found there, and holds what it should.
    recovers(&solo).await;
}
