//! The program's commands beside the program that serves, as people type them: output and exit status.

use std::path::Path;

use annals_store::history::SegmentInfo;
use serde_json::Value;

use crate::app::TestApp;
use crate::memory::{memory_of, remember, user};
use crate::process::{Process, program};
use crate::terminal::piped;
use crate::updates::private;
use crate::world::copy;

const CHAT: &str = "telegram:chat:42";
/// Exit status of clap for invalid arguments.
const USAGE: i32 = 2;

fn annals(app: &TestApp, arguments: &[&str]) -> (i32, String, String) {
    piped(program(&[("ANNALS_DATA_DIR", app.data_dir())], arguments), "")
}

/// Returns the output of a command that succeeds.
fn printed(app: &TestApp, arguments: &[&str]) -> String {
    let (code, out, errors) = annals(app, arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}");
    out
}

/// Returns the exit code and the message of a command that fails.
fn refused(app: &TestApp, arguments: &[&str]) -> (i32, String) {
    let (code, out, errors) = annals(app, arguments);
    assert_eq!(out, "", "{arguments:?}");
    (code, errors)
}

#[tokio::test]
async fn archive_lists_segments_and_prints_one() {
    let app = TestApp::builder().start().await;
    for (id, text) in [(1, "hello"), (2, "two\nlines, and \u{1b}[31mred")] {
        app.handle(private(42, id, text)).await;
    }
    assert_eq!(printed(&app, &["archive", CHAT]), "Nothing of telegram:chat:42 is archived.\n");
    app.archive_everything(CHAT).await;
    let info: SegmentInfo = app.open_history().segments(&CHAT.parse().unwrap()).await.unwrap().remove(0);
    let (id, bytes) = (info.id.to_string(), info.bytes);
    assert_eq!(
        printed(&app, &["archive", CHAT]),
        format!("{id}  4 records, {bytes} bytes, archived 2025-11-21T22:59:40Z\n    #1 to #2/reply\n")
    );
    assert_eq!(
        printed(&app, &["archive", CHAT, &id]),
        "2025-11-21T22:58:41Z  Ada (42)  #1\n    hello\n\
         2025-11-21T22:58:41Z  annals  #1/reply\n    hello\n\
         2025-11-21T22:58:42Z  Ada (42)  #2\n    two\n    lines, and \u{FFFD}[31mred\n\
         2025-11-21T22:58:42Z  annals  #2/reply\n    two\n    lines, and \u{FFFD}[31mred\n"
    );
    let jsonl = printed(&app, &["archive", CHAT, &id, "--jsonl"]);
    let lines: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, app.history(CHAT).await, "one message a line, as it is listed");

    let unknown = "1763765921000-0123456789abcdef";
    assert_eq!(
        refused(&app, &["archive", CHAT, unknown, "--jsonl"]),
        (1, format!("annals: {CHAT} has no segment {unknown}: `annals archive {CHAT}` lists them\n"))
    );
    let none = format!("annals: telegram:chat:43 has no segment {id}: ");
    for (arguments, code, told) in [
        (&["archive", "telegram:chat:43", &id][..], 1, none.as_str()),
        (&["archive", CHAT, "../head"], 1, "../head"),
        (&["archive", "nowhere"], 1, "annals: \"nowhere\" is not a chat key: expected one of"),
        (&["archive", CHAT, "--jsonl"], USAGE, "<SEGMENT>"),
    ] {
        let (exit, error) = refused(&app, arguments);
        let is_told = if told.starts_with("annals") { error.starts_with(told) } else { error.contains(told) };
        assert!(exit == code && is_told, "{arguments:?}: {error}");
    }
    app.finish().await;
}

