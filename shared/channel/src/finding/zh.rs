//! Findings in Chinese.

use super::{KeysOf, Words, set_up};
use crate::setup::Unreachable;

const DISK: &str = "请删除或移走其他文件；或停止 Annals，把文件夹移到更大的磁盘，并让 ANNALS_DATA_DIR 指向它";
const DEPLOY: &str = "请部署 infra/template.yaml";

#[expect(clippy::too_many_lines, reason = "a list of texts")]
pub(super) fn text(words: &Words) -> String {
    match words {
        Words::Error(text) | Words::Value(text) => text.clone(),
        Words::NotSetUp => "未配置".into(),
        Words::Faults(count) => format!("{count} 个故障"),

        Words::DiskFull { free, error } => {
            format!("磁盘已满（剩余 {free}），无法保存消息（{error}）：{DISK}")
        }
        Words::DiskUnusable { dir, error } => format!("{dir} 中的文件无法写入并读回（{error}）：{DISK}"),
        Words::DiskAlmostFull { free } => format!("磁盘快满了（剩余 {free}）：{DISK}"),
        Words::DiskLow { free } => format!("剩余 {free}：{DISK}"),
        Words::DiskOk { free: Some(free) } => format!("剩余 {free}；写入并读回了一个文件"),
        Words::DiskOk { free: None } => "写入并读回了一个文件".into(),

        Words::Settings { model, fallback, channels, keys } => {
            let mut parts = vec![match model {
                Some(model) => format!("MODEL {model}"),
                None => "此处未设置 MODEL".into(),
            }];
            parts.extend(fallback.as_ref().map(|fallback| format!("MODEL_FALLBACK {fallback}")));
            let state = |is_set_up| if is_set_up { "已配置" } else { "未配置" };
            parts.extend(channels.iter().map(|(name, is_set_up)| format!("{name} {}", state(*is_set_up))));
            parts.push(match keys {
                KeysOf::Setting(count) => format!("{count} 个 API 密钥"),
                KeysOf::Stack => "此处未设置 API 密钥".into(),
                KeysOf::DataDirectory => "使用数据目录的 API 密钥".into(),
                KeysOf::Development => "使用开发用 API 密钥".into(),
            });
            parts.join("，")
        }
        Words::Misspelt { name, setting } => {
            format!("设置了 {name}，但没有这个设置项：您是指 {setting} 吗？")
        }
        Words::OpenWithTools => {
            "设置了 TOOLS，却没有设置 ALLOW_FROM 或 ALLOW_CHATS：任何能给机器人写消息的人都能让它调用工具。请把 ALLOW_FROM \
             设为允许使用它的人，例如 telegram-42,lark-ou_…"
                .into()
        }
        Words::DataOfAnother { error } => format!("{error}：请以数据所属的用户身份运行"),
        Words::LocalBucket => "可以保存消息正文和归档段".into(),
        Words::ChatsWait(count) => format!("{count} 个聊天在等待回答"),
        Words::ProgramInvalid => "用这些设置无法启动".into(),
        Words::ProgramAnswers { base } => format!("在 {base} 有应答"),
        Words::ProgramElsewhere { base, dir } => format!(
            "{base} 的程序使用的不是 {dir}：请把 ANNALS_DATA_DIR 设为该程序的数据目录，或换一个 ANNALS_PORT"
        ),
        Words::ProgramIsAnother { base, status } => {
            format!("{base} 由别的程序应答（{status}）：请换一个 ANNALS_PORT")
        }
        Words::ProgramSilent { base } => format!("{base} 没有应答：请用 cargo run 启动"),

        Words::ModelOfStack => "此处未设置 MODEL：它在部署参数中".into(),
        Words::ModelNotChecked => "设置正确之前不检查".into(),
        Words::ModelEcho => "echo，不需要任何配置".into(),
        Words::ModelInAws { name, provider } => {
            format!("{provider} 的 {name}：没有发出请求；请确认该区域已启用此模型")
        }
        Words::ModelUnreachable { base, error, variable } => {
            format!("无法连接 {base}（{error}）：请检查 {variable}_BASE_URL")
        }
        Words::ModelRefused { base, status, variable } => {
            format!("{base} 拒绝了请求（{status}）：请检查 {variable}_API_KEY")
        }
        Words::ModelOk { name, base } => format!("{name}，位于 {base}，密钥有效"),
        Words::ModelUnlisted { name, base, variable } => {
            format!("{name}，位于 {base}，密钥有效，但模型列表中没有它：请检查 {variable}")
        }
        Words::ModelUncheckable { base } => format!("{base} 有应答；它没有模型列表，无法核对模型名和密钥"),
        Words::ModelFails { base, status } => {
            format!("{base} 应答 {status}：请查看服务商的状态页面")
        }

        Words::NoHttpClient => "无法创建 HTTP 客户端".into(),
        Words::ClockWrong { secs, is_ahead, host } => {
            let side = if *is_ahead { "快" } else { "慢" };
            format!("比 {host} {side} {secs} 秒：请用 NTP 校准系统时钟（timedatectl set-ntp true）")
        }
        Words::ClockOk { secs, host } => format!("与 {host} 相差不超过 {secs} 秒"),
        Words::ClockUnknown => "没有配置可供比对的服务，或都没有应答".into(),

        Words::TableUnknown => "AWS 没有返回它的描述".into(),
        Words::TableFailed { error } => {
            format!("{error}；请检查 ANNALS_TABLE、区域和凭证（dynamodb:DescribeTable）")
        }
        Words::TableActive => "可用，键为 pk 和 sk".into(),
        Words::TableInState { status } => format!("状态为 {status}：请等到 ACTIVE"),
        Words::TableOfAnother => {
            "它的键不是字符串 pk 和 sk：这不是 Annals 的表，请检查 ANNALS_TABLE".into()
        }
        Words::IndexActive { index } => format!("{index}，可用"),
        Words::IndexInBuilding { index } => format!("{index} 正在创建：请等到 ACTIVE"),
        Words::IndexMissing { index, hash, range } => {
            format!("没有以 {hash} 和 {range} 为键的索引 {index}：没有它，压缩函数找不到任何聊天：{DEPLOY}")
        }
        Words::Unchecked { error, action } => format!("无法检查：{error}（凭证需要 {action}）"),
        Words::ExpiryOn { attribute } => format!("按 {attribute}"),
        Words::ExpiryByAnother { other, attribute, remedy } => {
            format!("按 {other} 而不是 {attribute}：{remedy}")
        }
        Words::ExpiryOff { remedy } => format!("已关闭，已归档的记录会一直留存并计费：{remedy}"),
        Words::BackupsOn => "时间点恢复已开启".into(),
        Words::BackupsOff { remedy } => format!("时间点恢复已关闭：{remedy}"),
        Words::BillingOnDemand => "按需计费".into(),
        Words::BillingProvisioned { remedy } => format!("预置容量，超出后写入会被拒绝：{remedy}"),
        Words::Protected => "已开启删除保护".into(),
        Words::Unprotected { remedy } => format!("未开启删除保护：{remedy}"),

        Words::BucketMissing => "没有这个名称的存储桶：请检查 ANNALS_BUCKET".into(),
        Words::BucketForbidden => "凭证无权查看它（s3:ListBucket），或它属于另一个账户".into(),
        Words::BucketElsewhere => "它在另一个区域：请把 AWS_REGION 设为部署所在的区域".into(),
        Words::BucketFailed { error } => format!("{error}；请检查 ANNALS_BUCKET、区域和凭证"),
        Words::BucketOk => "可以访问".into(),
        Words::BucketPrivate => "已阻止公开访问".into(),
        Words::BucketPublic { remedy } => format!("可能会被公开：{remedy}"),
        Words::BucketUnencrypted => format!("已关闭：{DEPLOY}"),

        Words::QueueFailed { error } => {
            format!("{error}；请检查 ANNALS_QUEUE_URL、区域和凭证（sqs:GetQueueAttributes）")
        }
        Words::QueueOk { waiting, running } => format!("FIFO；{waiting} 个任务等待，{running} 个在运行"),
        Words::QueueNotFifo => {
            "不是 FIFO 队列，同一聊天可能有两个任务同时运行：请检查 ANNALS_QUEUE_URL，名称应以 .fifo 结尾".into()
        }
        Words::ThroughputHigh => "高吞吐：限制按聊天计算".into(),
        Words::ThroughputLow => format!("所有聊天共用限制，每秒 300 个任务：{DEPLOY}"),
        Words::VisibilityOk { secs, lease } => format!("{secs} 秒，长于智能体的 {lease} 秒"),
        Words::VisibilityShort { secs, lease, remedy } => {
            format!("{secs} 秒，而一次运行最长 {lease} 秒，因此任务在运行时会被再次投递：{remedy}")
        }
        Words::NoDeadLetters => format!("没有死信队列，无法读取的任务会被重试两周：{DEPLOY}"),
        Words::DeadLettersNone { most } => format!("没有失败 {most} 次的任务"),
        Words::DeadLetters { count, most, arn } => format!(
            "{count} 个任务失败了 {most} 次：请在智能体的日志中查找原因，然后运行 aws sqs start-message-move-task \
             --source-arn {arn}"
        ),

        Words::TelegramPrivacy { bot } => format!(
            "{bot}：GROUP_ACTIVATION=always，但 Telegram 只发送群组中提到它的消息：请关闭隐私模式（@BotFather，/setprivacy），\
             并重新把它加入群组"
        ),
        Words::TelegramNoWebhook => format!("没有设置：{}", set_up("telegram")),
        Words::TelegramMissing { kinds, url } => {
            format!("Telegram 不发送 {kinds}：cargo run -- setup telegram --url {url}")
        }
        Words::TelegramWebhook { url, at_once: Some(most) } => format!("{url}，最多同时 {most} 个"),
        Words::TelegramWebhook { url, at_once: None } => url.clone(),
        Words::TelegramWaiting { waiting } => format!("{waiting} 个更新在等待，没有失败"),
        Words::TelegramFailed { waiting, time, message, is_over } => {
            let message = message.as_deref().unwrap_or("没有给出原因");
            let failed = format!("{waiting} 个更新在等待；最近一次失败，{time}：{message}");
            let remedy = if message.contains("401") {
                "该处的程序使用另一个 TELEGRAM_WEBHOOK_SECRET：请用新的 SecretsRevision 部署，或用设置 webhook 时的密钥启动它"
            } else if message.contains("503") || message.contains("500") {
                "请查看函数或程序的日志"
            } else {
                "请确认该地址可从外部访问"
            };
            if *is_over { failed } else { format!("{failed}：{remedy}") }
        }
        Words::TelegramAccepted => "该处的程序接受 TELEGRAM_WEBHOOK_SECRET".into(),
        Words::TelegramOtherSecret { url } => format!(
            "该处的程序不接受 TELEGRAM_WEBHOOK_SECRET（应答 401），它使用另一个密钥：cargo run -- setup telegram --url {url}"
        ),
        Words::TelegramUnreachable { url, why } => format!(
            "Telegram 向 {url} 发送更新，{}：请启动该处的程序；如果地址已改变，{}",
            unreachable(*why),
            set_up("telegram")
        ),
        Words::TelegramNotThere { url } => format!(
            "该处的程序启动时没有 TELEGRAM_BOT_TOKEN 和 TELEGRAM_WEBHOOK_SECRET，或它的隧道没有改写 Host 头：请检查 {url} 的程序"
        ),
        Words::TelegramStatus { url, status } => {
            format!("应答为 {status}，Annals 不会这样应答：请检查 {url} 的程序")
        }

        Words::LarkApp { name, app_id, bot } => format!("{name}（{app_id}），机器人 {bot}"),
        Words::LarkRefused { error } => {
            format!("{error}；请检查 LARK_APP_ID 和 LARK_APP_SECRET，并确认应用已启用机器人能力")
        }
        Words::LarkFailed { error } => format!("{error}；请检查 LARK_API_BASE 和网络"),
        Words::LarkEncrypted => "已加密并签名；cargo run -- setup lark 会列出后台需要的配置".into(),
        Words::LarkPlain => "未加密：设置 LARK_ENCRYPT_KEY，并在后台填入相同的值，事件就会带签名".into(),

        Words::DiscordNoToken => {
            "未设置 DISCORD_BOT_TOKEN：机器人只回答命令，每个命令 15 分钟内有效，也无法向 Discord 核对任何内容".into()
        }
        Words::DiscordFailed { error } => format!("{error}；请检查 DISCORD_API_BASE 和网络"),
        Words::DiscordOtherApplication { of_token, set } => {
            format!("DISCORD_BOT_TOKEN 属于应用 {of_token}，而 DISCORD_APPLICATION_ID 是 {set}")
        }
        Words::DiscordOtherKey => "DISCORD_PUBLIC_KEY 不是该应用的公钥".into(),
        Words::DiscordNoAddress => format!("没有设置交互地址：{}", set_up("discord")),
        Words::DiscordNoUrl => format!("不是 URL：{}", set_up("discord")),
        Words::DiscordUnreachable { url, why } => format!("{url}：{}", unreachable(*why)),
        Words::DiscordNotThere { url } => format!(
            "{url}：该处的程序启动时没有 DISCORD_APPLICATION_ID 和 DISCORD_PUBLIC_KEY，或它的隧道没有改写 Host 头"
        ),
        Words::DiscordStatus { url, status } => {
            format!("{url}：对没有签名的请求应答 {status}，Annals 会应答 401")
        }
        Words::DiscordNoEvents { url } => {
            format!("{url}；webhook 事件不发往此处，因此不知道谁移除了应用：{}", set_up("discord"))
        }
        Words::DiscordMissing { commands } => format!("Discord 没有 {commands}：{}", set_up("discord")),
        Words::DiscordCommands(count) => format!("已注册 {count} 个"),
        Words::DiscordWithheld => {
            "GROUP_ACTIVATION=always，但 Discord 不提供未提及机器人的消息文本：请在开发者门户中该应用的 Bot 页面开启 Message \
             Content intent"
                .into()
        }
        Words::DiscordAllContent => "所有消息的内容".into(),
        Words::DiscordOwnContent => "提及、对机器人的回复和私信".into(),
        Words::RelayRuns => "正在运行".into(),
        Words::RelayMissing => {
            "没有运行，因此只有命令会到达，普通消息不会：cargo run 自带中继，部署时用 DiscordRelay=on，或使用容器".into()
        }
    }
}

fn unreachable(why: Unreachable) -> &'static str {
    match why {
        Unreachable::Late => "该处没有及时应答",
        Unreachable::NoConnection => "无法连接到该处",
        Unreachable::BrokenOff => "该处没有给出完整的应答",
    }
}
