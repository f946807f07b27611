//! Attacks from outside the program: on its ports, through a tunnel, and by another user of the machine.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use annals_core::record::Channel;
use annals_test_support::model_api::ModelApi;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{loopback_client, wait_until};
use crate::process::Process;
use crate::setup::{Settings, annals, settings};
use crate::terminal::{beside, piped};

const TELEGRAM: [(&str, &str); 2] =
    [("TELEGRAM_BOT_TOKEN", "7:AAtest"), ("TELEGRAM_WEBHOOK_SECRET", "own-secret")];
/// As any well-formed signature: the engine's own server took it.
const FORGED: &str = "AWS4-HMAC-SHA256 Credential=local/20251121/us-east-1/dynamodb/aws4_request, SignedHeaders=host, \
                      Signature=0";

/// The TCP ports on which the process `id` listens, as the kernel has them.
fn ports(id: u32) -> BTreeSet<u16> {
    let sockets: BTreeSet<String> = std::fs::read_dir(format!("/proc/{id}/fd"))
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    let mut ports = BTreeSet::new();
    for of in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{id}/net/{of}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            // sl local_address rem_address st … inode; 0A is LISTEN.
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[3] == "0A" && sockets.contains(fields[9]) {
                ports.insert(u16::from_str_radix(fields[1].rsplit(':').next().unwrap(), 16).unwrap());
            }
        }
    }
    ports
}

