//! Rich texts: posts, the titles of tasks, and cards as Lark gives them back: [`pieces`].
//!
//! ```json
//! {"title": "Plans", "content": [[{"tag": "text", "text": "see "}, {"tag": "a", "text": "this", "href": "https://…"},
//!   {"tag": "at", "user_id": "@_user_1"}], [{"tag": "img", "image_key": "img_…"}]]}
//! {"zh_cn": {"title": "计划", "content": [[…]]}}     one body for each language, as some senders write it
//! ```
//!
//! Source: [received content](https://open.feishu.cn/document/server-docs/im-v1/message/events/message_content).

use serde_json::{Map, Value};

use super::content::{File, Piece, bracketed};
use super::mention::Mentions;
use super::readable;
use crate::channel::view::View;

/// The languages that a body is taken in, the first that is there.
const LANGUAGES: &[&str] = &["zh_cn", "en_us", "ja_jp", "zh_hk", "zh_tw"];

/// How deep elements may stand in elements; a card's columns are the deepest in use.
const MAX_DEPTH: usize = 16;

/// The pieces of `content`, in their order; none where it is no rich text or an empty one.
pub(super) fn pieces(content: &Map<String, Value>, mentions: &Mentions<'_>) -> Vec<Piece> {
    let Some(body) = body(View::of_map(content)) else { return Vec::new() };
    let mut writer = Writer { mentions, text: String::new(), pieces: Vec::new() };
    if let Some(title) = body.text("title") {
        writer.text.push_str(title);
        writer.text.push('\n');
    }
    for paragraph in paragraphs(body).unwrap_or_default() {
        match paragraph {
            Value::Array(elements) => {
                for element in elements {
                    writer.element(element, 0);
                }
            }
            element => writer.element(element, 0),
        }
        writer.text.push('\n');
    }
    writer.end_text();
    writer.pieces
}

/// The body that `content` is, or holds for a language.
fn body(content: View<'_>) -> Option<View<'_>> {
    let is_body = |view: &View<'_>| paragraphs(*view).is_some();
    let inner = content.object("post").unwrap_or(content);
    let languages = LANGUAGES.iter().filter_map(|language| inner.object(language));
    let others = inner.map().values().filter_map(View::of);
    std::iter::once(inner).chain(languages).chain(others).find(is_body)
}

fn paragraphs(body: View<'_>) -> Option<&[Value]> {
    body.list("content").or_else(|| body.list("elements"))
}

struct Writer<'a> {
    mentions: &'a Mentions<'a>,
    text: String,
    pieces: Vec<Piece>,
}

impl Writer<'_> {
    fn element(&mut self, element: &Value, depth: usize) {
        let Some(view) = View::of(element) else {
            self.text.push_str(element.as_str().unwrap_or_default());
            return;
        };
        let text = view.text("text").unwrap_or_default();
        let words = match view.text("tag").unwrap_or_default() {
            "text" | "md" => text.to_owned(),
            "a" => match view.text("href") {
                Some(href) if text.is_empty() || href == text => href.to_owned(),
                Some(href) => format!("[{text}]({href})"),
                None => text.to_owned(),
            },
            "at" => self.mention(view),
            "img" => return self.file(view.text("image_key").map(File::image), "[image]"),
            "media" => {
                let video = view.text("file_key").map(|key| File::of(key, "video/mp4", None));
                return self.file(video, "[video]");
            }
            "emotion" => bracketed(view.text("emoji_type").unwrap_or("emoji"), None),
            "hr" => "---".to_owned(),
            "code_block" => {
                let language = view.text("language").unwrap_or_default().to_ascii_lowercase();
                format!("```{language}\n{}\n```", text.trim_end_matches('\n'))
            }
            "button" if !text.is_empty() => {
                if !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) {
                    self.text.push(' ');
                }
                bracketed(text, None)
            }
            _ => match view.list("elements") {
                Some(elements) if depth < MAX_DEPTH => {
                    for element in elements {
                        self.element(element, depth + 1);
                    }
                    return;
                }
                _ => readable::strings(element).join(", "),
            },
        };
        self.text.push_str(&words);
    }

    fn mention(&self, at: View<'_>) -> String {
        let id = at.text("user_id").or_else(|| at.text("open_id")).unwrap_or_default();
        match (self.mentions.key_of(id), at.text("user_name")) {
            (Some(key), _) => key.to_owned(),
            (None, Some(name)) => format!("@{name}"),
            (None, None) => format!("@{}", id.trim_start_matches('@')),
        }
    }

    fn file(&mut self, file: Option<File>, otherwise: &str) {
        match file {
            Some(file) => {
                self.end_text();
                self.pieces.push(Piece::File(file));
            }
            None => self.text.push_str(otherwise),
        }
    }

    /// Ends a stretch of text, without the line breaks around it.
    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        let text = text.trim_matches('\n');
        if !text.trim().is_empty() {
            self.pieces.push(Piece::Text(text.to_owned()));
        }
    }
}
