use super::*;

/// Parses `text` on Tuesday, 24 November 2026, 10:00 in Shanghai.
fn read(text: &str) -> Option<String> {
    let zone = TimeZone::named("Asia/Shanghai").unwrap();
    let now = Timestamp::parse_rfc3339("2026-11-24T02:00:00Z").unwrap();
    let (timing, content) = match parse(text, now, zone)? {
        Ok(read) => read,
        Err(error) => return Some(error.to_string()),
    };
    let date = match timing {
        Timing::At(at) => instant(at).to_zoned(zone.rules()).strftime("%Y-%m-%d %H:%M").to_string(),
        Timing::Cron(pattern) => pattern,
    };
    Some(format!("{date} | {content}"))
}

#[test]
fn dates_are_read_in_both_languages() {
    for (text, wanted) in [
        ("9:00 stand-up", "2026-11-25 09:00 | stand-up"),
        ("tomorrow at 9 to call Bo", "2026-11-25 09:00 | call Bo"),
        ("at 9 to call Bo", "2026-11-25 09:00 | call Bo"),
        ("11am tea", "2026-11-24 11:00 | tea"),
        ("9 pm tea", "2026-11-24 21:00 | tea"),
        ("12am sleep", "2026-11-25 00:00 | sleep"),
        ("noon lunch", "2026-11-24 12:00 | lunch"),
        ("today 18:30, gym", "2026-11-24 18:30 | gym"),
        ("Tomorrow at 9:05 call", "2026-11-25 09:05 | call"),
        ("monday 9:00 report", "2026-11-30 09:00 | report"),
        ("tue 9:00 report", "2026-12-01 09:00 | report"),
        ("2026-12-01 9:00 rent", "2026-12-01 09:00 | rent"),
        ("in 20 minutes the oven", "2026-11-24 10:20 | the oven"),
        ("in 2h stretch", "2026-11-24 12:00 | stretch"),
        ("in an hour stretch", "2026-11-24 11:00 | stretch"),
        ("in 3 days pay", "2026-11-27 10:00 | pay"),
        ("in 2 hours and 5 minutes the oven", "2026-11-24 12:05 | the oven"),
        ("in 2h5m stretch", "2026-11-24 12:05 | stretch"),
        ("in 1 day, 2 h 5 min to stretch", "2026-11-25 12:05 | stretch"),
        ("in a day and an hour stretch", "2026-11-25 11:00 | stretch"),
        ("in 5 minutes 2 minute eggs", "2026-11-24 10:05 | 2 minute eggs"),
        ("in 2 hours a minute of silence", "2026-11-24 12:00 | a minute of silence"),
        ("in 2 hours 5 bottles", "2026-11-24 12:00 | 5 bottles"),
        ("every day 9:00 water", "0 9 * * * | water"),
        ("every weekday at 9:15 stand-up", "15 9 * * 1-5 | stand-up"),
        ("every Sunday 20:00 plan", "0 20 * * 0 | plan"),
        ("9点开会", "2026-11-25 09:00 | 开会"),
        ("明天9点半提醒我开会", "2026-11-25 09:30 | 开会"),
        ("下午3点20 喝水", "2026-11-24 15:20 | 喝水"),
        ("晚上8点：写日报", "2026-11-24 20:00 | 写日报"),
        ("后天 9:30 体检", "2026-11-26 09:30 | 体检"),
        ("周一9点交报告", "2026-11-30 09:00 | 交报告"),
        ("20分钟后关火", "2026-11-24 10:20 | 关火"),
        ("半小时后 开会", "2026-11-24 10:30 | 开会"),
        ("3天后交租", "2026-11-27 10:00 | 交租"),
        ("2小时5分钟后关火", "2026-11-24 12:05 | 关火"),
        ("1天2个小时零5分后 关火", "2026-11-25 12:05 | 关火"),
        ("每天9点喝水", "0 9 * * * | 喝水"),
        ("每周五18点写周报", "0 18 * * 5 | 写周报"),
        ("工作日9点站会", "0 9 * * 1-5 | 站会"),
        ("at 5pm tomorrow call mom", "2026-11-25 17:00 | call mom"),
        ("5pm friday report", "2026-11-27 17:00 | report"),
        ("at 5 p.m. on Friday, report", "2026-11-27 17:00 | report"),
        ("on friday at 9 o'clock report", "2026-11-27 09:00 | report"),
        ("9:00 every day water", "0 9 * * * | water"),
        ("at 9 every weekday x", "0 9 * * 1-5 | x"),
        ("9:30 p.m. call", "2026-11-24 21:30 | call"),
        ("at 9.30 call Bo", "2026-11-25 09:30 | call Bo"),
        ("at 9 in the evening call Bo", "2026-11-24 21:00 | call Bo"),
        ("at 8 tonight call Bo", "2026-11-24 20:00 | call Bo"),
        ("tonight at 8 call Bo", "2026-11-24 20:00 | call Bo"),
        ("9:00 2 pills", "2026-11-25 09:00 | 2 pills"),
        ("每早上8点吃药", "0 8 * * * | 吃药"),
        ("每晚上10点吃药", "0 22 * * * | 吃药"),
        ("中午12点半 吃饭", "2026-11-24 12:30 | 吃饭"),
        ("明天中午12点30分开会", "2026-11-25 12:30 | 开会"),
        ("中午1点吃饭", "2026-11-24 13:00 | 吃饭"),
        ("明天9点一刻开会", "2026-11-25 09:15 | 开会"),
        ("9点十分开会", "2026-11-25 09:10 | 开会"),
        ("8点零5分开会", "2026-11-25 08:05 | 开会"),
        ("9点一起吃饭", "2026-11-25 09:00 | 一起吃饭"),
        ("晚上20点吃药", "2026-11-24 20:00 | 吃药"),
        ("me in 20 minutes to stretch", "2026-11-24 10:20 | stretch"),
        ("提醒我明天九点开会", "2026-11-25 09:00 | 开会"),
        ("今晚8点吃药", "2026-11-24 20:00 | 吃药"),
        ("明早9点吃药", "2026-11-25 09:00 | 吃药"),
        ("每晚10点吃药", "0 22 * * * | 吃药"),
        ("一小时后关火", "2026-11-24 11:00 | 关火"),
        ("二十分钟后关火", "2026-11-24 10:20 | 关火"),
        ("１０：３０ ５本书", "2026-11-24 10:30 | ５本书"),
    ] {
        assert_eq!(read(text).as_deref(), Some(wanted), "{text}");
    }
}

