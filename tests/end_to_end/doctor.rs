//! `doctor`: reports a healthy stack as healthy, and each fault with its remedy, without hiding another check.

use annals_core::record::Channel;
use annals_test_support::aws_api::{Account, AwsApi, BUCKET, DEAD_LETTERS, QUEUE, TABLE};
use annals_test_support::discord_api::{APPLICATION_ID, BOT_TOKEN, DiscordApi, public_key};
use annals_test_support::lark_api::{APP_ID, APP_SECRET, LarkApi};
use annals_test_support::model_api::{self, ModelApi};
use annals_test_support::telegram_api::{TOKEN, TelegramApi};
use serde_json::{Value, json};

use crate::app::loopback_client;
use crate::discord::settings_of;
use crate::process::Process;
use crate::setup::{Settings, annals, bot, settings};

const SECRET: &str = "a-webhook-secret";

/// A deployed bot with everything, and what it talks to.
struct Stack {
    aws: AwsApi,
    telegram: TelegramApi,
    lark: LarkApi,
    discord: DiscordApi,
    model: ModelApi,
    /// Answers in the place of the functions.
    _process: Process,
    _dir: tempfile::TempDir,
}

impl Stack {
    async fn start() -> Self {
        let (aws, telegram, lark, model) =
            tokio::join!(AwsApi::start(), TelegramApi::start(), LarkApi::start(), ModelApi::start());
        let discord = DiscordApi::start().await;
        telegram.allow_http();
        aws.create_secret(
            "annals",
            &json!({
                "HTTP_API_KEYS": "app:an-api-secret", "TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_WEBHOOK_SECRET": SECRET,
                "LARK_APP_ID": APP_ID, "LARK_APP_SECRET": APP_SECRET, "LARK_VERIFICATION_TOKEN": "a-verification-token",
                "LARK_ENCRYPT_KEY": "an-encrypt-key", "DISCORD_APPLICATION_ID": APPLICATION_ID,
                "DISCORD_PUBLIC_KEY": public_key(), "DISCORD_BOT_TOKEN": BOT_TOKEN, "MODEL_API_KEY": model_api::API_KEY,
            })
            .to_string(),
        );
        let dir = tempfile::tempdir().unwrap();
        let mut bot = bot(&telegram, SECRET);
        bot.extend(settings_of(&discord));
        let process = Process::start(dir.path(), &bot);
        for channel in ["telegram", "discord"] {
            let url = format!("{}/{channel}", process.base);
            assert_eq!(annals(&bot, &["setup", channel, "--url", &url]).await.0, 0);
        }
        Self { aws, telegram, lark, discord, model, _process: process, _dir: dir }
    }

    fn settings(&self) -> Settings {
        let mut settings = [self.aws.access(), self.aws.stack()].concat();
        settings.extend([
            ("ANNALS_SECRETS", "annals".to_owned()),
            ("TELEGRAM_API_BASE", self.telegram.base_url().to_owned()),
            ("LARK_API_BASE", self.lark.base_url().to_owned()),
            ("DISCORD_API_BASE", self.discord.base_url().to_owned()),
            ("MODEL", "openai:test".into()),
            ("MODEL_BASE_URL", self.model.base_url()),
        ]);
        settings
    }

    /// Returns the doctor's lines, and checks that they contain no secret.
    async fn lines(&self, settings: &Settings) -> (i32, Vec<String>) {
        let (code, out, err) = annals(settings, &["doctor"]).await;
        let said = format!("{out}{err}");
        let own =
            ["an-api-secret", "a-verification-token", "an-encrypt-key", "test-secret-access-key", "\x1b["];
        let secrets = own.into_iter().chain([TOKEN, SECRET, APP_SECRET, BOT_TOKEN, model_api::API_KEY]);
        assert!(secrets.into_iter().all(|secret| !said.contains(secret)), "{said}");
        (code, out.lines().map(str::to_owned).collect())
    }

    /// Asserts that the doctor finds one fault: in `check`, reported in these words.
    async fn assert_fault(&self, settings: &Settings, check: &str, words: &str) {
        let (code, lines) = self.lines(settings).await;
        let faults = faults(&lines);
        let [fault] = faults[..] else { panic!("not one fault in {check} ({words}): {faults:#?}") };
        assert!(code == 1 && fault.starts_with(check) && fault.contains(words), "{check}, {words}: {fault}");
    }
}

fn faults(lines: &[String]) -> Vec<&str> {
    lines.iter().filter_map(|line| line.strip_prefix("fault  ")).collect()
}

