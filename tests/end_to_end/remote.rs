//! The commands that read a program or a stack over its HTTP API, as people type them.

use annals_test_support::http::serve;
use axum::extract::{Path, Query, RawQuery};
use axum::http::HeaderMap;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp, loopback_client};
use crate::process::{Process, program};
use crate::terminal::{beside, piped};
use crate::turns::assert_has;
use crate::updates::private;

const CHAT: &str = "telegram:chat:42";

/// Runs `annals` with these variables, in an empty folder, beside the program.
async fn annals(settings: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(settings, arguments);
    command.current_dir(dir.path());
    let printed = beside(move || piped(command, "")).await;
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing is made on this machine");
    printed
}

/// Returns the output of a command that reads from `app` and succeeds.
async fn printed(app: &TestApp, arguments: &[&str]) -> String {
    let base = app.base().to_owned() + "/";
    let there = [("ANNALS_URL", base.as_str()), ("ANNALS_KEY", OPS_KEY)];
    let (code, out, error) = annals(&there, arguments).await;
    assert_eq!((code, error.as_str()), (0, ""), "{arguments:?}");
    out
}

#[tokio::test]
async fn histories_and_chats_are_read_from_a_program_elsewhere() {
    let app = TestApp::start().await;
    for (id, text) in [(1, "hello"), (2, "two\nlines, and \u{1b}[31mred")] {
        app.handle(private(42, id, text)).await;
    }
    let history = printed(&app, &["history", CHAT]).await;
    assert!(history.starts_with("2025-11-21T22:58:41Z  Ada (42)  #1\n    hello\n"), "{history}");
    assert!(history.contains("    lines, and \u{FFFD}[31mred\n"), "{history}");
    let jsonl = printed(&app, &["history", CHAT, "--jsonl"]).await;
    let lines: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, app.history(CHAT).await);
    let context = printed(&app, &["context", CHAT]).await;
    assert!(context.contains("    hello\n") && context.contains("\n4 messages, about "), "{context}");
    let chats = printed(&app, &["chats"]).await;
    assert!(chats.starts_with("2025-11-21T22:58:42Z  telegram:chat:42  Ada"), "{chats}");
    let chats = printed(&app, &["chats", "--jsonl", "--limit", "1"]).await;
    let chats: Value = serde_json::from_str(&chats).unwrap();
    assert_eq!(chats["chatKey"], CHAT);

    // By arguments, of which the key is the more exposed.
    let (code, out, _) = annals(&[], &["history", CHAT, "--url", app.base(), "--key", OPS_KEY]).await;
    assert_eq!((code, out), (0, history));
    app.finish().await;
}

#[tokio::test]
async fn what_is_wrong_with_the_address_or_the_key_is_said() {
    let app = TestApp::builder().refusals_are_fine().start().await;
    let base = app.base();
    let other = serve(Router::new().fallback(|| async { "a web page" })).await;
    let of = |url, key| [("ANNALS_URL", url), ("ANNALS_KEY", key)];
    let (ops, wrong, app_key) = (&of(base, OPS_KEY)[..], "hunter2", of(base, APP_KEY));
    let (segment, nothing) = ("1763765921000-0123456789abcdef", "telegram:chat:404");
    let no_segment =
        "has no segment 1763765921000-0123456789abcdef: `annals archive telegram:chat:42` lists them";
    let no_url = "ANNALS_URL must be an http or https URL";
    let no_chat = ": No such chat: it has no messages, or was forgotten (404)";
    let no_records = "nothing is stored under telegram:chat:404: `annals chats` lists what is";
    for (settings, arguments, words) in [
        (&[("ANNALS_URL", base)][..], &["chats"][..], "ANNALS_KEY is not set: it is the secret of one of"),
        (&of("bot.example.com", wrong), &["chats"], no_url),
        (&[], &["history", CHAT, "--key", wrong], "--key is for the program at --url"),
        (&of(base, wrong), &["chats"], "does not accept the key (401): ANNALS_KEY must be"),
        (&app_key, &["chats"], "ANNALS_KEY may not do this at http://127.0.0.1:"),
        (ops, &["archive", CHAT, segment], no_segment),
        (&of("http://127.0.0.1:9", wrong), &["chats"], "http://127.0.0.1:9 does not answer ("),
        (&of(&other, wrong), &["chats"], "does not answer as this version of Annals does"),
        (ops, &["tail", "--chat", nothing], no_chat),
        (ops, &["export", nothing], no_records),
        (ops, &["memory", "forget", "x"], "there is no such entry; `memory list` shows each entry's id"),
        (&app_key, &["export", "--person", "telegram-42"], "ANNALS_KEY may not do this at"),
    ] {
        let (code, out, error) = annals(settings, arguments).await;
        assert_eq!((code, out.as_str()), (1, ""), "{arguments:?}: {error}");
        assert!(error.starts_with("annals: ") && error.contains(words), "{words}: {error}");
        assert!(!error.contains("hunter2") && error.lines().count() == 1, "{error}");
    }
    let (_, _, error) = annals(&[], &["chats"]).await;
    assert!(error.contains("there is no data in .annals") && error.contains("--profile"), "{error}");
    app.finish().await;
}