#[test]
fn a_date_ends_where_the_text_begins() {
    for (text, wanted) in [
        ("3天后上午9点交租", "2026-11-27 09:00 | 交租"),
        ("两周后 18:30 聚餐", "2026-12-08 18:30 | 聚餐"),
        ("in 2 days at 9am call Bo", "2026-11-26 09:00 | call Bo"),
        ("at 9 in 2 weeks call Bo", "2026-12-08 09:00 | call Bo"),
        ("in 2 days in the evening at 8 call Bo", "2026-11-26 20:00 | call Bo"),
        ("in 5 minutes monday report", "2026-11-24 10:05 | monday report"),
        ("in 20 minutes 1:1 with Bo", "2026-11-24 10:20 | 1:1 with Bo"),
        ("9点和小王开会", "2026-11-25 09:00 | 和小王开会"),
        ("at 9 bread and butter", "2026-11-25 09:00 | bread and butter"),
        ("明天9点整理房间", "2026-11-25 09:00 | 整理房间"),
        ("明天9点整开会", "2026-11-25 09:00 | 开会"),
        ("晚上6点点外卖", "2026-11-24 18:00 | 点外卖"),
        ("9点钟点工来", "2026-11-25 09:00 | 钟点工来"),
        ("9点钟开会", "2026-11-25 09:00 | 开会"),
        ("9点半小时会议", "2026-11-25 09:00 | 半小时会议"),
        ("9点半小组会", "2026-11-25 09:30 | 小组会"),
        ("明天8点千万不要迟到", "2026-11-25 08:00 | 千万不要迟到"),
        ("9点万一下雨带伞", "2026-11-25 09:00 | 万一下雨带伞"),
        ("每天8点两百个俯卧撑", "0 8 * * * | 两百个俯卧撑"),
        ("每天8点二十个俯卧撑", "0 8 * * * | 二十个俯卧撑"),
        ("明天9点四六级考试", "2026-11-25 09:00 | 四六级考试"),
        ("9点五一放假通知", "2026-11-25 09:00 | 五一放假通知"),
        ("9点二十五开会", "2026-11-25 09:25 | 开会"),
        ("9点零五开会", "2026-11-25 09:05 | 开会"),
        ("at 8 tomorrow evening call mom", "2026-11-25 20:00 | call mom"),
        ("at 9 tomorrow night call mom", "2026-11-25 21:00 | call mom"),
        ("8am tomorrow evening class", "2026-11-25 08:00 | evening class"),
        ("18:00 tomorrow night shift", "2026-11-25 18:00 | night shift"),
        ("at 8 on friday in the evening dinner", "2026-11-27 20:00 | dinner"),
        ("tomorrow morning at 9 call", "2026-11-25 09:00 | call"),
        ("every morning at 8 pills", "0 8 * * * | pills"),
        ("at 9 every night pills", "0 21 * * * | pills"),
        ("every monday evening at 7 gym", "0 19 * * 1 | gym"),
        ("at 10 at night sleep", "2026-11-24 22:00 | sleep"),
        ("每天8点 2粒维生素", "0 8 * * * | 2粒维生素"),
        ("每天8点 100个俯卧撑", "0 8 * * * | 100个俯卧撑"),
        ("下午3点 3号会议室开会", "2026-11-24 15:00 | 3号会议室开会"),
        ("every day 22:00 tomorrow's plan", "0 22 * * * | tomorrow's plan"),
        ("每天22点明天的计划", "0 22 * * * | 明天的计划"),
        ("at 9. Call Bo", "2026-11-25 09:00 | Call Bo"),
        ("at 9: call Bo", "2026-11-25 09:00 | call Bo"),
        ("at 5pm tomorrow: call mom", "2026-11-25 17:00 | call mom"),
    ] {
        assert_eq!(read(text).as_deref(), Some(wanted), "{text}");
    }
}