#[tokio::test]
async fn a_healthy_stack_is_reported_as_healthy() {
    let stack = Stack::start().await;
    let (code, lines) = stack.lines(&stack.settings()).await;
    assert_eq!((code, faults(&lines)), (0, vec![]));
    let checks: Vec<&str> = lines.iter().map(|line| line[7..27].trim_end()).collect();
    let (table, bucket, queue) =
        (format!("table {TABLE}"), format!("bucket {BUCKET}"), format!("queue {QUEUE}"));
    let is_fine = |line: &String| line.starts_with("ok     ") || line.starts_with("-      discord relay ");
    assert!(lines.iter().all(is_fine), "{lines:#?}");
    let expected = format!(
        "settings, {table}, table index, table expiry, table backups, table billing, table deletion, \
         {}, bucket access, {}, queue throughput, queue visibility, queue dead letters, \
         telegram bot, telegram webhook, telegram deliveries, telegram address, lark app, lark events, \
         discord app, discord address, discord commands, discord intent, discord relay, model, \
         clock, clock, clock, clock, clock",
        &bucket[..20],
        &queue[..20]
    );
    assert_eq!(checks.join(", "), expected);
    assert_eq!(stack.model.count(), 0, "the model is asked nothing");
}

fn queue<'a>(account: &'a mut Account, name: &str) -> &'a mut Value {
    account.queues.get_mut(name).unwrap()
}

fn index(account: &mut Account) -> &mut Value {
    &mut account.table["GlobalSecondaryIndexes"][0]
}

/// Takes an attribute off the queue.
fn unset(account: &mut Account, attribute: &str) {
    queue(account, QUEUE).as_object_mut().unwrap().remove(attribute);
}

/// Each fault of the stack: what is changed, which check says so, and what it says.
#[tokio::test]
async fn each_fault_of_the_stack_is_reported_alone_with_its_remedy() {
    type Change = fn(&mut Account);
    let cases: &[(Change, &str, &str)] = &[
        (
            |a| a.table["KeySchema"][1]["AttributeName"] = "id".into(),
            "table annals-Table-1",
            "its keys are not pk and sk",
        ),
        (|a| a.table["TableStatus"] = "UPDATING".into(), "table annals-Table-1", "is UPDATING: wait"),
        (|a| a.table["GlobalSecondaryIndexes"] = json!([]), "table index", "there is no index due"),
        (|a| index(a)["Projection"]["ProjectionType"] = "ALL".into(), "table index", "there is no index due"),
        (|a| index(a)["IndexStatus"] = "CREATING".into(), "table index", "is being built"),
        (
            |a| a.expiry = json!({"TimeToLiveStatus": "DISABLED"}),
            "table expiry",
            "until GraceUsed is 0; else archived records stay and cost: aws dynamodb update-time-to-live",
        ),
        (|a| a.expiry["AttributeName"] = "ttl".into(), "table expiry", "by ttl, not by expiresAt"),
        (
            |a| a.denied.push("DescribeTimeToLive"),
            "table expiry",
            "the credentials need dynamodb:DescribeTimeToLive",
        ),
        (|a| a.recovery = "DISABLED", "table backups", "aws dynamodb update-continuous-backups"),
        (|a| a.table["BillingModeSummary"] = json!(null), "table billing", "--billing-mode PAY_PER_REQUEST"),
        (
            |a| a.table["DeletionProtectionEnabled"] = false.into(),
            "table deletion",
            "--deletion-protection-enabled",
        ),
        (|a| a.blocks = None, "bucket access", "aws s3api put-public-access-block"),
        (|a| a.blocks = Some([true, true, false, true]), "bucket access", "may be opened to the public"),
        (|a| a.denied.push("GetBucketPublicAccessBlock"), "bucket access", "s3:GetBucketPublicAccessBlock"),
        (|a| a.denied.push("ListBucket"), "bucket annals-bucket-1", "s3:ListBucket"),
        (|a| unset(a, "FifoQueue"), "queue annals-Queue-1.fifo", "not FIFO"),
        (|a| queue(a, QUEUE)["DeduplicationScope"] = "queue".into(), "queue throughput", "300 turns"),
        (
            |a| queue(a, QUEUE)["VisibilityTimeout"] = "300".into(),
            "queue visibility",
            "VisibilityTimeout=360",
        ),
        (|a| unset(a, "RedrivePolicy"), "queue dead letters", "there is no queue for them"),
        (|a| drop(a.queues.remove(DEAD_LETTERS)), "queue dead letters", "or deploy infra/template.yaml"),
        (
            |a| queue(a, DEAD_LETTERS)["ApproximateNumberOfMessages"] = "2".into(),
            "queue dead letters",
            "2 turns that failed 25 times",
        ),
        (|a| a.denied.push("GetQueueAttributes"), "queue annals-Queue-1.fifo", "sqs:GetQueueAttributes"),
    ];
    let stack = Stack::start().await;
    let settings = stack.settings();
    for (change, check, words) in cases {
        let aws = AwsApi::start().await;
        aws.create_secret("annals", stack.aws.secret("annals").last().unwrap());
        aws.edit(change);
        // The last value of a variable counts.
        let settings = [settings.clone(), aws.access(), aws.stack()].concat();
        stack.assert_fault(&settings, check, words).await;
    }
}

