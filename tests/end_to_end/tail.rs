//! `annals tail`: each event once and in order, over a connection that fails, and over the data directory.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use annals_io::clock::Clock;
use annals_test_support::fault_proxy::{Dice, FaultProxy, Service};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp, chat_path};
use crate::process::program;
use crate::turns::assert_has;
use crate::updates::private;

/// Longest time until an event is shown.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time in which an event would be shown again: several polls.
const QUIET: Duration = Duration::from_secs(3);

struct Tail {
    child: Child,
    lines: Receiver<String>,
}

impl Tail {
    fn start(settings: &[(&str, &str)], arguments: &[&str]) -> Self {
        let arguments = [&["tail", "--json", "--every", "1"][..], arguments].concat();
        let mut command = program(settings, &arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, events) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines: events }
    }

    /// Returns the next `count` events: kind, sender, message and text.
    fn next(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| shown(&self.lines.recv_timeout(PATIENCE).expect("an event"))).collect()
    }

    /// Ends it. Returns the events that were not expected.
    fn end(self) -> Vec<String> {
        std::iter::from_fn(|| self.lines.recv_timeout(QUIET).ok()).map(|line| shown(&line)).collect()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn shown(line: &str) -> String {
    let event: Value = serde_json::from_str(line).unwrap();
    let text = |name: &str| event[name].as_str().unwrap().to_owned();
    let parts = [text("kind"), text("who"), format!("#{}", text("messageId")), text("text")];
    parts.join(" ").trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_is_told_once_also_if_polls_fail() {
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    app.handle(private(42, 1, "before")).await;
    let dice = Dice::new(1, 0);
    let front = FaultProxy::start(Service::Model, app.base(), &dice).await;
    let tail = Tail::start(&[("ANNALS_URL", front.url()), ("ANNALS_KEY", OPS_KEY)], &["--earlier", "1"]);
    assert_eq!(tail.next(1), ["answered annals #1/reply You said: before"]);

    app.handle(private(42, 2, "hello")).await;
    let mut events = tail.next(3);
    // The platform's time of a message may be ahead of the clock's.
    events.sort();
    let answered = "answered annals #2/reply You said: hello";
    assert_eq!(events, [answered, "arrived Ada #2 hello", "delivered annals #2/reply"]);

    // More than a page, in a chat that was not seen before, while no poll gets through.
    dice.cut(true);
    Clock::system().sleep(Duration::from_secs(2)).await;
    let asked = app.model().count();
    app.model().hang();
    for n in 1..=60 {
        let body = json!({"userId": "bo", "messageId": format!("m{n:02}"), "text": format!("line {n}")});
        assert_eq!(app.post(&chat_path("new", "messages"), APP_KEY, &body).await.status, 202);
        app.model().wait_for(asked + 1).await;
    }
    app.model().resume();
    app.idle().await;
    app.telegram_api().block(42);
    app.handle(private(42, 3, "are you there?")).await;
    dice.cut(false);
    let mut events = tail.next(65);
    let of_telegram: Vec<String> = events.extract_if(.., |event| event.contains("#3")).collect();
    assert_eq!(of_telegram.len(), 3, "{of_telegram:?}");
    assert!(
        of_telegram.iter().any(|event| event.starts_with("notDelivered annals #3/reply ")),
        "{of_telegram:?}"
    );
    let arrived: Vec<&String> = events.iter().filter(|event| event.starts_with("arrived bo ")).collect();
    let wanted: Vec<String> = (1..=60).map(|n| format!("arrived bo #m{n:02} line {n}")).collect();
    assert_eq!(arrived, wanted.iter().collect::<Vec<_>>());
    assert_eq!(events.iter().filter(|event| event.starts_with("answered annals #m")).count(), 2);

    app.model().fail(9, 401);
    app.say("new", &json!({"userId": "bo", "messageId": "m61", "text": "and now?"})).await;
    let mut events = tail.next(2);
    events.sort();
    assert_eq!(events[0], "arrived bo #m61 and now?");
    assert!(events[1].starts_with("failed annals #m61/notice "), "{events:?}");
    assert_has(&events[1], &["401: check MODEL_API_KEY"]);
    assert_eq!(tail.end(), Vec::<String>::new());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_chat_is_followed_over_the_data_directory() {
    let app = TestApp::start().await;
    app.handle(private(42, 1, "before")).await;
    let dir = app.data_dir().to_str().unwrap().to_owned();
    let tail = Tail::start(&[("ANNALS_DATA_DIR", &dir)], &["--chat", "telegram:chat:42", "--earlier", "1"]);
    assert_eq!(tail.next(1), ["answered annals #1/reply You said: before"]);
    app.handle(private(43, 1, "elsewhere")).await;
    app.handle(private(42, 2, "/help")).await;
    let events = tail.next(2);
    assert!(events.contains(&"arrived Ada #2 /help".to_owned()), "{events:?}");
    assert!(events.iter().any(|event| event.starts_with("answered annals #2/notice ")), "{events:?}");
    // An operator's message is told once, as what the person gets.
    let path = chat_path("telegram:chat:42", "send");
    app.post(&path, OPS_KEY, &json!({"messageId": "o1", "text": "Ada, this is Nora."})).await;
    let mut events = tail.next(2);
    events.sort();
    assert_eq!(events, ["answered ops #o1/reply Ada, this is Nora.", "delivered ops #o1/reply"]);
    // So is that an operator takes the chat over and hands it back.
    let takeover = chat_path("telegram:chat:42", "takeover");
    app.call(Method::PUT, &takeover, OPS_KEY).await;
    app.call(Method::DELETE, &takeover, OPS_KEY).await;
    let events = tail.next(2);
    let kinds: Vec<_> = events.iter().map(|event| event.split(" #").next().unwrap()).collect();
    assert_eq!(kinds, ["takenOver ops", "handedBack ops"], "{events:?}");
    assert_eq!(tail.end(), Vec::<String>::new());
    app.finish().await;
}