#[test]
fn a_date_is_read_with_and_without_an_offset() {
    let zone = TimeZone::named("Asia/Shanghai").unwrap();
    let read = |text| date(text, zone).map(Timestamp::rfc3339);
    for text in
        ["2026-11-25T09:00:00+08:00", "2026-11-25T01:00:00Z", "2026-11-25T09:00", "2026-11-25 09:00:00"]
    {
        assert_eq!(read(text).as_deref(), Some("2026-11-25T01:00:00.000Z"), "{text}");
    }
    for text in ["", "tomorrow", "09:00", "2026-13-01T00:00", "1969-01-01T00:00Z"] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn a_text_without_a_date_or_content_is_none() {
    let others = "|call Bo|9:00|in 20 minutes|9:5 x|25:00 x|in a while x|13pm x|明天|9apples|9 bottles|\
        晚上12点 x|明天晚上1点半 x|tomorrow 9 x|in an hour and a half x|in 2 hours and x|in 2 hours, and a half x|5分钟2小时后 x|\
        every 9am pills|at 9 every other day x|9am sun cream|5pm fri report|tomorrow 9:00 monday x|9:00 at 10 x|at 9 30 x|\
        at 9.30.2026 x|9点今天的日报|明天9点3楼开会|下午3点2号会议室|9点10分钟会议|\
        两周后周一9点开会|3天后9点3楼开会|3天后的9点开会|in 2 days at 9 30 x|in 2 days at 9 at 10 x|in 20 minutes at 9 x|\
        at 9 in 2 hours x|每天早上8点和晚上8点吃药|每天8点以及20点吃药|每天9点、12点、18点喝水|每周一9点和周五开会|9点 每周一、三 开会|\
        每天9点每周五开会|明天9点周一|9:00 and 21:00 every day pills|at 9 and 10 pills|9am every monday and friday gym|\
        at 9 and a half x|8:00/20:00 pills|9点 30开会|at 9. 30 x|9点 1月12日交租|9点20个人开会";
    for text in others.split('|') {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn a_date_that_is_past_or_too_far_is_an_error() {
    for text in ["today 9:00 x", "2026-11-23 9:00 x", "2099-01-01 9:00 x"] {
        assert_eq!(
            read(text).as_deref(),
            Some("it never comes due: its date is past, or more than five years away"),
            "{text}"
        );
    }
}