/// A program that uses the data directory makes no difference.
#[tokio::test]
async fn chats_are_those_of_the_data_directory_if_no_program_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path(), &[]);
    let sent = loopback_client()
        .post(format!("{}/v1/chats/hello/messages?wait=20", process.base))
        .bearer_auth("dev")
        .json(&json!({"userId": "ada", "text": "hello"}))
        .send();
    assert_eq!(sent.await.unwrap().status(), 200);
    let data_dir = [("ANNALS_DATA_DIR", dir.path().to_str().unwrap())];
    let with_program = annals(&data_dir, &["chats"]).await;
    assert_has(&with_program.1, &["  http:chat:dev:hello  hello\n"]);
    assert_eq!(with_program.0, 0);
    drop(process);
    assert_eq!(annals(&data_dir, &["chats"]).await, with_program);
    let (_, found, _) = annals(&data_dir, &["search", "http:chat:dev:hello", "hello"]).await;
    assert!(found.contains("    hello\n"), "{found}");
}

/// A profile stands for a URL and a key. The file holds keys, so nobody else may read it, and nothing of it is printed.
#[cfg(unix)]
#[tokio::test]
async fn a_profile_names_a_program_and_its_key() {
    use std::os::unix::fs::PermissionsExt;
    let app = TestApp::builder().refusals_are_fine().start().await;
    app.handle(private(42, 1, "hello")).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("annals/profiles.json");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    let config = ("XDG_CONFIG_HOME", folder.path().to_str().unwrap());
    let (_, _, error) = annals(&[config], &["chats", "--profile", "work"]).await;
    assert_has(&error, &["there is no profile \"work\"", "profiles.json has none; add {"]);
    let profiles =
        json!({"work": {"url": app.base(), "key": OPS_KEY}, "old": {"url": app.base(), "key": "hunter2"}});
    std::fs::write(&file, profiles.to_string()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, _, error) = annals(&[config], &["chats", "--profile", "work"]).await;
    assert!(code == 1 && error.contains("other users may read") && error.contains("chmod 600"), "{error}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let nowhere = ("ANNALS_URL", "http://127.0.0.1:9");
    let by_option = annals(&[config, nowhere], &["chats", "--profile", "work"]).await;
    assert!(by_option.0 == 0 && by_option.1.contains("telegram:chat:42"), "{by_option:?}");
    let work = ("ANNALS_PROFILE", "work");
    assert_eq!(annals(&[config, work], &["chats"]).await, by_option);
    for (settings, arguments, words) in [
        (&[config][..], &["chats", "--profile", "home"][..], "profiles.json has old, work"),
        (
            &[config],
            &["chats", "--profile", "old"],
            "(401): the key of profile old must be the secret of one of",
        ),
        (&[config, work, nowhere], &["chats"], "both set: unset one"),
    ] {
        let (code, out, error) = annals(settings, arguments).await;
        assert!(code == 1 && out.is_empty() && error.contains(words), "{words}: {error}");
        assert!(!error.contains("hunter2") && !error.contains(OPS_KEY), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    std::fs::write(&file, "{\"work\": {\n\"key\": \"hunter2\"}}").unwrap();
    let (_, _, error) = annals(&[config], &["chats", "--profile", "work"]).await;
    assert!(error.contains("line 2: expected") && !error.contains("hunter2"), "{error}");
    app.finish().await;
}

#[tokio::test]
async fn a_chat_and_a_person_are_exported_from_a_program_elsewhere() {
    let app = TestApp::start().await;
    app.handle(private(42, 1, "say ```js\n1\n``` please")).await;
    let of_lines = |lines: String| -> Vec<Value> {
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let messages = of_lines(printed(&app, &["export", CHAT]).await);
    assert_eq!(messages, app.history(CHAT).await);
    let page = printed(&app, &["export", CHAT, "--format", "markdown"]).await;
    assert!(page.starts_with("# Ada\n\n`telegram:chat:42`, exported 20"), "{page}");
    assert_has(&page, &["\n## Ada, 2025-11-21T22:58:41Z\n\nsay ```js\n1\n``` please\n\n## annals, "]);
    let person = of_lines(printed(&app, &["export", "--person", "telegram-42"]).await);
    assert_eq!(person[0], json!({"type": "person", "id": "telegram-42", "links": []}));
    assert_eq!(person[1]["message"], messages[0]);
    app.finish().await;
}

#[tokio::test]
async fn hits_are_printed_the_best_first() {
    type Pairs = Query<Vec<(String, String)>>;
    let search = async |Path(chat): Path<String>, Query(query): Pairs, headers: HeaderMap| {
        assert_eq!(chat, "http:chat:dev:a/b");
        assert_eq!(query, [("q".to_owned(), "red & blue".to_owned()), ("limit".to_owned(), "3".to_owned())]);
        assert_eq!(headers["authorization"], "Bearer a-key");
        let message = |id: &str, text: &str| {
            let metadata = json!({"ts": 1_763_765_921_000_i64, "userId": "ada", "kind": "normal"});
            json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}], "metadata": metadata})
        };
        let hit = |message: Value| json!({"message": message, "score": 1.5, "context": []});
        let hits = [hit(message("7", "red")), hit(message("3", "blue\u{1b}[31m"))];
        Json(json!({"hits": hits, "partial": true}))
    };
    let chats = async |RawQuery(query): RawQuery| {
        let query = query.unwrap_or_default();
        let page = |key: &str, before: Value| json!({"chats": [{"chatKey": key, "title": "Tomatoes"}], "before": before});
        let is_second = query.contains("before");
        Json(if is_second { page("c:2", Value::Null) } else { page("c:1", json!("next page")) })
    };
    let api = Router::new().route("/v1/chats/{chatId}/search", get(search)).route("/v1/chats", get(chats));
    let base = serve(api).await;
    let there = [("ANNALS_URL", base.as_str()), ("ANNALS_KEY", "a-key")];
    let command = ["search", "http:chat:dev:a/b", "red", "&", "blue", "--limit", "3"];
    let (code, out, error) = annals(&there, &command).await;
    assert_eq!((code, error.as_str()), (0, ""));
    let hits = ["7\n    red", "3\n    blue\u{FFFD}[31m"];
    let hits = hits.map(|hit| format!("2025-11-21T22:58:41Z  ada  #{hit}\n")).concat();
    let is_partial = "Not all of http:chat:dev:a/b was searched, or not every hit is shown.\n";
    assert_eq!(out, hits + is_partial);
    let (_, out, _) = annals(&there, &["chats", "tom", "--state", "waiting"]).await;
    assert_eq!(out, "  c:1  Tomatoes\n  c:2  Tomatoes\n", "all pages");
}

/// A function URL ends the answer regularly, with a line that says so.
#[tokio::test]
async fn an_export_that_breaks_off_is_an_error() {
    let lines = "{\"type\":\"person\"}\n{\"type\":\"urn:annals:problem:broken-off\",\"status\":500}\n";
    let base = serve(Router::new().route("/v1/people/{id}/export", get(async move || lines))).await;
    let there = [("ANNALS_URL", base.as_str()), ("ANNALS_KEY", "a-key")];
    let (code, out, error) = annals(&there, &["export", "--person", "telegram-42"]).await;
    assert_eq!((code, out.as_str()), (1, "{\"type\":\"person\"}\n"));
    assert!(error.contains("broke off"), "{error}");
}
