//! Rich texts: posts, titles of tasks, and cards in the form in which Lark returns them: [`pieces`].
//!
//! ```json
//! {"title": "Plans", "content": [[{"tag": "text", "text": "see "}, {"tag": "a", "text": "this", "href": "https://…"},
//!   {"tag": "at", "user_id": "@_user_1"}], [{"tag": "img", "image_key": "img_…"}]]}
//! {"zh_cn": {"title": "计划", "content": [[…]]}}     one body for each language, as some senders write it
//! ```
//!
//! Source: [received content](https://open.feishu.cn/document/server-docs/im-v1/message/events/message_content).

use annals_channel::json::JsonView;
use serde_json::{Map, Value};

use super::mention::Mentions;
use super::piece::{File, Piece, bracketed};
use super::readable;

/// Preferred languages of a body; the first one that exists is used.
const LANGUAGES: &[&str] = &["zh_cn", "en_us", "ja_jp", "zh_hk", "zh_tw"];

/// Maximum depth of nested elements. The columns of a card are the deepest in use.
const MAX_DEPTH: usize = 16;

/// Returns the pieces of `content`, in order; none if it is not a rich text or is empty.
pub(super) fn pieces(content: &Map<String, Value>, mentions: &Mentions<'_>) -> Vec<Piece> {
    let Some(body) = body(JsonView::of_map(content)) else { return Vec::new() };
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

/// Returns the body: `content` itself, or the body of one language in it.
fn body(content: JsonView<'_>) -> Option<JsonView<'_>> {
    let is_body = |view: &JsonView<'_>| paragraphs(*view).is_some();
    let inner = content.object("post").unwrap_or(content);
    let languages = LANGUAGES.iter().filter_map(|language| inner.object(language));
    let others = inner.map().values().filter_map(JsonView::of);
    std::iter::once(inner).chain(languages).chain(others).find(is_body)
}

fn paragraphs(body: JsonView<'_>) -> Option<&[Value]> {
    body.list("content").or_else(|| body.list("elements"))
}

struct Writer<'a> {
    mentions: &'a Mentions<'a>,
    text: String,
    pieces: Vec<Piece>,
}

impl Writer<'_> {
    fn element(&mut self, element: &Value, depth: usize) {
        let Some(view) = JsonView::of(element) else {
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

    fn mention(&self, at: JsonView<'_>) -> String {
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

    /// Ends a text piece, without the line breaks around it.
    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        let text = text.trim_matches('\n');
        if !text.trim().is_empty() {
            self.pieces.push(Piece::Text(text.to_owned()));
        }
    }
}
