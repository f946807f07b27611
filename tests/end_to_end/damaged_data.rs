//! Data directories and clocks that are not as the program left them: a full disk, a power cut, a clock that jumps, the data
//! of version 0.1.

use std::path::Path;
use std::time::Duration;

use annals_test_support::audit::Told;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::app::{APP_KEY, TestApp, chat_path, ids, loopback_client, wait_until};
use crate::process::Process;
use crate::under_faults::{findings, settled_findings};
use crate::updates::{START, private};
use crate::world::{A_LIFE, copy};

const CHAT: &str = "telegram:chat:42";
const HOUR: Duration = Duration::from_hours(1);

fn told(numbers: impl IntoIterator<Item = i64>) -> Vec<Told> {
    let said = numbers.into_iter().map(|n| (n.to_string(), format!("message {n}"))).collect();
    vec![Told { chat: CHAT.into(), said, forgotten: Vec::new() }]
}

/// Sends these messages of Ada, who may have sent them before, each with its own time.
async fn say(app: &TestApp, numbers: impl IntoIterator<Item = i64>) {
    for n in numbers {
        app.handle_as_time_passes(private(42, n, &format!("message {n}"))).await;
    }
}

/// Copies the data directory of `app`, which is idle, as a crash leaves it.
fn image(app: &TestApp) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(app.data_dir(), dir.path());
    dir
}

/// A power cut loses the end of what was written last: of the log of the database any part.
#[tokio::test]
async fn a_log_that_is_cut_anywhere_leaves_a_prefix_that_redeliveries_complete() {
    let app = TestApp::start().await;
    say(&app, 1..6).await;
    let image = image(&app);
    app.finish().await;
    let wal = std::fs::metadata(image.path().join("dynamodb.db-wal")).unwrap().len();
    assert!(wal > 0);
    for tenths in [0, 3, 6, 8, 9] {
        let cut = tempfile::tempdir().unwrap();
        copy(image.path(), cut.path());
        let log = std::fs::File::options().write(true).open(cut.path().join("dynamodb.db-wal")).unwrap();
        // Not at the end of a page.
        log.set_len((wal * tenths / 10 + 777).min(wal)).unwrap();
        let app = TestApp::builder().telegram().model().on_copy_of(cut.path()).start().await;
        say(&app, 1..6).await;
        let found = settled_findings(app.data_dir(), &told(1..6)).await;
        assert_eq!(found, [""; 0], "{tenths} tenths of the log");
        app.finish().await;
    }
}

/// The queue is a file of its own, so a power cut or a copy may leave it older or newer than the table.
#[tokio::test]
async fn a_start_without_the_queue_ends_what_was_committed_and_frees_every_chat() {
    let mut app = TestApp::start().await;
    app.telegram_api().delay(Duration::from_secs(10));
    app.receive(private(42, 1, "hello")).await;
    wait_until("the reply is sent", async || !app.telegram_api().sent().is_empty()).await;
    app.hold(private(43, 1, "one")).await;
    app.stop().await;
    app.telegram_api().delay(Duration::ZERO);
    app.model().resume();
    for name in ["queue.db", "queue.db-wal", "queue.db-shm"] {
        drop(std::fs::remove_file(app.data_dir().join(name)));
    }
    app.restart().await;
    app.idle().await;
    assert_eq!(app.open_history().head(&CHAT.parse().unwrap()).await.unwrap().turn, None);
    app.handle(private(43, 2, "two")).await;
    assert_eq!(app.lines("telegram:chat:43").await[2], "2/reply assistant: You said: one\ntwo");
    app.finish().await;
}

#[tokio::test]
async fn a_clock_that_jumps_forward_and_back_loses_nothing() {
    let mut app = TestApp::start().await;
    say(&app, 1..4).await;
    // A day forward while the model is asked.
    app.hold(private(42, 4, "message 4")).await;
    app.clock().advance(24 * HOUR);
    app.model().resume();
    app.idle_as_time_passes().await;
    // An hour back, and a day: what people send now has dates before that of the newest reply.
    for (n, back) in [(5, HOUR), (6, 23 * HOUR)] {
        let now = app.clock().now().minus(back);
        app.restart_at(now).await;
        let at = now.as_millis() / 1000 - START;
        app.handle_as_time_passes(private(42, n, &format!("message {n}")).at(at)).await;
    }
    assert_eq!(settled_findings(app.data_dir(), &told(1..7)).await, [""; 0]);
    app.clock().advance(A_LIFE);
    say(&app, [7]).await;
    app.archive_everything(CHAT).await;
    assert_eq!(settled_findings(app.data_dir(), &told(1..8)).await, [""; 0]);
    app.finish().await;
}