fn port_of(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_program_listens_on_the_ports_that_it_names_and_on_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(&dir.path().join("plain"), &[]);
    assert_eq!(ports(process.id()), BTreeSet::from([port_of(&process.base)]));

    let process = Process::start_with(&dir.path().join("aws"), &[], &["aws", "--port", "0"]);
    let services =
        process.printed.iter().find_map(|line| line.strip_prefix("export AWS_ENDPOINT_URL=")).unwrap();
    assert_eq!(ports(process.id()), BTreeSet::from([port_of(&process.base), port_of(services)]));

    // A terminal's own program, while it waits for its model.
    let model = ModelApi::start().await;
    model.edit(|stored| stored.any_key = true);
    model.delay(Duration::from_secs(3));
    let mut chat = Command::new(env!("CARGO_BIN_EXE_annals"))
        .env_clear()
        .env("ANNALS_DATA_DIR", dir.path().join("chat"))
        .envs([("MODEL", "openai:test"), ("MODEL_BASE_URL", &model.base_url())])
        .args(["chat", "hello"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the model is asked", async || !model.requests().is_empty()).await;
    assert_eq!(ports(chat.id()), BTreeSet::new());
    chat.kill().unwrap();
    chat.wait().unwrap();
}

#[tokio::test]
async fn no_port_serves_the_stores_to_clients_that_do_not_sign_with_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start_with(dir.path(), &[], &["aws", "--port", "0"]);
    let client = loopback_client();
    let scan = json!({"TableName": "annals"}).to_string();
    let origin = ("Origin", "https://evil.example");
    let (forged, bearer) = (("Authorization", FORGED), ("Authorization", "Bearer dev"));
    for port in ports(process.id()) {
        let url = format!("http://127.0.0.1:{port}/");
        let call = |target| client.post(&url).header("X-Amz-Target", target).body(scan.clone());
        let requests = [
            call("DynamoDB_20120810.Scan"),
            call("DynamoDB_20120810.PutItem"),
            call("DynamoDBStreams_20120810.ListStreams"),
            client.get(format!("{url}annals?list-type=2")),
            client.put(format!("{url}annals/segments/forged")).body("{}"),
            client.request(Method::OPTIONS, &url).header("Access-Control-Request-Method", "POST"),
        ];
        let forms = [&[][..], &[origin], &[forged], &[forged, origin], &[bearer], &[bearer, origin]];
        for (request, form) in requests.iter().flat_map(|request| forms.map(|form| (request, form))) {
            let mut request = request.try_clone().unwrap();
            request = request.header("Content-Type", "application/x-amz-json-1.0");
            request = request.header("X-Amz-Date", "20251121T225841Z");
            for (name, value) in form {
                request = request.header(*name, *value);
            }
            let answer = request.send().await.unwrap();
            assert!(!answer.status().is_success(), "{port} {form:?}: {answer:?}");
            assert_eq!(answer.headers().get("access-control-allow-origin"), None, "{answer:?}");
        }
    }
    assert!(!dir.path().join("s3/annals/segments/forged").exists());
}

async fn status(client: &Client, url: &str, key: &str, headers: &[(&str, &str)]) -> StatusCode {
    let mut request = client.get(url).bearer_auth(key);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap().status()
}

#[tokio::test]
async fn with_a_real_bot_no_development_secret_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path(), &settings(&TELEGRAM));
    let (client, base) = (loopback_client(), process.base.clone());
    let key = std::fs::read_to_string(dir.path().join("api-key")).unwrap().trim().to_owned();
    let [outbox, own] = ["/local/outbox", "/v1/key"].map(|path| format!("{base}{path}"));
    // As through a tunnel of bare TCP, which adds no header.
    for url in [&outbox, &own] {
        assert_eq!(status(&client, url, "dev", &[]).await, 401, "{url}");
        assert_eq!(client.get(url).send().await.unwrap().status(), 401, "{url}");
        assert_eq!(status(&client, url, &key, &[]).await, 200, "{url}");
    }
    let event = json!({"schema": "2.0", "header": {"event_id": "e", "event_type": "x", "token": "dev-lark-token"}, "event": {}});
    let forged = client.post(format!("{base}/lark")).json(&event).send().await.unwrap();
    assert_eq!(forged.status(), 401);

    // Its name is the one that it had, so the same chats are there.
    let answer: Value = client.get(&own).bearer_auth(&key).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer, json!({"name": "dev", "admin": true}));

    // It is printed, and in no answer.
    let printed = &process.printed;
    assert!(printed.contains(&format!("  console  {base}/#key={key}")), "{printed:#?}");
    let page = client.get(&base).send().await.unwrap().text().await.unwrap();
    let files = page.split('"').filter(|part| part.starts_with("/console/"));
    let routes = ["/", "/health", "/openapi.json", "/local/outbox", "/v1/key", "/api-key", "/v1/chats"];
    for path in files.chain(routes) {
        let request = client.get(format!("{base}{path}"));
        for request in [request.try_clone().unwrap(), request.bearer_auth(&key)] {
            let answer = request.send().await.unwrap();
            assert!(!format!("{:?}", answer.headers()).contains(&key), "{path}");
            assert!(!answer.text().await.unwrap().contains(&key), "{path}");
        }
    }

    // What a tunnel adds keeps even the right key out, of all but the routes of real secrets.
    for header in
        ["CF-Connecting-IP", "Cf-Ray", "Via", "X-Forwarded-Proto", "True-Client-IP", "Tailscale-User-Login"]
    {
        for url in [&outbox, &own, &format!("{base}/")] {
            assert_eq!(status(&client, url, &key, &[(header, "x")]).await, 403, "{header} {url}");
        }
        let update =
            client.post(format!("{base}/telegram")).header(header, "x").json(&json!({"update_id": 1}));
        let update = update.header("X-Telegram-Bot-Api-Secret-Token", "own-secret");
        assert_eq!(update.send().await.unwrap().status(), 200, "{header}");
    }
    assert_eq!(status(&client, &own, &key, &[("Sec-Fetch-Site", "cross-site")]).await, 403);

    // The printed calls work as they are printed: all but that with Telegram's own secret, which is not shown.
    let calls: Vec<&String> = process.printed.iter().filter(|line| line.starts_with("curl")).collect();
    // Two of the HTTP API.
    assert_eq!(calls.len(), 2 + Channel::platforms().count(), "{calls:#?}");
    for call in calls {
        let output = Command::new("sh")
            .args(["-c", &format!("{call} --silent --fail --max-time 20")])
            .env("TELEGRAM_WEBHOOK_SECRET", "own-secret")
            .output()
            .unwrap();
        assert!(output.status.success(), "{call}\n{output:?}");
    }

    // `replay` has the same key, and it stays.
    let fixtures = annals_test_support::fixtures::path("lark").display().to_string();
    let mut replaying = settings(&TELEGRAM);
    replaying.push(("ANNALS_PORT", port_of(&base).to_string()));
    replaying.push(("ANNALS_DATA_DIR", dir.path().to_str().unwrap().to_owned()));
    let (code, out, err) = annals(&replaying, &["replay", &fixtures]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    drop(process);
    let again = Process::start(dir.path(), &settings(&TELEGRAM));
    assert_eq!(status(&client, &format!("{}/v1/key", again.base), &key, &[]).await, 200);
}

