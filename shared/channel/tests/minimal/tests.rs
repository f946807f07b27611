//! Tests of the channel. Those of a real one have more: see "Tests" in `docs/adding-a-channel.md`.

#![allow(clippy::unwrap_used, reason = "a panic is a failure that names its line")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use annals_channel::delivery::NO_PROGRESS;
use annals_channel::testing::{
    check_rules, check_sound, draft_of, only_draft, outgoing, settings, shown, survives,
};
use annals_core::language::Language;
use annals_core::media;
use annals_core::record::Record;

use super::*;

fn config() -> PagerConfig {
    PagerConfig { secret: "s3cret".into(), token: "t0ken".into(), api_base: "http://127.0.0.1:9".into() }
}

/// Returns a client of a server that answers each connection with one of these statuses and bodies, and the requests to it.
fn serving(answers: Vec<(u16, String)>) -> (Client, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let api_base = format!("http://{}", listener.local_addr().unwrap());
    let clock = Clock::manual(Timestamp::from_secs(1_764_057_600));
    let client = Pager::client(&PagerConfig { api_base: api_base.clone(), ..config() }, &clock).unwrap();
    let serve = move |(status, body): (u16, String)| {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut chunk) = (String::new(), [0; 4096]);
        // A request with a body ends with its JSON.
        while !request.ends_with(if request.starts_with("GET") { "\r\n\r\n" } else { "}" }) {
            let length = stream.read(&mut chunk).unwrap();
            request.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
        }
        let (body, head) =
            (body.replace("<base>", &api_base), format!("HTTP/1.1 {status} -\r\nConnection: close"));
        write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        request
    };
    (client, std::thread::spawn(move || answers.into_iter().map(serve).collect()))
}

#[tokio::test]
async fn a_message_is_verified_and_read() {
    let webhook = Pager::webhook(&config(), None, settings());
    let hello = Pager::hello(1_764_057_600);
    let body = hello.to_string().into_bytes();
    assert_eq!(webhook.body_limit(&HeaderMap::new()), Err(Unverified));
    assert!(Pager::is_own(&hello));
    let ProvedCall { headers, body } = Pager::prove(&config(), &"".into(), &body).unwrap();
    let header = |(name, value): (&'static str, String)| (name.parse().unwrap(), value.parse().unwrap());
    let headers: HeaderMap = headers.into_iter().map(header).collect();
    assert_eq!(webhook.verify(&headers, b"{}").unwrap_err(), Unverified);
    let Ok(Verified::Event(event)) = webhook.verify(&headers, &body) else { panic!() };
    let events = webhook.read(event).await.unwrap();
    let draft = draft_of(&events.incoming[0]).unwrap();
    check_sound(draft);
    assert_eq!((shown(draft).as_str(), draft.asks, draft.message_id.as_str()), ("hello", true, "17"));
    let bad = json!({"from": "ada", "to": BOT, "text": "x", "id": 5});
    for call in [json!([]), json!({}), json!({"events": bad}), json!({"events": [bad, 5]})] {
        survives(&call, |call| parse(call, &settings()));
    }
    // A bad event loses no other.
    let both = parse(&json!({"events": [bad, hello["events"][0]]}), &settings()).unwrap();
    assert_eq!(both[1..], events.incoming);
}

/// Returns a call with an event of Ada in a group, which has these fields.
fn call(fields: &Value) -> Value {
    let mut event = json!({"id": "18", "from": "ada", "to": "g1", "at": 1_764_057_600});
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"events": [event]})
}

#[test]
fn each_case_follows_its_rule() {
    let cases = [
        json!({"text": "hi", "is": "message | lark:chat:g1 of ada | 1764057600000#00000000000000000018 | normal silent"}),
        json!({"text": "hi", "settings": "always", "is": "| normal asks"}),
        json!({"text": "@bot hi", "mentions": [BOT], "is": "| normal asks"}),
        json!({"text": "@bot hi", "mentions": [BOT], "isBot": true, "is": "| normal silent"}),
        json!({"text": "hi", "thread": "t1", "is": "message | lark:chat:g1:thread:t1 of ada"}),
        json!({"text": "hi", "to": BOT, "thread": "t1", "is": "message | lark:chat:ada of ada"}),
        json!({"text": "hi", "to": BOT, "settings": "user", "is": "agent:annals:user:lark-ada of ada"}),
        json!({"text": "hi", "from": null, "is": "message | lark:chat:g1 of g1"}),
        json!({"text": "hi", "from": BOT, "is": "ignored message: the bot's own message"}),
        json!({"text": "@bot /stop", "mentions": [BOT], "is": "Stop | lark:chat:g1 of ada"}),
        json!({"text": "/stop", "to": BOT, "edited": 1_764_057_605, "is": "#00000000000000000018 form 1764057605000 |"}),
        json!({"press": "y0123456789abcdef", "is": "press y0123456789abcdef by ada"}),
        json!({"press": "of another program", "is": "ignored press: a button"}),
    ];
    check_rules(&json!(cases).to_string(), call, parse);
    let picture = draft_with(&json!({"picture": "https://…"}));
    assert_eq!(shown(&picture), "[unsupported message: picture]");
}