#[tokio::test]
async fn memory_lists_sets_and_forgets() {
    let app = TestApp::builder().start().await;
    let owner = user("telegram-42");
    remember(&app, &owner, CHAT, &["Likes tea.", "Lives in\u{1b}[31m Bergen."]).await;
    let group = "telegram:chat:-7".parse().unwrap();
    remember(&app, &annals_core::memory::Owner::Chat(group), "telegram:chat:-7", &["Meets on Mondays."])
        .await;
    let kept = memory_of(&app).list(&owner).await.unwrap();
    let ids: Vec<String> = kept.iter().map(|kept| kept.id().to_string()).collect();
    let entry = |number: usize, text: &str| {
        let id = &ids[number - 1];
        format!("{number}. fact  2025-11-21T22:59:40Z  {id}\n    {text}\n    from {CHAT}, messages 1 to 9\n")
    };
    let list = || printed(&app, &["memory", "list", "--user", "telegram-42"]);
    assert_eq!(list(), entry(1, "Likes tea.") + &entry(2, "Lives in[31m Bergen."));
    let of_group = printed(&app, &["memory", "list", "--chat", "telegram:chat:-7"]);
    assert!(of_group.starts_with("1. fact  2025-11-21T22:59:40Z  "), "{of_group}");
    assert!(of_group.contains("\n    Meets on Mondays.\n"), "{of_group}");
    let none = printed(&app, &["memory", "list", "--user", "telegram-43"]);
    assert_eq!(none, "Nothing is remembered of user telegram-43.\n");

    // The time of a correction is the system's.
    let set = printed(&app, &["memory", "set", &ids[0], "Likes coffee."]);
    let corrected = set.strip_prefix(&entry(1, "Likes coffee.")).unwrap_or_else(|| panic!("{set}"));
    assert!(corrected.starts_with("    corrected 20") && corrected.ends_with("Z\n"), "{corrected}");
    assert_eq!(list(), set + &entry(2, "Lives in[31m Bergen."));
    assert_eq!(printed(&app, &["memory", "forget", &ids[0]]), "Forgotten.\n");
    assert_eq!(list(), entry(2, "Lives in[31m Bergen."));

    let none = "annals: there is no such entry; `memory list` shows each entry's id\n";
    for (arguments, code, told) in [
        (&["memory", "set", &ids[0], "x"][..], 1, none),
        (&["memory", "forget", &ids[0]], 1, none),
        (&["memory", "forget", "nothing"], 1, none),
        (&["memory", "list", "--user", "a", "--chat", "b"], USAGE, "Usage: annals memory"),
        (&["memory", "list"], USAGE, "Usage: annals memory"),
        (&["memory", "set", &ids[1]], USAGE, "Usage: annals memory"),
    ] {
        let (exit, error) = refused(&app, arguments);
        let is_told = if code == USAGE { error.contains(told) } else { error == told };
        assert!(exit == code && is_told, "{arguments:?}: {error}");
    }
    assert_eq!(list(), entry(2, "Lives in[31m Bergen."));
    app.finish().await;
}

/// Runs `annals` in `folder`, with these variables.
fn run_in(folder: &Path, settings: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String) {
    let mut command = program(settings, arguments);
    command.current_dir(folder);
    piped(command, "")
}

/// Writes noise over a database of `data`, and removes its log.
fn damage(data: &Path, name: &str) {
    for log in ["-wal", "-shm"] {
        drop(std::fs::remove_file(data.join(format!("{name}{log}"))));
    }
    std::fs::write(data.join(name), "noise".repeat(1000)).unwrap();
}

#[tokio::test]
async fn damaged_files_are_named_with_a_remedy_and_a_damaged_queue_keeps_nobody_from_reading() {
    let mut app = TestApp::builder().start().await;
    app.handle(private(42, 1, "hello")).await;
    app.stop().await;
    let data = tempfile::tempdir().unwrap();
    copy(app.data_dir(), data.path());
    app.finish().await;
    let here = [("ANNALS_DATA_DIR", data.path().to_str().unwrap()), ("ANNALS_PORT", "0")];
    damage(data.path(), "queue.db");
    let (code, out, error) = run_in(data.path(), &here, &["export", CHAT]);
    assert!(code == 0 && out.contains("hello"), "{out}{error}");
    let (code, _, error) = run_in(data.path(), &here, &[]);
    let remedy = "move queue.db, queue.db-wal and queue.db-shm away and start again";
    assert!(code == 1 && error.contains(remedy), "{error}");
    damage(data.path(), "dynamodb.db");
    let (code, _, error) = run_in(data.path(), &here, &["export", CHAT]);
    let remedy = "dynamodb.db is damaged: stop Annals, move the whole data directory aside";
    assert!(code == 1 && error.contains(remedy) && !error.contains("feature"), "{error}");
}

#[test]
fn settings_are_read_from_a_file_and_the_environment_wins() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(".env");
    std::fs::write(&file, "# A comment\nexport MODEL=nobody:x\nANNALS_USER=\"from the file\"\n").unwrap();
    let (code, found, errors) = run_in(dir.path(), &[], &["doctor"]);
    assert_eq!(code, 1, "{errors}");
    assert!(found.contains("fault  settings             MODEL must be"), "{found}");
    // An empty variable counts as not set, but is one of the environment.
    for model in ["echo", ""] {
        let (_, found, _) = run_in(dir.path(), &[("MODEL", model)], &["doctor"]);
        assert!(found.contains("ok     settings             MODEL echo"), "{found}");
    }

    std::fs::write(&file, "MODEL=echo\nTELEGRAM_BOT_TOKEN 1:hunter2\n").unwrap();
    let (code, printed, errors) = run_in(dir.path(), &[], &["history", CHAT]);
    assert_eq!((code, printed.as_str()), (1, ""));
    assert!(errors.starts_with("annals: .env, line 2: expected NAME=value"), "{errors}");
    assert!(!errors.contains("hunter2"), "{errors}");
}

