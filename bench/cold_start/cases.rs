//! The functions, each with a first event as AWS sends it, and a check of the state after its answer.

use std::collections::HashMap;
use std::time::Duration;

use annals_channel_lark::verify::{NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, encrypt, sign};
use annals_core::chat_key::ChatKey;
use annals_core::draft::{Draft, Origin};
use annals_core::message::Part;
use annals_core::record::Channel;
use annals_core::sort_key::{MessageId, Timestamp};
use annals_io::clock::Clock;
use annals_test_support::discord_api;
use annals_test_support::model_api::{API_KEY, ModelApi};
use annals_test_support::telegram_api::{TOKEN, TelegramApi};
use axum::body::Bytes;
use serde_json::{Value, json};

use crate::account::Account;
use crate::runtime_api::now;

const LARK_TOKEN: &str = "lark-verification-token";
const LARK_KEY: &str = "lark-encrypt-key";

/// Age of the last message in a chat that the compactor finds due: its session is over.
const SILENCE: Duration = Duration::from_hours(60);

/// Age of a turn's message: longer than `REPLY_QUIET`.
const SAID_BEFORE: Duration = Duration::from_secs(5);

/// The first event of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Put,
    TelegramMessage,
    LarkMessage,
    LarkChallenge,
    DiscordCommand,
    HttpMessage,
    WebTurn,
    Turn,
    NothingDue,
    Schedule,
}

/// The name of the secret.
const SECRET: &str = "annals";

/// A function and its first event.
pub(crate) struct Case {
    pub(crate) function: &'static str,
    pub(crate) what: &'static str,
    pub(crate) first: First,
    pub(crate) env: Vec<(String, String)>,
}

/// The emulators that the functions call.
pub(crate) struct World {
    pub(crate) account: Account,
    pub(crate) telegram: TelegramApi,
    pub(crate) model: ModelApi,
}

impl World {
    pub(crate) async fn start() -> Self {
        let values: serde_json::Map<String, Value> =
            secret().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let secrets = HashMap::from([(SECRET.to_owned(), Value::from(values).to_string())]);
        let account = Account::start(secrets).await;
        Self { account, telegram: TelegramApi::start().await, model: ModelApi::start().await }
    }