#[tokio::test]
async fn in_a_chinese_locale_the_same_is_found_and_told_in_chinese() {
    let stack = Stack::start().await;
    let mut settings = stack.settings();
    settings.push(("MODEL_API_KEY", "another-one".into()));
    let (_, english) = stack.lines(&settings).await;
    settings.push(("LANG", "zh_CN.UTF-8".into()));
    let (code, chinese) = stack.lines(&settings).await;
    let start = |lines: &[String]| lines.iter().map(|line| line[..27].to_owned()).collect::<Vec<_>>();
    assert_eq!(start(&chinese), start(&english));
    let is_han = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
    let same: Vec<&str> =
        chinese.iter().filter(|line| !line.contains(is_han)).map(|line| line[7..27].trim_end()).collect();
    assert_eq!(same, ["telegram bot", "discord app", "discord address"], "{chinese:#?}");
    let fault = faults(&chinese).into_iter().find(|fault| fault.starts_with("model")).unwrap();
    assert!(code == 1 && fault.ends_with("拒绝了请求（401）：请检查 MODEL_API_KEY"), "{fault}");
    // `LANGUAGE` goes before the locale.
    settings.push(("LANGUAGE", "en".into()));
    assert_eq!(stack.lines(&settings).await.1, english);
}

#[tokio::test]
async fn each_fault_of_a_channel_model_or_clock_is_reported_alone() {
    let stack = Stack::start().await;
    let with = |name, value: &str| [stack.settings(), settings(&[(name, value)])].concat();
    let (_, lines) = stack.lines(&with("GROUP_ACTIVATION", "always")).await;
    let is_intent = |fault: &&str| fault.contains("turn on the Message Content intent");
    assert!(faults(&lines).iter().any(is_intent), "{lines:#?}");
    stack.discord.edit(|store| store.flags |= 1 << 19);
    let nowhere = "http://127.0.0.1:9";
    let cases = [
        (with("ANNALS_TABLE", "other"), "table other", "ResourceNotFoundException"),
        (with("ANNALS_BUCKET", "other"), "bucket other", "check ANNALS_BUCKET"),
        (with("KEEP_RECENT", "0"), "settings", "KEEP_RECENT is 0"),
        (with("ARCHIVE_GRACE", "soon"), "settings", "ARCHIVE_GRACE must be a duration"),
        (with("GROUP_ACTIVATION", "always"), "telegram bot", "/setprivacy"),
        (
            with("TELEGRAM_WEBHOOK_SECRET", "another-one"),
            "telegram address",
            "cargo run -- setup telegram --url",
        ),
        (with("LARK_APP_SECRET", "another-one"), "lark app", "app secret invalid"),
        (with("LARK_API_BASE", nowhere), "lark app", "no connection"),
        (with("DISCORD_API_BASE", nowhere), "discord app", "check DISCORD_API_BASE"),
        (with("MODEL_API_KEY", "another-one"), "model", "check MODEL_API_KEY"),
        (with("MODEL_BASE_URL", nowhere), "model", "check MODEL_BASE_URL"),
    ];
    for (settings, check, words) in cases {
        stack.assert_fault(&settings, check, words).await;
    }

    let (code, lines) = stack.lines(&with("MODEL", "openai:unknown")).await;
    let warning = lines.iter().find(|line| line.starts_with("warn   model ")).unwrap();
    assert!(code == 0 && warning.contains("does not list the model"), "{lines:#?}");

    // Long ago and with nothing waiting, it is over.
    let failure = (1_763_765_920, "Wrong response from the webhook: 401 Unauthorized");
    stack.telegram.edit(|store| store.setup.failure = Some(failure));
    let (code, lines) = stack.lines(&stack.settings()).await;
    assert_eq!((code, faults(&lines)), (0, vec![]));
    stack.telegram.edit(|store| store.setup.waiting = 2);
    let waiting = "2 updates wait; the last failure, 2025-11-21T22:58:40Z: Wrong response from the";
    stack.assert_fault(&stack.settings(), "telegram deliveries", waiting).await;
    stack.telegram.edit(|store| store.setup.waiting = 0);
    stack.telegram.edit(|store| store.date = Some("Fri, 21 Nov 2025 22:58:40 GMT"));
    let ahead = "ahead of 127.0.0.1: set the system's clock";
    stack.assert_fault(&stack.settings(), "clock", ahead).await;
    stack.discord.edit(|store| store.refuses_token = true);
    let (_, lines) = stack.lines(&stack.settings()).await;
    let [discord, clock] = faults(&lines)[..] else { panic!("{lines:#?}") };
    assert!(discord.starts_with("discord app ") && discord.contains("check DISCORD_BOT_TOKEN"), "{discord}");
    assert!(clock.starts_with("clock "), "{clock}");
}