#[tokio::test]
async fn the_second_summary_is_in_view_also_if_the_clock_was_set_back_after_the_first() {
    let mut app = TestApp::builder().set("KEEP_RECENT", "2").telegram().model().start().await;
    let started = app.clock().now();
    app.clock().advance(HOUR);
    say(&app, 1..4).await;
    app.handle_as_time_passes(private(42, 4, "/compact").command()).await;
    app.restart_at(started).await;
    say(&app, 5..8).await;
    app.handle_as_time_passes(private(42, 8, "/compact").command()).await;
    let seen = app.context(CHAT).await;
    assert_eq!(seen[0]["metadata"]["sourceRange"]["count"], 10, "{seen:#?}");
    assert_eq!(seen.len(), 3, "the summary and the last exchange");
    app.finish().await;
}

/// `data_0_1` is what the program at commit 429ac66 left when it was killed: a conversation of twelve messages over HTTP,
/// compacted and archived as they came (`CONTEXT_WINDOW=600`, `KEEP_RECENT=4`).
#[tokio::test]
async fn the_data_of_version_0_1_is_read_answered_and_archived() {
    const CHAT: &str = "http:chat:app:c1";
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/data_0_1");
    let app = TestApp::builder().model().on_copy_of(&data).at(1_795_590_110_000).start().await;
    let listed = app.history(CHAT).await;
    let said: Vec<String> = (1..13).map(|n| format!("m{n}")).collect();
    let first = ids(&listed).into_iter().filter(|id| said.contains(id)).collect::<Vec<_>>();
    assert_eq!(first, said);
    let body = json!({"userId": "ada", "messageId": "m13", "text": "message 13"});
    app.say("c1", &body).await;
    // What version 0.1 stored is still a duplicate.
    let again = "message 1 of the first version, about tea and the garden";
    let body = json!({"userId": "ada", "messageId": "m1", "text": again});
    let answer = app.post(&chat_path("c1", "messages"), APP_KEY, &body).await;
    assert_eq!(answer.body["duplicate"], true, "{answer:?}");
    app.idle().await;
    let hits = app.call(Method::GET, "/v1/chats/c1/search?q=garden", APP_KEY).await;
    assert!(!hits.body["hits"].as_array().unwrap().is_empty(), "{hits:?}");
    app.leave_the_table(CHAT).await;
    let listed = ids(&app.history(CHAT).await);
    assert_eq!(listed.iter().filter(|id| said.contains(id) || *id == "m13").count(), 13);
    let said = (1..14).map(|n| (format!("m{n}"), format!("message {n}"))).collect();
    let mut found =
        settled_findings(app.data_dir(), &[Told { chat: CHAT.into(), said, forgotten: Vec::new() }]).await;
    // Version 0.1 wrote no indexes.
    found.retain(|line| !line.ends_with(": it has no index"));
    assert_eq!(found, [""; 0]);
    app.finish().await;
}

/// A write beyond the limit on the size of files fails like one on a full disk.
#[cfg(unix)]
#[tokio::test]
async fn a_full_disk_refuses_messages_and_loses_none() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("HTTP_API_KEYS", "dev:dev:admin".to_owned()), ("REPLY_QUIET", "0".to_owned())];
    let http = loopback_client();
    let post = async |base: &str, n: usize| {
        let text = format!("message {n} {}", "words ".repeat(4000));
        let body = json!({"userId": "ada", "messageId": format!("m{n}"), "text": text});
        let request = http.post(format!("{base}/v1/chats/c1/messages")).bearer_auth("dev").json(&body);
        request.send().await.unwrap().status()
    };
    let process = Process::start_limited(dir.path(), &settings, 4096);
    let mut stored = 0;
    while post(&process.base, stored + 1).await == StatusCode::ACCEPTED {
        stored += 1;
        assert!(stored < 300, "the disk is never full");
    }
    assert!(stored > 3, "{stored}");
    assert_eq!(post(&process.base, stored + 1).await, StatusCode::SERVICE_UNAVAILABLE);
    // What is stored can be read.
    let path = format!("{}/v1/chats/c1/messages?limit=1", process.base);
    assert_eq!(http.get(path).bearer_auth("dev").send().await.unwrap().status(), StatusCode::OK);
    drop(process);

    let process = Process::start(dir.path(), &settings);
    assert_eq!(post(&process.base, stored + 1).await, StatusCode::ACCEPTED);
    let said: Vec<_> = (1..stored + 2).map(|n| (format!("m{n}"), format!("message {n} "))).collect();
    let told = [Told { chat: "http:chat:dev:c1".into(), said, forgotten: Vec::new() }];
    wait_until("all is answered", async || findings(dir.path(), &told).is_empty()).await;
    drop(process);
}
