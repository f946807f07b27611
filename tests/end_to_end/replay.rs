//! `replay`: recorded bodies, posted to the program that serves.

use std::path::Path;

use annals_core::record::Channel;
use annals_core::settings::Env;
use annals_runtime::channels;
use annals_test_support::fixtures::{all_payloads, payloads};
use serde_json::{Value, json};

use crate::process::Process;
use crate::setup::{Settings, annals};
use crate::updates::private;

fn fixtures(of: &str) -> String {
    annals_test_support::fixtures::path(of).display().to_string()
}

fn at(process: &Process, data_dir: &Path) -> Settings {
    let port = process.base.rsplit(':').next().unwrap();
    vec![("ANNALS_PORT", port.to_owned()), ("ANNALS_DATA_DIR", data_dir.to_str().unwrap().to_owned())]
}

/// A webhook event of Discord has an `event`, as those of Lark and of others have.
#[test]
fn a_recorded_body_is_of_its_own_channel_alone() {
    let all = channels::local().into_iter().map(|entry| (entry.from_env)(Env::new(&|_| None)).unwrap());
    let all: Vec<_> = all.collect();
    let owners = |body: &Value| -> Vec<Channel> {
        all.iter().filter(|one| one.is_own(body)).map(|one| one.about().channel).collect()
    };
    for channel in Channel::platforms() {
        let owned: Vec<_> =
            all_payloads(channel.as_str()).into_iter().map(|(name, body)| (owners(&body), name)).collect();
        // The others are answers of its API, and what the gateway sends.
        assert!(owned.iter().any(|(owners, _)| *owners == [channel]), "{channel}");
        for (owners, name) in owned {
            assert!(owners.iter().all(|owner| *owner == channel), "{channel} {name}: {owners:?}");
        }
    }
    let event =
        json!({"token": "x", "type": "event_callback", "event": {"type": "message"}, "event_id": "Ev1"});
    assert_eq!(owners(&event), []);
}

#[tokio::test]
async fn replay_fails_with_the_reason_if_a_body_is_refused_or_not_a_webhook() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(&dir.path().join("data"), &[]);
    let settings = at(&process, &dir.path().join("data"));
    for channel in Channel::platforms() {
        let (code, out, err) = annals(&settings, &["replay", &fixtures(channel.as_str())]).await;
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        // What the gateway sends is no webhook.
        let others = if channel == Channel::Discord { 23 } else { 0 };
        let count = payloads(channel.as_str()).len() - others;
        let wanted = format!("{count} accepted, 0 refused, 0 failed, {others} skipped\n");
        assert!(out.ends_with(&wanted), "{out}");
        let recorded = fixtures(&format!("{channel}/recorded"));
        let (code, out, err) = annals(&settings, &["replay", &recorded]).await;
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
    }

    // As that of another bot.
    let mut other = settings.clone();
    other.push(("TELEGRAM_BOT_TOKEN", "7:other".into()));
    other.push(("TELEGRAM_WEBHOOK_SECRET", "other".into()));
    let (code, out, err) = annals(&other, &["replay", &fixtures("telegram")]).await;
    assert!(code == 1 && out.ends_with("0 accepted, 30 refused, 0 failed, 0 skipped\n"), "{out}");
    let why = "30 of 30 bodies got a 401: the program that answers has another TELEGRAM_WEBHOOK_SECRET";
    assert!(err.contains(why), "{err}");

    let folder = dir.path().join("bodies");
    std::fs::create_dir(&folder).unwrap();
    let body = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = Value::from(private(7, 1, "hi")).to_string();
    let (good, notes) = (body("a.json", &good), body("notes.json", "{\"a\": 1}"));
    // A folder may hold other things; what is named is meant.
    let (code, out, err) = annals(&settings, &["replay", folder.to_str().unwrap()]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.ends_with("1 accepted, 0 refused, 0 failed, 1 skipped\n"), "{out}");
    for (paths, why) in [
        (vec![&*good, &notes], "1 of 2 bodies are no webhook of a known channel"),
        (vec![&*notes], "1 of 1 bodies are no webhook"),
    ] {
        let (code, out, err) = annals(&settings, &[&["replay"], &paths[..]].concat()).await;
        assert!(code == 1 && err.contains(why), "{out} {err}");
    }
    let (code, _, err) = annals(&settings, &["replay", &fixtures("")]).await;
    assert!(code == 1 && err.contains("folders inside a folder are not looked into"), "{err}");
}
