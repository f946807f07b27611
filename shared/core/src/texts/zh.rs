//! 简体中文: Chinese, in simplified characters.

use super::{
    CommandOption, EntryDescription, FilesNotShown, NotShown, Plain, SaidIn, Spending, Texts, Whose, number,
    thousands,
};
use crate::command::name::CommandName;
use crate::limits::{Amount, Quota, Scope};
use crate::media::Unseen;
use crate::memory::EntryKind;
use crate::record::Channel;
use crate::time_zone::TimeZone;

/// The texts in Chinese.
#[derive(Debug)]
pub struct Zh;

impl Plain for Zh {
    texts! {
        commands() => "命令：";
        colon() => "：";
        comma() => "，";
        full_stop() => "。";
        welcome() => "你好！给我发消息，我会回答你。";
        ask() => "提一个问题";
        answer_this() => "回答这条消息";
        unknown_command() => "我不认识这个命令。机器人的管理者可以用 annals setup 注册我的命令。";
        did_not_work() => "操作没有成功，请再试一次。";
        not_allowed() => "你不能在这里使用这个机器人。请联系机器人的管理者开通。";

        new_conversation() => "新对话已开始。想聊点什么？";
        started_over() => "好的，我们重新开始。我不再参考此前的消息。";
        stopped() => "已停止。";
        nothing_to_stop() => "现在没有正在进行的回答。";

        no_answer() => "抱歉，模型暂时不可用，我没能回答这个问题。请稍后再问一次。";
        filtered() => "模型服务商拒绝了这条消息或之前的某条消息。如果下一条也被拒绝，发送 /new 可以重新开始。";
        earlier_refused() =>
            "（这次回答没有参考之前的消息：模型服务商拒绝了其中一条。发送 /new 可以重新开始。）";
        not_compacted() => "抱歉，模型没有给出可用的摘要，对话没能整理。内容没有任何变化，请稍后再试。";
        unfinished() => "抱歉，模型暂时不可用，我没能完成这次回答。请稍后再问一次。";
        done() => "好了，已完成。";
        cut_off() => "（到此中断：回答达到了模型的长度上限。发送“继续”可以接着说。）";
        rest_filtered() => "（到此中断：其余内容被模型服务商的过滤器移除。）";
        stopped_unanswered() => "还没有开始回答就停止了。";
        stopped_here() => "（已在此停止。）";
        still_answering() => "回答还在生成：请稍后重新加载对话。";
        answered_anew() => "回答中断后重新生成了：请重新加载对话查看。";
        chat_forgotten() => "这个聊天已被删除。";
        taken_over() => "这个聊天已由人工接管。";
        handed_back() => "人工已把这个聊天交还给机器人。";

        reminder(text: &str) => "⏰ 提醒：{text}";
        reminders(list: &str) => "待办提醒：\n{list}\n\n发送 `/remind cancel` 加代码可以取消一条。";
        no_reminders() => "没有待办提醒。添加一条：`/remind 明天9点 开会`。";
        reminder_cancelled(id: &str) => "`{id}` 不会再提醒，或者本来就没有。";
        reminder_ended(id: &str) => "`{id}` 已经提醒过，或者已取消。";
        how_to_remind() =>
            "没有看懂时间和内容。例如：`/remind 9点 喝水`、`/remind 明天9:30 开会`、`/remind 20分钟后 关火`、\
             `/remind 2026-12-01 9:00 交租`、`/remind 工作日9:15 站会`。";
        date_is_past() => "这个时间已经过去，或者在五年以后。";
        too_many_reminders(most: usize) => "这个对话已经有 {most} 条提醒。请先取消一条：`/remind` 会列出全部。";
        cannot_write_later() => "我之后不能在这里发消息。请在和我的私信里告诉我。";
        late_text(text: &str, date: &str) => "{text}\n\n（这条消息晚了：原定时间是 {date}。）";

        may_i_call(tool: &str) => "可以用以下参数调用 `{tool}` 吗？";
        characters_left_out(count: usize) => "[略去 {count} 个字符]";
        admins_must_approve() => "只有机器人的管理员可以批准。";
        not_yours() => "只有提问者或管理员可以答复这个请求。";
        admins_only() => "只有机器人的管理员可以答复这个请求。";
        nothing_to_approve() => "这里没有等待批准的请求。";
        request_is_over() => "这个请求已经失效。";
        which_number(list: &str) => "是哪一个？请回复 /approve 或 /deny 加编号，或者加 all（全部）：\n{list}";
        which_code(list: &str) => "是哪一个？请回复 /approve 或 /deny 加代码：\n{list}";

        nothing_up_to(number: u32) => "编号 {number} 及之前没有内容。/memory 会列出最新的。";
        older_entries(number: u32) => "更早的：/memory {number}";
        how_to_forget() => "要忘掉某一条：/forget 加编号";
        own_changes() => "我自己改动或忘掉的内容，原来是：";
        how_to_undo() => "要恢复某一条：/memory undo 加编号";
        which_to_forget() => "要忘掉哪一条？请发送 /forget 加 /memory 列表中的编号，例如 /forget 2。";
        which_to_undo() => "/memory 会列出可以撤销的改动：请发送 /memory undo 加编号，例如 /memory undo 2。";
        memory_is_off() => "记忆已关闭：我不会保存我们对话中的内容，也不会使用此前保存的内容。/forget 仍然可以删除已有的内容。";
        no_memory_here() => "这里的对话不会保存到记忆中。";
        undone(number: u32, text: &str) => "已撤销。编号 {number} 恢复为：{text}";
        forgotten(number: u32) => "已忘掉编号 {number}。";

        spending_is_cut(messages: usize) => "只统计了最新的 {messages} 条消息。";

        time_zone_set(zone: TimeZone) => "你的时区现在是 {zone}。已设的提醒仍用原来的时区。";
        time_zone_of_all(zone: TimeZone) => "这里的时区是 {zone}。你自己的时区用于和我的私聊：请在那里使用 /timezone。";

        link_not_here() => "只有在与我的私聊中才能这样做。";
        links_are_off() => "关联功能没有开启。机器人的管理者可以设置 DM_SCOPE=user 来开启。";
        link_code(code: &str) =>
            "你的关联码是 {code}。请在十分钟内，到另一个渠道与我的私聊中发送 /link {code}。在两边都确认之前，不会建立关联。请不要把关联码告诉任何人。";
        wrong_code() => "这个关联码不正确、已经用过，或者已经过期。在另一个渠道发送 /link 可以得到新的。";
        too_many_wrong_codes() => "输错的次数太多了，请一小时后再试。";
        own_code() => "这个关联码是给另一个渠道用的：请在那里输入。";
        code_of(first: &str) =>
            "这是 {first} 的关联码。如果那是你，请在这里发送 /link yes，我会再到那边确认。如果不是你，或者关联码是别人给你的，请发送 /link no。";
        confirm_there(first: &str) => "现在请回到得到关联码的地方，也就是 {first}，发送 /link：我会在那里告诉你是谁在请求，由你确认。在此之前不会建立关联。";
        code_entered(second: &str) =>
            "{second} 输入了你的关联码，请求与你关联，共用这个对话以及我记得的关于你的一切。如果那是你，请发送 /link yes；如果不是，请发送 /link no。";
        nothing_to_confirm() => "这里没有需要确认的关联。发送 /link 可以得到给另一个渠道用的关联码。";
        nobody_entered_code() => "还没有人输入你的关联码并确认。请在另一个渠道发送 /link 加关联码，然后发送 /link yes。";
        link_cancelled() => "没有建立关联，关联码也已失效。";
        linked() => "关联成功：你在这里和那边与我共用同一个对话和同一份记忆。此前的消息留在原处，我知道它们的摘要。/unlink 可以解除关联。";
        too_many_identities(most: usize) => "没有关联：一个人最多可以有 {most} 个身份。";
        unlinked() => "已解除关联：每个渠道重新有各自的对话和记忆。";
        not_linked() => "这个渠道没有与其他渠道关联。发送 /link 可以关联。";
        linked_by_operator() => "这个渠道的关联由机器人的管理者设置，只有他们可以解除。";

        terminal_welcome() => "输入 /help 查看命令，按 Ctrl-D 离开。";
        other_program() => "通过正在运行的程序";
        earlier_messages() => "正在回答之前的消息";
        waiting() => "等待回答";
        summing_up() => "正在整理摘要";
        thinking() => "思考中";
        summed_up() => "摘要：";
        answer_stopped() => "已停止";
        broke_off() => "回答中断了，再试一次";
        once_more() => "再试一次";
        reconnecting() => "程序已结束，正在重新连接";
        answered_later() => "如果消息已经存储，稍后会得到回答。";
        not_waiting() => "不再等待，可以用 /history 查看结果";
        how_to_type() => "行末的 \\ 表示下一行继续。按 Ctrl-C 停止回答。";
        how_to_decide() => "y 允许，n 拒绝，其他文字作为拒绝的理由：";
        typed_ahead() => "已经输入了别的内容，请求先保留：用 /approve 或 /deny 决定";
        undecided() => "请求先保留：用 /approve 或 /deny 决定";
        call_failed(tool: &str, error: &str) => "{tool} 失败：{error}";
        call_denied(tool: &str) => "{tool} 未获允许";
        call_waits(tool: &str, id: &str) => "{tool} 等待批准：annals chat '/approve {id}'，或者 /deny";
        in_room(room: &str, person: &str) => "房间 {room}，身份 {person}";
    }
}

