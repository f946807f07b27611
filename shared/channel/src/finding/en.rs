//! Findings in English.

use super::{KeysOf, Words, set_up};
use annals_core::access::OPEN_WITH_TOOLS;

const DISK: &str = "delete or move other files, or stop Annals, move the folder to a larger disk and set ANNALS_DATA_DIR to it";
const DEPLOY: &str = "deploy infra/template.yaml";

#[expect(clippy::too_many_lines, reason = "a list of texts")]
pub(super) fn text(words: &Words) -> String {
    match words {
        Words::Error(text) | Words::Value(text) => text.clone(),
        Words::NotSetUp => "not set up".into(),
        Words::Faults(1) => "1 fault".into(),
        Words::Faults(count) => format!("{count} faults"),

        Words::DiskFull { free, error } => {
            format!("full ({free} free), so no message can be stored ({error}): {DISK}")
        }
        Words::DiskUnusable { dir, error } => {
            format!("a file in {dir} cannot be written and read again ({error}): {DISK}")
        }
        Words::DiskAlmostFull { free } => format!("almost full ({free} free): {DISK}"),
        Words::DiskLow { free } => format!("{free} free: {DISK}"),
        Words::DiskOk { free: Some(free) } => format!("{free} free; a file was written and read"),
        Words::DiskOk { free: None } => "a file was written and read".into(),

        Words::Settings { model, fallback, channels, keys } => {
            let mut parts = vec![match model {
                Some(model) => format!("MODEL {model}"),
                None => "MODEL not set here".into(),
            }];
            parts.extend(fallback.as_ref().map(|fallback| format!("MODEL_FALLBACK {fallback}")));
            let state = |is_set_up| if is_set_up { "set up" } else { "not set up" };
            parts.extend(channels.iter().map(|(name, is_set_up)| format!("{name} {}", state(*is_set_up))));
            parts.push(match keys {
                KeysOf::Setting(count) => format!("API keys: {count}"),
                KeysOf::Stack => "API keys not set here".into(),
                KeysOf::DataDirectory => "the data directory's API key".into(),
                KeysOf::Development => "the development API key".into(),
            });
            parts.join(", ")
        }
        Words::Misspelt { name, setting } => {
            format!("{name} is set, which is not a setting: did you mean {setting}?")
        }
        Words::OpenWithTools => OPEN_WITH_TOOLS.into(),
        Words::DataOfAnother { error } => format!("{error}: run this as the user whose it is"),
        Words::LocalBucket => "bodies and segments can be stored".into(),
        Words::ChatsWait(1) => "1 chat waits for an answer".into(),
        Words::ChatsWait(count) => format!("{count} chats wait for an answer"),
        Words::ProgramInvalid => "does not start with these settings".into(),
        Words::ProgramAnswers { base } => format!("answers at {base}"),
        Words::ProgramElsewhere { base, dir } => format!(
            "the program at {base} does not work on {dir}: set ANNALS_DATA_DIR as that program has it, or ANNALS_PORT to \
             another"
        ),
        Words::ProgramIsAnother { base, status } => {
            format!("something else answers at {base} ({status}): set ANNALS_PORT to another")
        }
        Words::ProgramSilent { base } => format!("does not answer at {base}: start it with cargo run"),

        Words::ModelOfStack => "MODEL is not set here: the stack's parameters have it".into(),
        Words::ModelNotChecked => "not looked at, before the settings are right".into(),
        Words::ModelEcho => "echo, which needs nothing".into(),
        Words::ModelInAws { name, provider } => {
            format!("{name} of {provider}: not asked; see that it is enabled in the region")
        }
        Words::ModelUnreachable { base, error, variable } => {
            format!("{base} cannot be reached ({error}): check {variable}_BASE_URL")
        }
        Words::ModelRefused { base, status, variable } => {
            format!("{base} refused the request with {status}: check {variable}_API_KEY")
        }
        Words::ModelOk { name, base } => format!("{name} at {base}, the key is taken"),
        Words::ModelUnlisted { name, base, variable } => {
            format!("{name} at {base}, the key is taken, but it does not list the model: check {variable}")
        }
        Words::ModelUncheckable { base } => {
            format!("{base} answers; it has no list of models to check name and key by")
        }
        Words::ModelFails { base, status } => {
            format!("{base} answers {status}: see its provider's status page")
        }

        Words::NoHttpClient => "failed to create an HTTP client".into(),
        Words::ClockWrong { secs, is_ahead, host } => {
            let side = if *is_ahead { "ahead of" } else { "behind" };
            format!("{secs} s {side} {host}: set the system's clock, by NTP (timedatectl set-ntp true)")
        }
        Words::ClockOk { secs, host } => format!("within {secs} s of {host}"),
        Words::ClockUnknown => "no service to compare it with is set up, or none answers".into(),

        Words::TableUnknown => "AWS does not describe it".into(),
        Words::TableFailed { error } => {
            format!("{error}; check ANNALS_TABLE, the region and the credentials (dynamodb:DescribeTable)")
        }
        Words::TableActive => "active, with pk and sk".into(),
        Words::TableInState { status } => format!("is {status}: wait until it is ACTIVE"),
        Words::TableOfAnother => {
            "its keys are not pk and sk, both strings: this is no table of Annals, check ANNALS_TABLE".into()
        }
        Words::IndexActive { index } => format!("{index}, active"),
        Words::IndexInBuilding { index } => format!("{index} is being built: wait until it is ACTIVE"),
        Words::IndexMissing { index, hash, range } => format!(
            "there is no index {index} of {hash} and {range}: without it the compactor finds no chat: {DEPLOY}"
        ),
        Words::Unchecked { error, action } => {
            format!("could not be checked: {error} (the credentials need {action})")
        }
        Words::ExpiryOn { attribute } => format!("by {attribute}"),
        Words::ExpiryByAnother { other, attribute, remedy } => {
            format!("by {other}, not by {attribute}: {remedy}")
        }
        Words::ExpiryOff { remedy } => format!("off, so archived records stay and cost: {remedy}"),
        Words::BackupsOn => "point-in-time recovery".into(),
        Words::BackupsOff { remedy } => format!("point-in-time recovery is off: {remedy}"),
        Words::BillingOnDemand => "on demand".into(),
        Words::BillingProvisioned { remedy } => {
            format!("provisioned, so writes are refused beyond it: {remedy}")
        }
        Words::Protected => "protected".into(),
        Words::Unprotected { remedy } => format!("not protected: {remedy}"),

        Words::BucketMissing => "there is none of this name: check ANNALS_BUCKET".into(),
        Words::BucketForbidden => {
            "the credentials may not see it (s3:ListBucket), or it is another account's".into()
        }
        Words::BucketElsewhere => "it is in another region: set AWS_REGION to the stack's".into(),
        Words::BucketFailed { error } => {
            format!("{error}; check ANNALS_BUCKET, the region and the credentials")
        }
        Words::BucketOk => "can be reached".into(),
        Words::BucketPrivate => "public access is blocked".into(),
        Words::BucketPublic { remedy } => format!("may be opened to the public: {remedy}"),
        Words::BucketUnencrypted => format!("off: {DEPLOY}"),

        Words::QueueFailed { error } => format!(
            "{error}; check ANNALS_QUEUE_URL, the region and the credentials (sqs:GetQueueAttributes)"
        ),
        Words::QueueOk { waiting, running } => format!("FIFO; {waiting} turns wait, {running} run"),
        Words::QueueNotFifo => {
            "not FIFO, so two runs of a chat may meet: check ANNALS_QUEUE_URL, its name ends in .fifo".into()
        }
        Words::ThroughputHigh => "high: limits count for each chat".into(),
        Words::ThroughputLow => {
            format!("limits count for all chats together, 300 turns a second: {DEPLOY}")
        }
        Words::VisibilityOk { secs, lease } => format!("{secs} s, over the agent's {lease} s"),
        Words::VisibilityShort { secs, lease, remedy } => format!(
            "{secs} s, and a run may take {lease} s, so turns are delivered while they run: {remedy}"
        ),
        Words::NoDeadLetters => format!(
            "there is no queue for them, so what cannot be read is tried for two weeks: {DEPLOY}"
        ),
        Words::DeadLettersNone { most } => format!("none, of what failed {most} times"),
        Words::DeadLetters { count, most, arn } => format!(
            "{count} turns that failed {most} times: find the cause in the agent's log, then aws sqs \
             start-message-move-task --source-arn {arn}"
        ),

        Words::TelegramPrivacy { bot } => format!(
            "{bot}: GROUP_ACTIVATION=always, but Telegram sends it only what addresses it in groups: turn its privacy off \
             (@BotFather, /setprivacy) and add it to the groups anew"
        ),
        Words::TelegramNoWebhook => format!("none is set: {}", set_up("telegram")),
        Words::TelegramMissing { kinds, url } => {
            format!("Telegram does not send {kinds}: cargo run -- setup telegram --url {url}")
        }
        Words::TelegramWebhook { url, at_once: Some(most) } => format!("{url}, at most {most} at once"),
        Words::TelegramWebhook { url, at_once: None } => url.clone(),
        Words::TelegramWaiting { waiting } => format!("{waiting} updates wait, none has failed"),
        Words::TelegramFailed { waiting, time, message, is_over } => {
            let message = message.as_deref().unwrap_or("no reason given");
            let failed = format!("{waiting} updates wait; the last failure, {time}: {message}");
            let remedy = if message.contains("401") {
                "the program there has another TELEGRAM_WEBHOOK_SECRET: deploy with another SecretsRevision, or start it \
                 with the one that was set"
            } else if message.contains("503") || message.contains("500") {
                "see the log of the function, or the program"
            } else {
                "see that the address can be reached from outside"
            };
            if *is_over { failed } else { format!("{failed}: {remedy}") }
        }
        Words::TelegramAccepted => "the program there accepts TELEGRAM_WEBHOOK_SECRET".into(),
        Words::TelegramOtherSecret { url } => format!(
            "the program there does not accept TELEGRAM_WEBHOOK_SECRET: it answers 401: the program there has another \
             secret: cargo run -- setup telegram --url {url}"
        ),
        Words::TelegramUnreachable { url, why } => format!(
            "{url}, where Telegram sends updates: {why}: start the program there; if its address has changed, {}",
            set_up("telegram")
        ),
        Words::TelegramNotThere { url } => format!(
            "the program there was started without TELEGRAM_BOT_TOKEN and TELEGRAM_WEBHOOK_SECRET, or its tunnel does not \
             rewrite the Host header: check the program at {url}"
        ),
        Words::TelegramStatus { url, status } => {
            format!("it answers {status}, which Annals does not: check the program at {url}")
        }

        Words::LarkApp { name, app_id, bot } => format!("{name} ({app_id}), bot {bot}"),
        Words::LarkRefused { error } => format!(
            "{error}; check LARK_APP_ID and LARK_APP_SECRET, and that the app has the Bot ability"
        ),
        Words::LarkFailed { error } => format!("{error}; check LARK_API_BASE and the network"),
        Words::LarkEncrypted => {
            "encrypted and signed; cargo run -- setup lark tells what the console must have".into()
        }
        Words::LarkPlain => "plain: with LARK_ENCRYPT_KEY, set in the console too, they would be signed".into(),

        Words::DiscordNoToken => {
            "DISCORD_BOT_TOKEN is not set: the bot answers commands alone, each for 15 minutes, and nothing can be checked \
             at Discord"
                .into()
        }
        Words::DiscordFailed { error } => format!("{error}; check DISCORD_API_BASE and the network"),
        Words::DiscordOtherApplication { of_token, set } => format!(
            "DISCORD_BOT_TOKEN is that of the application {of_token}, and DISCORD_APPLICATION_ID is {set}"
        ),
        Words::DiscordOtherKey => "DISCORD_PUBLIC_KEY is not the application's public key".into(),
        Words::DiscordNoAddress => format!("none is set for interactions: {}", set_up("discord")),
        Words::DiscordNoUrl => format!("is not a URL: {}", set_up("discord")),
        Words::DiscordUnreachable { url, why } => format!("{url}: {why}"),
        Words::DiscordNotThere { url } => format!(
            "{url}: the program there was started without DISCORD_APPLICATION_ID and DISCORD_PUBLIC_KEY, or its tunnel does \
             not rewrite the Host header"
        ),
        Words::DiscordStatus { url, status } => {
            format!("{url}: it answers {status} to a call without a signature; Annals answers 401")
        }
        Words::DiscordNoEvents { url } => format!(
            "{url}; webhook events do not come there, so that it is not known who removes the app: {}",
            set_up("discord")
        ),
        Words::DiscordMissing { commands } => {
            format!("Discord does not know {commands}: {}", set_up("discord"))
        }
        Words::DiscordCommands(count) => format!("{count} registered"),
        Words::DiscordWithheld => {
            "GROUP_ACTIVATION=always, but Discord withholds the text of messages that do not mention the bot: turn on the \
             Message Content intent, on the page Bot of the application in the developer portal"
                .into()
        }
        Words::DiscordAllContent => "the content of all messages".into(),
        Words::DiscordOwnContent => "mentions, replies to the bot and direct messages".into(),
        Words::RelayRuns => "runs".into(),
        Words::RelayMissing => {
            "none runs, so only commands arrive, and no messages: cargo run has one, a stack with DiscordRelay=on, or a \
             container"
                .into()
        }
    }
}