    /// Returns the cases, the minimal function first.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let hosted = [("MODEL", "openai:test".to_owned()), ("MODEL_BASE_URL", self.model.base_url())];
        let echo = [("MODEL", "echo".to_owned())];
        let telegram = [("TELEGRAM_API_BASE", self.telegram.base_url().to_owned())];
        let (telegram, echo, hosted) = (&telegram[..], &echo[..], &hosted[..]);
        let case = |function, what, first, settings: &[&[(&str, String)]]| Case {
            function,
            what,
            first,
            env: self.env(function, settings),
        };
        vec![
            case("minimal", "one put", First::Put, &[]),
            case("telegram", "a message", First::TelegramMessage, &[telegram]),
            case("lark", "a message, encrypted", First::LarkMessage, &[]),
            case("lark", "a challenge", First::LarkChallenge, &[]),
            case("discord", "a command", First::DiscordCommand, &[]),
            case("http", "a message", First::HttpMessage, &[]),
            case("streaming", "a message", First::HttpMessage, &[echo]),
            case("streaming", "a turn of `/api/chat`, `MODEL=echo`", First::WebTurn, &[echo]),
            case("agent", "a turn, `MODEL=echo`", First::Turn, &[telegram, echo]),
            case("agent", "a turn, hosted model", First::Turn, &[telegram, hosted]),
            case("compactor", "the schedule, no chat due", First::NothingDue, &[echo]),
            case("compactor", "the schedule, one chat due", First::Schedule, &[echo]),
        ]
    }

    /// Returns the environment that Lambda and `infra/template.yaml` set.
    fn env(&self, function: &str, settings: &[&[(&str, String)]]) -> Vec<(String, String)> {
        let lambda = [
            ("PATH", "/usr/local/bin:/usr/bin/:/bin:/opt/bin"),
            ("LANG", "en_US.UTF-8"),
            ("TZ", ":UTC"),
            ("_HANDLER", "bootstrap"),
            ("LAMBDA_TASK_ROOT", "/var/task"),
            ("LAMBDA_RUNTIME_DIR", "/var/runtime"),
            ("AWS_EXECUTION_ENV", "AWS_Lambda_Image"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
            ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
            ("RUST_LOG", "error"),
            ("ANNALS_TABLE", annals_local::stores::TABLE),
            ("ANNALS_BUCKET", annals_local::stores::BUCKET),
            ("ANNALS_QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/123456789012/annals.fifo"),
        ];
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut env: Vec<_> = lambda.into_iter().map(own).collect();
        env.push(("AWS_LAMBDA_FUNCTION_NAME".into(), function.into()));
        env.extend(self.account.env());
        env.extend(settings.iter().flat_map(|pairs| pairs.iter()).map(|(name, value)| own((name, value))));
        // The minimal function has no settings, and the compactor has no secret ones if the model is `echo`.
        if !["minimal", "compactor"].contains(&function) {
            env.push(("ANNALS_SECRETS".into(), SECRET.into()));
        }
        env
    }

    /// Returns the event of a `round`, and stores the records that it needs in the table.
    pub(crate) async fn event(&self, first: First, round: u64) -> Value {
        let event = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        let mut telegram = event(include_str!("../../infra/events/telegram-message.json"));
        let mut lark = event(include_str!("../../infra/events/lark-message.json"));
        match first {
            First::Put => telegram,
            First::TelegramMessage => {
                telegram["headers"]["x-telegram-bot-api-secret-token"] = "telegram-webhook-secret".into();
                let mut update = event(telegram["body"].as_str().unwrap());
                update["message"]["message_id"] = (1000 + round).into();
                update["message"]["date"] = now().as_secs().into();
                telegram["body"] = update.to_string().into();
                telegram
            }
            First::LarkMessage | First::LarkChallenge => {
                let mut call = event(lark["body"].as_str().unwrap());
                call["header"]["token"] = LARK_TOKEN.into();
                call["event"]["message"]["message_id"] = format!("om_{round}").into();
                call["event"]["message"]["create_time"] = now().as_millis().to_string().into();
                if first == First::LarkChallenge {
                    call = json!({"type": "url_verification", "challenge": "c", "token": LARK_TOKEN});
                }
                let body = json!({"encrypt": encrypt(LARK_KEY, call.to_string().as_bytes())}).to_string();
                let signature = sign(b"1764057600", b"nonce", LARK_KEY, body.as_bytes());
                lark["headers"][TIMESTAMP_HEADER] = "1764057600".into();
                lark["headers"][NONCE_HEADER] = "nonce".into();
                lark["headers"][SIGNATURE_HEADER] = signature.into();
                lark["body"] = body.into();
                lark
            }
            First::DiscordCommand => {
                let mut discord = event(include_str!("../../infra/events/discord-interaction.json"));
                let mut call = event(discord["body"].as_str().unwrap());
                let millis = u64::try_from(now().as_millis()).unwrap() - 1_420_070_400_000;
                call["id"] = ((millis << 22) + round).to_string().into();
                let body = call.to_string();
                for (name, value) in discord_api::signed(body.as_bytes()) {
                    discord["headers"][name] = value.into();
                }
                discord["body"] = body.into();
                discord
            }
            First::HttpMessage | First::WebTurn => {
                let (id, text) = (format!("m{round}"), "Hello!");
                let part = json!({"type": "text", "text": text});
                let (path, body) = match first {
                    First::WebTurn => (
                        "/api/chat",
                        json!({"id": format!("room-{round}"), "messages": [{"id": id, "role": "user", "parts": [part]}]}),
                    ),
                    _ => {
                        ("/v1/chats/garden/messages", json!({"userId": "ada", "text": text, "messageId": id}))
                    }
                };
                telegram["rawPath"] = path.into();
                telegram["requestContext"]["http"]["path"] = path.into();
                telegram["headers"]["authorization"] = "Bearer http-secret-of-bench".into();
                telegram["body"] = body.to_string().into();
                telegram
            }
            First::Turn => {
                // The message is older than `REPLY_QUIET`, so the run does not wait.
                let clock = Clock::manual(Clock::system().now().minus(SAID_BEFORE));
                let (chat, at) = (turn_chat(round), clock.now());
                let draft = message(&chat, 1, at);
                self.account.history(clock).append(&draft).await.unwrap();
                let mut batch = event(include_str!("../../infra/events/agent-turn.json"));
                let turn = json!({"chat": chat.to_string(), "from": draft.key().to_string()});
                batch["Records"][0]["body"] = turn.to_string().into();
                batch
            }
            First::NothingDue => json!({}),
            First::Schedule => {
                let chat = due_chat(round);
                let clock = Clock::manual(Clock::system().now().minus(SILENCE));
                let history = self.account.history(clock.clone());
                for id in 1..=3 {
                    history.append(&Draft { asks: false, ..message(&chat, id, clock.now()) }).await.unwrap();
                }
                json!({})
            }
        }
    }

    /// Panics if the function has not done what its `answers` to the events of these numbers claim.
    pub(crate) async fn check(&self, first: First, answers: &[Bytes; 2], numbers: [u64; 2]) {
        let queued = self.account.take_turns();
        let history = self.account.history(Clock::system());
        for (answer, number) in answers.iter().zip(numbers) {
            // In a streamed answer, status and headers precede eight NULs.
            let body = String::from_utf8_lossy(answer);
            let answer = answer.split(|byte| *byte == 0).next().unwrap();
            let answer: Value = serde_json::from_slice(answer).unwrap();
            match first {
                First::Put => assert_eq!(answer["statusCode"], 200, "{answer}"),
                First::TelegramMessage | First::LarkMessage | First::DiscordCommand | First::HttpMessage => {
                    assert!(matches!(answer["statusCode"].as_u64(), Some(200 | 202)), "{answer}");
                    assert_eq!(queued.len(), 2);
                }
                First::WebTurn => {
                    assert!(
                        body.contains(r#""type":"finish""#) && body.ends_with("data: [DONE]\n\n"),
                        "{body}"
                    );
                }
                First::LarkChallenge => {
                    assert_eq!(answer["body"], json!({"challenge": "c"}).to_string(), "{answer}");
                }
                First::Turn => {
                    assert_eq!(answer["batchItemFailures"], json!([]), "{answer}");
                    let chat = chat_number(number);
                    assert!(self.telegram.sent().iter().any(|sent| sent.chat_id == chat), "nothing was sent");
                }
                First::NothingDue => assert!(answer.is_null(), "{answer}"),
                First::Schedule => {
                    let segments = history.segments(&due_chat(number)).await.unwrap();
                    assert_eq!(segments.iter().map(|segment| segment.count).sum::<u32>(), 3);
                }
            }
        }
    }
}

/// Returns the settings in the secret, which all functions share here.
fn secret() -> [(&'static str, String); 10] {
    [
        ("HTTP_API_KEYS", "me:http-secret-of-bench:admin".to_owned()),
        ("TELEGRAM_BOT_TOKEN", TOKEN.to_owned()),
        ("TELEGRAM_WEBHOOK_SECRET", "telegram-webhook-secret".to_owned()),
        ("LARK_APP_ID", "cli_0123456789abcdef".to_owned()),
        ("LARK_APP_SECRET", "lark-app-secret".to_owned()),
        ("LARK_VERIFICATION_TOKEN", LARK_TOKEN.to_owned()),
        ("LARK_ENCRYPT_KEY", LARK_KEY.to_owned()),
        ("DISCORD_APPLICATION_ID", discord_api::APPLICATION_ID.to_owned()),
        ("DISCORD_PUBLIC_KEY", discord_api::public_key()),
        ("MODEL_API_KEY", API_KEY.to_owned()),
    ]
}

fn chat_number(round: u64) -> i64 {
    i64::try_from(1_000_000 + round).unwrap()
}

fn turn_chat(round: u64) -> ChatKey {
    ChatKey::telegram(chat_number(round), None)
}

fn due_chat(round: u64) -> ChatKey {
    ChatKey::telegram(chat_number(round) + 1_000_000, None)
}

fn message(chat: &ChatKey, id: u64, ts: Timestamp) -> Draft {
    let chat_id = chat.to_string().rsplit(':').next().unwrap_or_default().to_owned();
    let origin = Origin { chat: chat.clone(), channel: Channel::Telegram, user_id: chat_id.clone(), chat_id };
    Draft::new(origin, MessageId::number(id), ts)
        .with_parts(vec![Part::text("Hello, do you remember me?")])
        .asking(true)
}