#[tokio::test]
async fn a_webhook_at_which_nothing_listens_is_not_called_one_that_does_not_take_the_secret() {
    let telegram = TelegramApi::start().await;
    telegram.allow_http();
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().to_str().unwrap();
    let mut bot = bot(&telegram, SECRET);
    bot.extend(settings(&[("ANNALS_DATA_DIR", data_dir), ("ANNALS_PORT", "9")]));
    let url = "http://127.0.0.1:9/telegram";
    assert_eq!(annals(&bot, &["setup", "telegram", "--url", url, "--anyway"]).await.0, 0);
    // What is wrong elsewhere is said there alone.
    bot.push(("SESSION_STALE_AFTER", "x".into()));
    bot.push(("MODEL", "echo".into()));
    let (code, out, _) = annals(&bot, &["doctor"]).await;
    let address = out.lines().find(|line| line.contains("telegram address")).unwrap();
    let told = format!("{url}, where Telegram sends updates: no connection can be made to it: start");
    assert!(
        code == 1 && address.contains(&told) && !address.contains("TELEGRAM_WEBHOOK_SECRET"),
        "{address}"
    );
    assert!(out.contains("-      model                not checked until the settings are valid"), "{out}");
    assert!(!out.contains("MODEL is not set"), "{out}");
}

#[tokio::test]
async fn all_checks_are_made_even_if_nothing_answers() {
    let nowhere = "http://127.0.0.1:9";
    let settings = settings(&[
        ("ANNALS_TABLE", "t"),
        ("ANNALS_BUCKET", "b"),
        ("ANNALS_QUEUE_URL", "http://127.0.0.1:9/1/q.fifo"),
        ("ANNALS_SECRETS", "annals"),
        ("AWS_ENDPOINT_URL", nowhere),
        ("AWS_MAX_ATTEMPTS", "1"),
        ("AWS_REGION", "eu-central-1"),
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
        ("TELEGRAM_BOT_TOKEN", TOKEN),
        ("TELEGRAM_WEBHOOK_SECRET", SECRET),
        ("TELEGRAM_API_BASE", nowhere),
        ("MODEL", "openai:test"),
        ("MODEL_BASE_URL", nowhere),
    ]);
    let (code, out, err) = annals(&settings, &["doctor"]).await;
    let lines: Vec<String> = out.lines().map(str::to_owned).collect();
    let faults: Vec<&str> = faults(&lines).iter().map(|fault| fault[..20].trim_end()).collect();
    let expected =
        ["secrets", "table t", "bucket b", "queue q.fifo", "telegram bot", "telegram webhook", "model"];
    assert_eq!((code, faults), (1, expected.to_vec()), "{out}");
    assert_eq!(err, "annals: 7 faults\n");
    assert_eq!(out.matches("; check TELEGRAM_API_BASE and the network").count(), 2, "{out}");
    assert!(out.contains("-      clock") && !out.contains(TOKEN), "{out}");
}