/// Returns the files in `dir` that others may access.
fn open_to_others(dir: &Path) -> Vec<String> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            open.push(format!("{mode:o} {}", path.display()));
        }
        if metadata.is_dir() {
            open.extend(open_to_others(&path));
        }
    }
    open
}

#[tokio::test]
async fn a_data_directory_that_was_open_is_closed_with_all_that_is_and_comes_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("a/data");
    let assert_closed = || {
        assert_eq!(open_to_others(&data), [""; 0]);
        assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    };
    let client = loopback_client();
    // Over 350 KB, so that it goes to S3.
    let say = async |base: &str, id: &str| {
        let body = json!({"userId": "ada", "messageId": id, "text": "long ".repeat(80_000)});
        let url = format!("{base}/v1/chats/{id}/messages?wait=20");
        let answer = client.post(url).bearer_auth("dev").json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let telegram = client.post(format!("{base}/telegram")).json(&json!({"update_id": 1, "message": {
            "message_id": 1, "date": 1_795_305_512, "text": id, "chat": {"id": 7, "type": "private", "first_name": "A"},
            "from": {"id": 7, "is_bot": false, "first_name": "A"}}}));
        let telegram =
            telegram.header("X-Telegram-Bot-Api-Secret-Token", "dev-telegram-secret").send().await.unwrap();
        assert_eq!(telegram.status(), 200);
        wait_until("the outbox is written", async || data.join("outbox.jsonl").exists()).await;
    };
    let process = Process::start_with(&data, &[], &["aws", "--port", "0"]);
    say(&process.base, "before").await;
    assert_closed();
    drop(process);
    let chmod = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut folders = vec![data.clone()];
    while let Some(folder) = folders.pop() {
        chmod(&folder, 0o755);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { chmod(&path, 0o644) }
        }
    }
    assert!(open_to_others(&data).len() > 10);

    let process = Process::start_with(&data, &[], &["aws", "--port", "0"]);
    say(&process.base, "after").await;
    assert_closed();
    let stores = ["dynamodb.db-wal", "dynamodb.db-shm", "queue.db", "s3", "outbox.jsonl"];
    for name in stores.into_iter().chain(["terminal.sock", "lock", "aws-secret-key"]) {
        assert!(data.join(name).exists(), "{name}");
    }
}

#[tokio::test]
async fn no_password_of_an_address_is_shown() {
    let secret = "hunter2-of-the-proxy";
    let nowhere = format!("http://ada:{secret}@127.0.0.1:9");
    let settings = settings(&[
        ("TELEGRAM_BOT_TOKEN", "7:AAtest"),
        ("TELEGRAM_WEBHOOK_SECRET", "own-secret"),
        ("TELEGRAM_API_BASE", &nowhere),
        ("LARK_APP_ID", "cli_1"),
        ("LARK_APP_SECRET", "s"),
        ("LARK_VERIFICATION_TOKEN", "t"),
        ("LARK_API_BASE", &nowhere),
        ("MODEL", "openai:test"),
        ("MODEL_BASE_URL", &format!("{nowhere}/v1")),
        ("MODEL_FALLBACK", "anthropic:test"),
        ("MODEL_FALLBACK_BASE_URL", &format!("{nowhere}/v1")),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let data = |mut settings: Settings, log: &str| {
        settings.push(("ANNALS_DATA_DIR", dir.path().to_str().unwrap().to_owned()));
        settings.push(("RUST_LOG", log.to_owned()));
        settings
    };
    let hides = |out: &str, err: &str| {
        let lines = [out, err].concat();
        let lines = lines.lines().filter(|line| line.contains(secret)).collect::<Vec<_>>();
        assert_eq!(lines, [""; 0]);
    };
    let settings = data(settings, "trace");
    let (_, out, err) = annals(&settings, &["doctor"]).await;
    assert!(out.contains("http://127.0.0.1:9/v1 cannot be reached"), "{out}");
    hides(&out, &err);
    let (_, out, err) = annals(&settings, &["setup", "lark", "--url", "https://bot.example/lark"]).await;
    hides(&out, &err);
    // It tries again for half a minute, and says why at the first failure.
    let mut chat = Command::new("timeout");
    chat.env_clear().envs(settings).args(["5", env!("CARGO_BIN_EXE_annals"), "chat", "hello"]);
    let (_, out, err) = beside(move || piped(chat, "")).await;
    assert!(err.contains("127.0.0.1:9"), "{err}");
    hides(&out, &err);
}