impl Texts for Zh {
    texts! {
        approval_recorded(tool: &str, missing: usize) => "已记录。{tool} 还需要另外 {missing} 位提问者批准，或由一位管理员批准。";
    }

    fn discord_locales(&self) -> &'static [&'static str] {
        &["zh-CN", "zh-TW"]
    }
    fn command(&self, name: CommandName) -> (&'static str, &'static str) {
        match name {
            CommandName::New => ("/new [消息]", "开始新对话，可以直接带上第一条消息"),
            CommandName::Reset => ("/reset", "重新开始，不再参考此前的对话"),
            CommandName::Stop => ("/stop", "停止回答"),
            CommandName::Compact => ("/compact [要保留的重点]", "把此前的对话整理成摘要"),
            CommandName::Memory => {
                ("/memory", "列出我从以往对话中记住的内容；/memory undo <编号> 可以撤销我的改动")
            }
            CommandName::Forget => ("/forget <编号>", "忘掉列表中的一条记忆"),
            CommandName::Approve => ("/approve [编号]", "批准我请求的操作"),
            CommandName::Deny => ("/deny [编号] [理由]", "拒绝我请求的操作"),
            CommandName::Link => ("/link [关联码]", "让你在这里和另一个渠道共用对话和记忆"),
            CommandName::Unlink => ("/unlink", "解除这个渠道与其他渠道的关联"),
            CommandName::Remind => ("/remind [时间 内容]", "在指定时间提醒；不带内容时列出全部提醒"),
            CommandName::Usage => ("/usage", "查看这个对话的 token 用量和费用"),
            CommandName::TimeZone => ("/timezone [时区]", "设置你的时区，例如 Asia/Shanghai；不带参数则查看"),
            CommandName::Help => ("/help", "显示这份列表"),
        }
    }
    fn option(&self, option: CommandOption) -> &'static str {
        match option {
            CommandOption::Prompt => "你的问题",
            CommandOption::File => "与问题有关的文件",
            CommandOption::FirstMessage => "新对话的第一条消息",
            CommandOption::Focus => "摘要必须保留的重点",
            CommandOption::Undo => "撤销机器人的改动",
            CommandOption::Number => "列表中的编号",
            CommandOption::EntryNumber => "/memory 列表中的编号",
            CommandOption::Which => "请求的编号或代码，或者 all（全部）",
            CommandOption::Reason => "告诉机器人的理由",
            CommandOption::Code => "另一个渠道给出的关联码，或者 yes、no",
            CommandOption::TimeZone => "你的时区，例如 Asia/Shanghai",
            CommandOption::Reminder => "时间和内容，例如：明天9点 开会",
        }
    }
    fn compacted(&self, counted: u32, kept: usize) -> String {
        match counted {
            0 => format!("没有可以整理的内容：最近 {kept} 条消息始终保持原样。"),
            n => format!("完成：{n} 条消息已整理成摘要，最近 {kept} 条保持原样。"),
        }
    }
    fn reminder_set(&self, text: &str, date: &str, repeats: Option<&str>, id: &str) -> String {
        let again = repeats.map_or(String::new(), |pattern| format!("，之后按 `{pattern}` 重复"));
        format!("我会在 {date} 提醒{again}：{text}\n\n发送 `/remind cancel {id}` 可以取消。")
    }
    fn scheduled_prompt(&self, prompt: &str, date: &str, late_at: Option<&str>) -> String {
        match late_at {
            None => format!("[定时任务，{date}]\n{prompt}"),
            Some(now) => format!("[定时任务，{date}；晚了：现在是 {now}，回答时请说明]\n{prompt}"),
        }
    }
    fn files_not_shown(&self, groups: &[FilesNotShown]) -> String {
        let told = groups.iter().map(|FilesNotShown { why, named, more }| {
            let others = if *more > 0 { format!("；还有 {more} 个") } else { String::new() };
            format!("{}{others}（{}）", named.join("；"), self.not_shown(*why))
        });
        format!("无法查看：{}。", told.collect::<Vec<_>>().join("。"))
    }
    fn not_shown(&self, why: NotShown) -> &'static str {
        match why {
            NotShown::Audio => "这里听不了声音",
            NotShown::Video => "这里看不了视频",
            NotShown::Document => "这里打不开这类文件",
            NotShown::Address => "这里不会打开网址",
            NotShown::Blind => "回答的模型看不了图片，或者看不了这一张",
            NotShown::TooMany => "图片太多，一次看不完",
            NotShown::Unseen(Unseen::TooLarge) => "超过 3.75 MB 或 8,000 像素",
            NotShown::Unseen(Unseen::NoImage) => "已损坏，或者不是 JPEG、PNG、GIF、WebP 图片",
            NotShown::Unseen(Unseen::Gone) => "已经无法获取",
            NotShown::Unavailable => "暂时无法获取",
        }
    }
    fn file_kind(&self, kind: &str) -> String {
        let kind = match kind {
            "image" | "photo" => "图片",
            "audio" => "音频",
            "video" | "media" => "视频",
            "voice message" => "语音消息",
            "video message" => "视频消息",
            "sticker" => "贴纸",
            "animation" => "动图",
            "live photo" => "实况照片",
            "file" => "文件",
            other => other,
        };
        kind.to_owned()
    }
    fn how_to_answer(&self, numbered: bool) -> &'static str {
        if numbered {
            "请回复 /approve 或 /deny 加编号，也可以写上理由。"
        } else {
            "请回复 /approve 或 /deny，也可以写上理由。"
        }
    }
    fn button(&self, approved: bool) -> &'static str {
        if approved { "✅ 批准" } else { "❌ 拒绝" }
    }
    fn verdict(&self, tool: &str, approved: bool, already: bool) -> String {
        let word = if approved { "批准" } else { "拒绝" };
        format!("{}{word}：{tool}。", if already { "此前已" } else { "已" })
    }
    fn request_again(&self, question: &str, commands: &[String]) -> String {
        let commands = commands.join(" 或 ");
        format!(
            "这个请求还在等待，之后又有了新的消息：\n\n{question}\n\n请回复 {commands}，或者 /deny 加代码。"
        )
    }
    fn remembered(&self, of: Whose) -> &'static str {
        match of {
            Whose::Yours => "我记得关于你的这些内容：",
            Whose::Chats => "我记得关于这个群的这些内容：",
        }
    }
    fn nothing_remembered(&self, of: Whose) -> &'static str {
        match of {
            Whose::Yours => "我还没有记住关于你的内容。",
            Whose::Chats => "我还没有记住关于这个群的内容。",
        }
    }
    fn entry(&self, entry: &EntryDescription<'_>) -> String {
        let EntryDescription { text, kind, said, day, until, is_pending, tools } = entry;
        let said = match said {
            Some(SaidIn::ThisChat) => "本会话，",
            Some(SaidIn::On(channel)) => &format!("{channel}，"),
            None => "",
        };
        let until = until.map(|until| format!("；有效至 {until}")).unwrap_or_default();
        let pending = if *is_pending { "；管理员批准后才会使用" } else { "" };
        let kind = match kind {
            EntryKind::Fact => "事实",
            EntryKind::Preference => "偏好",
            EntryKind::Decision => "决定",
            EntryKind::Task => "待办",
            EntryKind::Note => "备注",
        };
        let outside = tools.map(|tools| format!("；读取 {tools} 之后保存")).unwrap_or_default();
        format!("{text}（{kind}；{said}{day}{until}{pending}{outside}）")
    }
    fn own_change(&self, forgotten: bool, text: &str) -> String {
        format!("{}：{text}", if forgotten { "忘掉了" } else { "改动了" })
    }
    fn nothing_to_undo(&self, number: u32) -> String {
        format!("编号 {number} 没有可以撤销的改动。{}", self.which_to_undo())
    }
    fn no_such_entry(&self, number: u32) -> String {
        format!("/memory 的列表中没有编号 {number}。{}", self.which_to_forget())
    }
    fn spent_today(&self, by: Whose, spent: &Spending) -> String {
        match by {
            Whose::Chats => format!("这个对话今天：{}", shown(spent)),
            Whose::Yours => format!("其中你今天：{}", shown(spent)),
        }
    }
    fn spent_lately(&self, by: Whose, days: u64, spent: &Spending) -> String {
        match by {
            Whose::Chats => format!("最近 {days} 天：{}", shown(spent)),
            Whose::Yours => format!("其中你最近 {days} 天：{}", shown(spent)),
        }
    }
    fn limit_reached(&self, quota: &Quota, until: &str) -> String {
        let (whose, limit) = (whose_limit(quota.scope), amount(quota.limit));
        format!("{whose}今天的限额（{limit}）已用完。{until} 起我会继续回答。")
    }
    fn limit_near(&self, quota: &Quota) -> String {
        let (whose, limit) = (whose_limit(quota.scope), amount(quota.limit));
        format!("{whose}今天的限额为 {limit}，已用 {}。", number(quota.used))
    }
    fn limit_left(&self, quota: &Quota) -> String {
        let (whose, limit) = (whose_limit(quota.scope), amount(quota.limit));
        format!("{whose}今天的限额为 {limit}，还剩 {}", number(quota.left()))
    }
    fn time_zone(&self, zone: TimeZone, is_own: bool) -> String {
        let whose = if is_own { "你的时区是" } else { "你还没有选择时区，目前使用" };
        format!("{whose} {zone}。要更改：/timezone 加时区名，例如 Asia/Shanghai")
    }
    fn no_such_time_zone(&self, similar: Option<TimeZone>) -> String {
        let similar = similar.map(|zone| format!("你是指 {zone} 吗？")).unwrap_or_default();
        format!("没有这个时区。{similar}时区名的写法如 Asia/Shanghai 或 Europe/Berlin。")
    }
    fn side(&self, identity: &str, channel: Channel, name: Option<&str>) -> String {
        let channel = match channel {
            Channel::Lark => "飞书",
            Channel::Http => "HTTP API",
            Channel::Web => "网页",
            Channel::Terminal => "终端",
            platform => platform.title(),
        };
        let name = name.map(|name| format!("，在那里名为“{name}”")).unwrap_or_default();
        format!("{identity}（{channel}{name}）")
    }
    fn terminal_commands(&self) -> [(&'static str, &'static str); 2] {
        [("/history [条数]", "显示最近的消息"), ("/quit", "离开，也可以按 Ctrl-D")]
    }
    fn no_such_command(&self, name: &str, near: &[&str]) -> String {
        let hint = if near.is_empty() {
            "输入 /help 查看命令。".to_owned()
        } else {
            format!("你是想输入 {} 吗？", near.join(" 或 "))
        };
        format!("没有 {name} 这个命令：{hint}没有发送任何内容。")
    }
    fn file_of_reply(&self, name: Option<&str>, media_type: &str, url: &str) -> String {
        format!("文件：{}，{media_type}，{url}", name.unwrap_or("未命名"))
    }
}

fn whose_limit(scope: Scope) -> &'static str {
    match scope {
        Scope::Person => "你",
        Scope::Chat => "这个对话",
        Scope::Key => "这个应用",
    }
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Tokens(_) => format!("{} 个 token", number(amount)),
        Amount::Cost(_) => format!("{} 的费用", number(amount)),
    }
}

fn shown(spent: &Spending) -> String {
    let Spending { replies, read, written, cost, unpriced } = spent;
    let cost = match cost {
        Some(cost) if *unpriced > 0 => format!("，费用 {cost}，另有 {unpriced} 条没有价格"),
        Some(cost) => format!("，费用 {cost}"),
        None => String::new(),
    };
    format!("{} 条回复，读取 {read} 个 token，生成 {written} 个{cost}", thousands(*replies))
}