/// Returns the draft of an event of Ada in a group, with these fields.
fn draft_with(fields: &Value) -> Draft {
    only_draft(parse(&call(fields), &settings()))
}

#[test]
fn an_id_with_a_slash_is_encoded_and_a_reply_names_it_as_the_platform_does() {
    let asked = draft_with(&json!({"id": "a/1%2F", "text": "hi"}));
    assert_eq!(asked.message_id.as_str(), "a%2F1%252F");
    let to = annals_core::testing::stored(&asked);
    let sent = body(&outgoing(&to, "Hello, Ada.", ""), "Hello, Ada.", Piece { index: 0, is_last: true });
    assert_eq!(sent["replyTo"], "a/1%2F");
}

#[test]
fn a_button_is_sent_to_the_thread_and_its_press_is_of_that_chat() {
    let to = annals_core::testing::stored(&draft_with(&json!({"thread": "t1", "text": "hi"})));
    let (tool, id, base) = ("refund".to_owned(), "0123456789abcdef".to_owned(), to.key.clone());
    let request = RequestedCall { number: None, tool, id, base, language: Language::En };
    let requests = vec![request; MAX_CALLS + 1];
    let question = "May I?";
    let reply = OutgoingReply { requests: &requests, ..outgoing(&to, "", question) };
    let sent = body(&reply, question, Piece { index: 0, is_last: true });
    assert_eq!(sent["buttons"].as_array().unwrap().len(), 2 * MAX_CALLS);
    assert_eq!((&sent["to"], &sent["thread"]), (&json!("g1"), &json!("t1")));
    let denied = call(&json!({"thread": "t1", "press": sent["buttons"][1]["press"]}));
    let pressed = parse(&denied, &settings()).unwrap();
    let [Incoming::Press(press)] = &pressed[..] else { panic!("{pressed:?}") };
    assert_eq!((&press.button, &press.by.chat), (&requests[0].button(false), &to.chat));
}

#[tokio::test]
async fn a_reply_is_kept_while_nothing_answers_and_while_the_token_is_refused() {
    let to: Record = annals_core::testing::user(0, 1);
    let reply = outgoing(&to, "Hello, Ada.", "");
    let clock = Clock::manual(Timestamp::from_secs(1_764_057_600));
    let client = Pager::client(&config(), &clock).unwrap();
    let sent = clock.advance_during(client.send(reply, 0, NO_PROGRESS)).await.0;
    assert!(matches!(sent, Err(DeliveryError::Unavailable { .. })), "{sent:?}");
    let (client, requests) = serving(vec![(401, String::new())]);
    let sent = client.send(reply, 0, NO_PROGRESS).await;
    assert!(
        matches!(&sent, Err(DeliveryError::Unavailable { reason }) if reason.contains(TOKEN)),
        "{sent:?}"
    );
    assert!(requests.join().unwrap()[0].contains("authorization: Bearer t0ken"));
}

#[tokio::test]
async fn a_file_is_loaded_from_listed_servers_alone_without_the_token() {
    let sent = draft_with(&json!({"text": "look", "file": {"id": "f1", "type": "image/png", "size": 5}}));
    assert_eq!(shown(&sent), "look\n image/png - lark:f1");
    assert!(media::image(&sent.parts[1], ABOUT.channel).is_some());
    let at = |url: &str| (200, json!({"url": url}).to_string());

    let (client, requests) = serving(vec![at("<base>/bytes"), (200, "bytes".to_owned())]);
    assert_eq!(client.fetch(&sent.parts[1], 5).await, Ok(b"bytes".to_vec()));
    let requests = requests.join().unwrap();
    assert!(requests[0].ends_with(r#"{"id":"f1"}"#) && !requests[1].contains("t0ken"), "{requests:?}");

    for url in ["http://files.pager.example/1", "https://files.pager.example.org/1", "http://127.0.0.1:9/1"] {
        let (client, _) = serving(vec![at(url)]);
        let fetched = client.fetch(&sent.parts[1], 5).await;
        assert!(matches!(fetched, Err(FileError::Gone(_))), "{url}: {fetched:?}");
    }
    for (answers, error) in
        [(vec![(401, String::new())], "unavailable"), (vec![(404, String::new())], "not given out")]
    {
        let (client, _) = serving(answers);
        let fetched = client.fetch(&sent.parts[1], 5).await.unwrap_err();
        assert!(fetched.to_string().contains(error), "{fetched}");
    }
}
