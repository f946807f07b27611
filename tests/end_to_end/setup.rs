//! `setup`: the calls to a platform, and those that it does not make.

use annals_channel_telegram::allowed_updates;
use annals_core::command;
use annals_core::language::Language;
use annals_test_support::aws_api::AwsApi;
use annals_test_support::discord_api::{APPLICATION_ID, BOT_TOKEN, DiscordApi};
use annals_test_support::lark_api::{APP_ID, LarkApi};
use annals_test_support::telegram_api::{TOKEN, TelegramApi};
use serde_json::{Value, json};

use crate::app::TELEGRAM_SECRET;
use crate::discord;
use crate::lark;
use crate::process::{Process, program};
use crate::terminal::{beside, piped};
use crate::turns::assert_has;

pub(crate) type Settings = Vec<(&'static str, String)>;

pub(crate) fn settings(of: &[(&'static str, &str)]) -> Settings {
    of.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// Returns `settings` with this value of `name`, which counts as not set if it is empty.
fn changed(settings: &[(&'static str, String)], name: &'static str, value: &str) -> Settings {
    // The program gets the last value of a variable.
    [settings, &[(name, value.to_owned())]].concat()
}

/// Runs the program to its end, while the emulators run on.
pub(crate) async fn annals(settings: &Settings, arguments: &[&str]) -> (i32, String, String) {
    let command = program(settings, arguments);
    beside(move || piped(command, "")).await
}

pub(crate) fn bot(telegram: &TelegramApi, secret: &str) -> Settings {
    let mut bot = settings(&[("TELEGRAM_BOT_TOKEN", TOKEN), ("TELEGRAM_API_BASE", telegram.base_url())]);
    if !secret.is_empty() {
        bot.push(("TELEGRAM_WEBHOOK_SECRET", secret.to_owned()));
    }
    bot
}

#[tokio::test]
async fn setup_sets_telegram_s_webhook_secret_and_commands_and_drops_no_update() {
    let (telegram, dir) = (TelegramApi::start().await, tempfile::tempdir().unwrap());
    telegram.allow_http();
    telegram.edit(|store| store.setup.waiting = 3);
    let settings = bot(&telegram, TELEGRAM_SECRET);
    let process = Process::start(dir.path(), &settings);
    let url = format!("{}/telegram", process.base);
    for _ in 0..2 {
        let (code, out, err) = annals(&settings, &["setup", "telegram", "--url", &url]).await;
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert_eq!(
            out,
            format!(
                "bot       @annals_test_bot (7000000001)\nsecret    as TELEGRAM_WEBHOOK_SECRET has it\n\
                 webhook   {url}: 8 kinds of update, 3 waiting\ncommands  14 in the menu\n"
            )
        );
        let webhook = telegram.webhook().unwrap();
        assert_eq!((webhook.url.as_str(), webhook.secret.as_str()), (url.as_str(), TELEGRAM_SECRET));
        assert_eq!(webhook.allowed_updates, allowed_updates().collect::<Vec<_>>());
        assert_eq!(webhook.max_connections, 40);
        let menu = |language: Language| -> Vec<String> {
            command::menu(language.texts()).map(|(name, meaning)| format!("/{name}: {meaning}")).collect()
        };
        assert_eq!(telegram.menu(), menu(Language::En));
        assert_eq!(telegram.menu_in("zh"), menu(Language::Zh));
    }
    let (code, ..) = annals(&settings, &["setup", "telegram", "--url", &url, "--max-connections", "5"]).await;
    assert_eq!((code, telegram.webhook().unwrap().max_connections), (0, 5));
}

/// A bot at work is given a secret of its own. What runs goes on by the old one, and by the old webhook, until it has read
/// the new one.
#[tokio::test]
async fn a_made_secret_is_stored_first_and_used_once_what_runs_holds_it() {
    let (telegram, aws, dir) =
        (TelegramApi::start().await, AwsApi::start().await, tempfile::tempdir().unwrap());
    telegram.allow_http();
    let old = bot(&telegram, "the-old-secret");
    let process = Process::start(dir.path(), &old);
    let url = format!("{}/telegram", process.base);
    assert_eq!(annals(&old, &["setup", "telegram", "--url", &url]).await.0, 0);
    let before = telegram.webhook();

    let held = json!({"HTTP_API_KEYS": "app:s", "TELEGRAM_BOT_TOKEN": TOKEN, "other": {"kept": [1, 2]}});
    aws.create_secret("annals", &held.to_string());
    let mut settings = aws.access();
    settings.push(("TELEGRAM_API_BASE", telegram.base_url().to_owned()));
    let command = ["setup", "telegram", "--url", &url, "--secret", "annals"];
    let (code, out, err) = annals(&settings, &command).await;
    assert_eq!(code, 1);
    assert!(out.contains("secret    stored in the secret annals, beside what it held"), "{out}");
    assert!(err.contains("401") && err.contains("SecretsRevision"), "{err}");
    assert_eq!(telegram.webhook(), before, "what runs could not take what is sent with the new one");

    let versions = aws.secret("annals");
    assert_eq!(versions.len(), 2);
    let mut stored: Value = serde_json::from_str(&versions[1]).unwrap();
    let made = stored.as_object_mut().unwrap().remove("TELEGRAM_WEBHOOK_SECRET").unwrap();
    let made = made.as_str().unwrap();
    assert_eq!(stored, held, "and nothing else has changed");
    assert!(made.len() == 64 && made.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{made}");
    assert!(!format!("{out}{err}").contains(made), "it is where it belongs, and not on a screen");

    // As a deployment does.
    drop(process);
    let process = Process::start(dir.path(), &bot(&telegram, made));
    let url = format!("{}/telegram", process.base);
    let (code, out, err) =
        annals(&settings, &["setup", "telegram", "--url", &url, "--secret", "annals"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let webhook = telegram.webhook().unwrap();
    assert_eq!((webhook.url.as_str(), webhook.secret.as_str()), (url.as_str(), made));
    assert_eq!(aws.secret("annals").len(), 2, "there was one already");
}

#[tokio::test]
async fn a_secret_that_nobody_holds_is_printed_and_set_only_where_that_is_asked_for() {
    let telegram = TelegramApi::start().await;
    let settings = bot(&telegram, "");
    let url = "https://annals.invalid/telegram";
    let (code, out, err) = annals(&settings, &["setup", "telegram", "--url", url]).await;
    let secret = out.lines().find_map(|line| line.strip_prefix("  export TELEGRAM_WEBHOOK_SECRET="));
    assert!(secret.is_some_and(|secret| secret.len() == 64), "{out}");
    assert_eq!(code, 1);
    assert_has(&err, &["cannot be asked if it accepts the secret: no connection can be made to it"]);
    assert_eq!((telegram.webhook(), telegram.menu()), (None, Vec::new()));
    assert!(!err.contains("https addresses"), "{err}");
    let plain = "http://annals.invalid/telegram";
    let (_, _, err) = annals(&settings, &["setup", "telegram", "--url", plain]).await;
    assert!(err.contains("Telegram delivers to https addresses."), "{err}");

    let (code, out, _) = annals(&settings, &["setup", "telegram", "--url", url, "--anyway"]).await;
    let secret = out.lines().find_map(|line| line.strip_prefix("  export TELEGRAM_WEBHOOK_SECRET=")).unwrap();
    assert_eq!((code, telegram.webhook().unwrap().secret.as_str()), (0, secret));
}

#[tokio::test]
async fn a_setup_that_fails_changes_nothing_and_says_why() {
    let (telegram, aws, dir) =
        (TelegramApi::start().await, AwsApi::start().await, tempfile::tempdir().unwrap());
    let settings = bot(&telegram, TELEGRAM_SECRET);
    let process = Process::start(dir.path(), &settings);
    let url = format!("{}/telegram", process.base);
    let with_aws: Settings = [settings.clone(), aws.access()].concat();
    aws.create_secret("annals", &json!({ "TELEGRAM_BOT_TOKEN": "1:other-token" }).to_string());
    aws.create_secret("text", "hunter2");
    let held = ["setup", "telegram", "--url", &url, "--secret"];
    let own = ["setup", "telegram", "--url", &url];
    let of = |secret| [&held[..], &[secret]].concat();
    let (token, hook, text) = ("TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET", "the secret text");
    let elsewhere = vec!["setup", "telegram", "--url", "https://example.com/tg"];
    let cases: [(Settings, Vec<&str>, &str); 9] = [
        // Not a self-hosted Bot API server, which would accept it.
        (settings.clone(), own.to_vec(), "An HTTPS URL must be provided for webhook"),
        (changed(&with_aws, token, ""), own.to_vec(), "TELEGRAM_BOT_TOKEN is not set: @BotFather gives it"),
        (changed(&with_aws, token, "hunter2"), own.to_vec(), "must look like 123456:ABC"),
        (changed(&with_aws, token, "7:hunter2"), own.to_vec(), "(check TELEGRAM_BOT_TOKEN)"),
        (changed(&with_aws, hook, "hunter 2"), own.to_vec(), "TELEGRAM_WEBHOOK_SECRET must be 1 to 256"),
        (with_aws.clone(), of("annals"), "unset it here, or delete it from .env"),
        (with_aws.clone(), of("none"), "aws secretsmanager create-secret --name none"),
        (with_aws.clone(), of("text"), &format!("{text} is not a JSON object of settings")),
        (settings.clone(), elsewhere, "the route /telegram"),
    ];
    for (settings, arguments, expected) in cases {
        let (code, out, err) = annals(&settings, &arguments).await;
        assert!(code == 1 && err.contains(expected), "{arguments:?} {code} {out} {err}");
        let said = format!("{out}{err}");
        for secret in [TOKEN, TELEGRAM_SECRET, "hunter2", "other-token", "test-secret-access-key"] {
            assert!(!said.contains(secret), "{said}");
        }
    }
    assert_eq!((telegram.webhook(), telegram.menu()), (None, Vec::new()));
    assert_eq!((aws.secret("annals").len(), aws.secret("text").len()), (1, 1));
}

#[tokio::test]
async fn lark_is_checked_as_far_as_it_tells_and_the_rest_printed() {
    let (lark, dir) = (LarkApi::start().await, tempfile::tempdir().unwrap());
    let plain = settings(&lark::settings_of(lark.base_url()));
    let encrypted = changed(&plain, "LARK_ENCRYPT_KEY", "an-encrypt-key");
    for settings in [&plain, &encrypted] {
        let process = Process::start(dir.path(), settings);
        let url = format!("{}/lark", process.base);
        let (code, out, err) = annals(settings, &["setup", "lark", "--url", &url]).await;
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        for line in [
            &format!("app       Annals ({APP_ID})") as &str,
            &format!("address   {url} answers Lark's challenge"),
            &format!("     {url}"),
            "     im.chat.access_event.bot_p2p_chat_entered_v1     the bot can write to a person",
            "     card.action.trigger                              a button was pressed, by which a call is allowed or denied",
            "5. Create a version and publish it: permissions, events and callbacks hold from then on",
        ] {
            assert!(out.lines().any(|it| it == line), "{line}\n{out}");
        }
        // With the other key, or none, what runs does not answer Lark.
        let other = if settings == &plain { &encrypted } else { &plain };
        let (code, out, err) = annals(other, &["setup", "lark", "--url", &url]).await;
        assert!(code == 1 && out.contains("it answers 401") && err.contains("challenge"), "{out} {err}");
    }

    let command = ["setup", "lark", "--url", "https://example.com/lark"];
    let wrong = changed(&plain, "LARK_APP_SECRET", "hunter2");
    let (code, out, err) = annals(&wrong, &command).await;
    assert!(code == 1 && err.contains("app secret invalid"), "{err}");
    assert!(!format!("{out}{err}").contains("hunter2"));
    let alone = changed(&plain, "LARK_API_BASE", "http://127.0.0.1:9");
    let aws = AwsApi::start().await;
    let names = r#"'{"LARK_APP_ID": "…", "LARK_APP_SECRET": "…", "LARK_VERIFICATION_TOKEN": "…"}'"#;
    let unset = "LARK_APP_ID, LARK_APP_SECRET and LARK_VERIFICATION_TOKEN are not set";
    let unasked = "http://127.0.0.1:9 cannot be asked about the app; check LARK_API_BASE";
    for (settings, secret, wanted) in [
        (alone, &[][..], &[unasked][..]),
        (aws.access(), &["--secret", "none"], &["create-secret --name none", names]),
        (Vec::new(), &[], &[unset]),
    ] {
        let (code, _, err) = annals(&settings, &[&command[..], secret].concat()).await;
        assert_eq!(code, 1);
        assert_has(&err, wanted);
    }
}

/// The program is built without what such profiles need, and says what to run before it.
#[tokio::test]
async fn a_profile_that_signs_in_another_way_is_met_with_what_to_run() {
    let dir = tempfile::tempdir().unwrap();
    let remedy = r#"eval "$(aws configure export-credentials --format env)""#;
    let sso = [
        "sso_start_url = https://example.com/start\nsso_region = eu-central-1",
        "sso_account_id = 111122223333\nsso_role_name = Admin",
    ];
    for (name, how) in [
        ("sso", &*sso.join("\n")),
        ("process", "credential_process = /bin/false"),
        ("login", "login_session = arn:aws:iam::111122223333:user/ada"),
    ] {
        let config = dir.path().join(name);
        std::fs::write(&config, format!("[default]\nregion = eu-central-1\n{how}\n")).unwrap();
        let mut settings: Settings = vec![("AWS_CONFIG_FILE", config.to_str().unwrap().to_owned())];
        let arguments = ["setup", "lark", "--url", "https://example.com/lark", "--secret", "x"];
        let (code, out, err) = annals(&settings, &arguments).await;
        assert_eq!((code, out.as_str()), (1, ""), "{name}: {err}");
        assert!(err.starts_with("annals: the secret x cannot be read: this program cannot"), "{name}: {err}");
        assert_has(&err, &[remedy]);
        assert!(!err.contains("cargo feature"), "{name}: {err}");

        settings.push(("ANNALS_TABLE", "t".into()));
        let (code, out, err) = annals(&settings, &["doctor"]).await;
        let first = out.lines().next().unwrap();
        assert!(code == 1 && first.starts_with("fault  credentials "), "{name}: {out} {err}");
        assert_has(first, &[remedy]);
        assert_has(&out, &["there are no credentials, as said before; check ANNALS_TABLE"]);
    }
}

#[tokio::test]
async fn setup_registers_discord_s_commands_and_sets_its_addresses() {
    let (discord, dir) = (DiscordApi::start().await, tempfile::tempdir().unwrap());
    let settings = discord::settings_of(&discord);
    let process = Process::start(dir.path(), &settings);
    let url = format!("{}/discord", process.base);
    for _ in 0..2 {
        let (code, out, err) = annals(&settings, &["setup", "discord", "--url", &url]).await;
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        let app = format!("app       Annals ({APPLICATION_ID})\naddress   {url}: interactions");
        let link = format!("https://discord.com/oauth2/authorize?client_id={APPLICATION_ID}");
        assert!(out.starts_with(&app), "{out}");
        assert_has(&out, &[&link, "Message Content intent"]);
        assert!(!out.contains(BOT_TOKEN), "{out}");
    }
    let application = discord.application();
    assert_eq!(application["interactions_endpoint_url"], url);
    assert_eq!(application["event_webhooks_url"], url);
    assert_eq!(application["event_webhooks_status"], 2);
    let events = json!(["APPLICATION_AUTHORIZED", "APPLICATION_DEAUTHORIZED"]);
    assert_eq!(application["event_webhooks_types"], events);
    assert_eq!(application["integration_types_config"].as_object().unwrap().len(), 2);
    let commands = discord.commands();
    let names: Vec<&str> = commands.iter().map(|command| command["name"].as_str().unwrap()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("ask", "Answer this"));
    assert_eq!(names.len(), command::menu(Language::En.texts()).count() + 2);
}

#[tokio::test]
async fn setup_changes_nothing_at_discord_if_something_does_not_fit() {
    let (discord, dir) = (DiscordApi::start().await, tempfile::tempdir().unwrap());
    let settings = discord::settings_of(&discord);
    let other_key = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";
    let process = Process::start(dir.path(), &changed(&settings, "DISCORD_PUBLIC_KEY", other_key));
    let (here, nowhere) = (format!("{}/discord", process.base), "http://127.0.0.1:9/discord");
    for (settings, url, wanted) in [
        (&changed(&settings, "DISCORD_BOT_TOKEN", ""), here.as_str(), "DISCORD_BOT_TOKEN is not set"),
        (&changed(&settings, "DISCORD_BOT_TOKEN", "x.y.z"), &here, "check DISCORD_BOT_TOKEN"),
        (&changed(&settings, "DISCORD_APPLICATION_ID", "7"), &here, "DISCORD_APPLICATION_ID is 7"),
        (&changed(&settings, "DISCORD_PUBLIC_KEY", other_key), &here, "is not the application's public key"),
        (&settings, nowhere, "no connection can be made to it"),
        // Another application's calls are for the program.
        (&settings, &here, "must have this DISCORD_PUBLIC_KEY"),
    ] {
        let (code, out, err) = annals(settings, &["setup", "discord", "--url", url]).await;
        assert!(code == 1 && err.contains(wanted) && !err.contains(BOT_TOKEN), "{wanted}: {out}{err}");
    }
    assert!(discord.commands().is_empty());
    assert_eq!(discord.application()["interactions_endpoint_url"], Value::Null);
}