#[tokio::test]
async fn on_this_machine_the_data_directory_and_the_program_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("data");
    let at = |port: &str| settings(&[("ANNALS_DATA_DIR", own.to_str().unwrap()), ("ANNALS_PORT", port)]);
    let (code, out, _) = annals(&at("9"), &["doctor"]).await;
    let lines: Vec<String> = out.lines().map(str::to_owned).collect();
    let [program, data] = faults(&lines)[..] else { panic!("{out}") };
    assert_eq!(code, 1);
    assert!(program.ends_with("does not answer at http://127.0.0.1:9: start it with cargo run"), "{out}");
    assert!(data.contains("there is no data in"), "{out}");
    assert!(!own.exists(), "the doctor has made the directory");

    let process = Process::start(&own, &[]);
    let port = process.base.rsplit(':').next().unwrap();
    // No proxy is asked for this machine.
    let proxied = [at(port), settings(&[("http_proxy", "http://127.0.0.1:9")])].concat();
    let (code, out, err) = annals(&proxied, &["doctor"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let platforms = Channel::platforms().map(|channel| format!("{} not set up, ", channel.title()));
    let platforms = platforms.collect::<Vec<_>>().concat();
    for line in [
        &*format!("ok     settings             MODEL echo, {platforms}the development API key"),
        &format!("ok     program              answers at {}", process.base),
        &format!("ok     data                 {}", own.display()),
        "ok     table annals         active, with pk and sk",
        "ok     table index          due, active",
        "ok     queue                0 chats wait for an answer",
        "-      telegram             not set up",
        "ok     model                echo, which needs nothing",
    ] {
        assert!(out.lines().any(|it| it == line), "{line}\n{out}");
    }

    let disk = out.lines().find(|line| line.starts_with("ok     disk")).unwrap_or_else(|| panic!("{out}"));
    assert!(disk.ends_with("B free; a file was written and read"), "{disk}");
    let mut files = std::fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!files.any(|name| name.to_string_lossy().starts_with("doctor")), "it deletes its file");

    // The program's own checks delete no file of a put that is under way.
    let put = own.join("s3/.tmp.9.internal.part");
    std::fs::write(&put, "").unwrap();
    let status = loopback_client().get(format!("{}/local/status", process.base)).bearer_auth("dev").send();
    assert_eq!(status.await.unwrap().status(), 200);
    assert!(put.exists());

    // It serves no other directory.
    let other = dir.path().join("other");
    drop(Process::start(&other, &[]));
    let settings = settings(&[("ANNALS_DATA_DIR", other.to_str().unwrap()), ("ANNALS_PORT", port)]);
    let (code, out, _) = annals(&settings, &["doctor"]).await;
    let wanted = format!("the program at {} does not work on {}", process.base, other.display());
    let wanted = format!("fault  program              {wanted}");
    assert!(code == 1 && out.lines().any(|line| line.starts_with(&wanted)), "{out}");
}

/// Runs `doctor` as the last command of this script, with `data` as its data directory; returns its fault of the disk.
#[cfg(target_os = "linux")]
fn disk_fault(program: &[&str], script: &str, dir: &std::path::Path) -> String {
    let output = std::process::Command::new(program[0])
        .args(&program[1..])
        .args(["sh", "-c", &format!("{script} || exit 99; exec \"$ANNALS\" doctor")])
        .env("DISK", dir)
        .env("ANNALS", env!("CARGO_BIN_EXE_annals"))
        .env("ANNALS_DATA_DIR", dir.join("data"))
        .env("RUST_LOG", "off")
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let fault = out.lines().find(|line| line.starts_with("fault  disk"));
    let fault = fault.unwrap_or_else(|| panic!("{out}{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code(), Some(1), "{out}");
    fault.to_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_takes_no_more_is_a_fault_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    // At most 16 KB a file.
    let fault = disk_fault(&["env"], "mkdir \"$DISK/data\" && trap '' XFSZ && ulimit -f 32", dir.path());
    assert!(fault.contains("cannot be written and read again (File too large"), "{fault}");
    assert!(fault.contains("set ANNALS_DATA_DIR to it"), "{fault}");

    // A full file system, which only these processes see. Not every system lets users mount one.
    let unshare = ["unshare", "--user", "--map-root-user", "--mount"];
    let try_it = std::process::Command::new(unshare[0]).args(&unshare[1..]).arg("true").output();
    if try_it.is_ok_and(|tried| tried.status.success()) {
        let fill = "mount -t tmpfs -o size=1m none \"$DISK\" && mkdir \"$DISK/data\" && \
            ! cat /dev/zero > \"$DISK/filler\" 2> /dev/null";
        let fault = disk_fault(&unshare, fill, dir.path());
        assert!(fault.contains("full (0 B free), so no message can be stored (No space left"), "{fault}");
        assert!(fault.contains("set ANNALS_DATA_DIR to it"), "{fault}");
    }
}