#[test]
fn the_greeting_ends_with_the_address_and_names_the_file_of_settings() {
    let dir = tempfile::tempdir().unwrap();
    let started = Process::start(&dir.path().join("data"), &[]);
    assert!(!started.printed.iter().any(|line| line.contains(".env")), "{:?}", started.printed);
    let at = started.printed.iter().position(|line| line.starts_with("Annals answers at")).unwrap();
    let last = &started.printed[at..];
    assert!(last.len() <= 12 && last.iter().all(|line| line.len() <= 200), "{last:#?}");
    assert!(last.contains(&format!("  console  {}/", started.base)), "{last:#?}");
    assert!(last.contains(&format!("  outbox   {}/local/outbox", started.base)), "{last:#?}");
    drop(started);
    std::fs::write(dir.path().join(".env"), "MODEL=openai:from-the-file\nMODEL_API_KEY=k\n").unwrap();
    let started = Process::start_in(dir.path(), &dir.path().join("data"));
    let lines = &started.printed;
    assert!(lines.contains(&"  settings from .env and the environment".to_owned()), "{lines:?}");
    assert!(lines.contains(&"  model    openai:from-the-file".to_owned()), "{lines:?}");
}

#[test]
fn a_misspelt_setting_is_reported_at_the_start_and_by_the_doctor() {
    let dir = tempfile::tempdir().unwrap();
    let usual = [("PATH", "/bin"), ("MODE", "x"), ("LANG", "C"), ("NODE_ENV", "test"), ("LINES", "24")];
    let warnings = [
        "ANNALS_PROT is set, which is not a setting: did you mean ANNALS_PORT?",
        "MODLE is set, which is not a setting: did you mean MODEL?",
    ];
    let set = [&usual[..], &[("MODLE", "openai:x"), ("ANNALS_PROT", "1")]].concat();
    let (_, _, errors) = run_in(dir.path(), &set, &["history", CHAT]);
    let expected = warnings.map(|warning| format!("annals: {warning}\n")).concat();
    assert!(errors.starts_with(&expected), "{errors}");
    let (_, found, _) = run_in(dir.path(), &set, &["doctor"]);
    for warning in warnings {
        assert!(found.contains(&format!("warn   settings             {warning}\n")), "{found}");
    }
    for arguments in [&["history", CHAT][..], &["doctor"]] {
        let (_, found, errors) = run_in(dir.path(), &usual, arguments);
        assert!(!format!("{found}{errors}").contains("did you mean"), "{found}{errors}");
    }
    // A variable of the file, too.
    std::fs::write(dir.path().join(".env"), "MODLE=echo\n").unwrap();
    let (_, _, errors) = run_in(dir.path(), &usual, &["history", CHAT]);
    assert!(errors.starts_with(&format!("annals: {}\n", warnings[1])), "{errors}");
}

#[test]
fn settings_without_effect_are_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    let links = [("RUST_LOG", "warn"), ("LINKS", "ada,telegram-42")];
    for (settings, warning, is_told) in [
        (vec![("RUST_LOG", "warn,annals_engine=loud")], "RUST_LOG is not a list of levels", true),
        (vec![("RUST_LOG", "warn,annals_engine=debug")], "RUST_LOG", false),
        (links.to_vec(), "LINKS has no effect without DM_SCOPE=user", true),
        ([&links[..], &[("DM_SCOPE", "user")]].concat(), "LINKS", false),
    ] {
        let (_, found, errors) = run_in(dir.path(), &settings, &["doctor"]);
        assert_eq!(format!("{found}{errors}").contains(warning), is_told, "{settings:?}: {found}{errors}");
    }
}

#[test]
fn a_start_that_fails_for_a_setting_leaves_no_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&[][..], &["chat", "hello"]] {
        let settings = [("TOOLS", "s3://tools/tools.json"), ("ANNALS_PORT", "0")];
        let (code, _, errors) = run_in(dir.path(), &settings, arguments);
        assert!(code == 1 && errors.contains("TOOLS names an object of S3"), "{errors}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_invalid_argument_is_refused_with_what_it_must_be_and_the_help_names_the_settings() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, told) in [
        (&["import", "result.json", "--bot", "x"][..], "a user id at Telegram is a number"),
        (&["export", "--person", ""], "a value is required for '--person <ID>'"),
    ] {
        let (code, _, errors) = run_in(dir.path(), &[], arguments);
        assert!(code == 2 && errors.contains(told), "{errors}");
    }
    let (code, printed, _) = run_in(dir.path(), &[], &["--help"]);
    assert!(code == 0 && printed.contains("docs/settings.md"), "{printed}");
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md").exists());
}
