//! Exports of other programs, of any size.

use std::io::{self, Write};

use serde_json::json;

use crate::telegram_api::BOT_ID;

/// Writes an export of Telegram Desktop of a talk of user 42 with the bot: `count` messages, a minute apart, the last at `last`, in
/// epoch seconds. A message takes some 500 bytes, as in real exports.
pub fn telegram(out: &mut impl Write, count: u32, last: i64) -> io::Result<()> {
    const WORDS: [&str; 12] = [
        "tomatoes", "water", "the", "garden", "soil", "tomorrow", "beans", "再", "明天", "plan", "numbers",
        "cat",
    ];
    write!(
        out,
        "{{\n \"name\": \"Annals\",\n \"type\": \"bot_chat\",\n \"id\": {BOT_ID},\n \"messages\": ["
    )?;
    for id in 1..=count {
        let said = (0..30).map(|at| WORDS[(id as usize * 7 + at * at) % WORDS.len()]);
        let text = format!("{id}: {}", said.collect::<Vec<_>>().join(" "));
        let (from, from_id) =
            if id % 2 == 0 { ("Annals", format!("user{BOT_ID}")) } else { ("Ada", "user42".to_owned()) };
        let date = last - i64::from(count - id) * 60;
        let message = json!({"id": id, "type": "message", "date": "2025-11-21T23:58:41", "date_unixtime": date.to_string(),
            "from": from, "from_id": from_id, "text": text, "text_entities": [{"type": "plain", "text": text}]});
        write!(out, "{}\n  {message:#}", if id == 1 { "" } else { "," })?;
    }
    write!(out, "\n ]\n}}\n")
}
