//! The result of a call of an external tool, for the model: [`output`].

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use crate::tools::result::Output;

/// Returns the structured result if there is one, else the texts. Content that is not text is named.
pub(super) fn output(result: &CallToolResult) -> Output {
    let texts: Vec<String> = result.content.iter().map(block).collect();
    if result.is_error == Some(true) {
        let text = texts.join("\n");
        return Err(if text.trim().is_empty() {
            "the tool failed, and does not say why".into()
        } else {
            text
        });
    }
    let Some(structured) = &result.structured_content else {
        let text = texts.join("\n");
        return Ok(if text.is_empty() { "done; the tool gave nothing back".into() } else { text.into() });
    };
    // The text repeats it for older clients; other content is not in it.
    let others: Vec<String> =
        result.content.iter().filter(|content| content.as_text().is_none()).map(block).collect();
    if others.is_empty() {
        return Ok(structured.clone());
    }
    Ok(json!({"result": structured, "beside": others}))
}

fn block(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => named("an image", Some(&image.mime_type), size(&image.data)),
        ContentBlock::Audio(audio) => named("a sound", Some(&audio.mime_type), size(&audio.data)),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                named(&format!("a file, {uri}"), mime_type.as_deref(), size(blob))
            }
            _ => "[a resource that cannot be shown here]".into(),
        },
        ContentBlock::ResourceLink(link) => {
            let description =
                link.description.as_deref().map(|description| format!(": {description}")).unwrap_or_default();
            format!("[a link to {}, {}{description}]", link.name, link.uri)
        }
        other => match serde_json::to_value(other) {
            Ok(Value::Object(fields)) => {
                let kind = fields.get("type").and_then(Value::as_str).unwrap_or("another kind");
                format!("[content of type {kind}, which cannot be shown here]")
            }
            _ => "[content that cannot be shown here]".into(),
        },
    }
}

fn named(what: &str, media_type: Option<&str>, bytes: usize) -> String {
    let media_type = media_type.map(|media_type| format!(" ({media_type})")).unwrap_or_default();
    format!("[{what}{media_type} of {bytes} bytes, which cannot be shown here]")
}

/// Returns the length in bytes of the content of `base64`.
fn size(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: Value, wanted: Result<Value, &str>) {
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        assert_eq!(output(&result), wanted.map_err(str::to_owned));
    }

    #[test]
    fn results_are_passed_on_and_content_that_is_not_text_is_named() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let named = "[an image (image/png) of 3 bytes, which cannot be shown here]";
        check(json!({"content": [text("a"), text("b")]}), Ok(json!("a\nb")));
        check(json!({"content": []}), Ok(json!("done; the tool gave nothing back")));
        check(json!({"content": [text("{}")], "structuredContent": {"n": 1}}), Ok(json!({"n": 1})));
        check(
            json!({"content": [text("{}"), image], "structuredContent": [1]}),
            Ok(json!({"result": [1], "beside": [named]})),
        );
        check(json!({"content": [image]}), Ok(json!(named)));
        let link =
            json!({"type": "resource_link", "name": "log", "uri": "file:///log", "description": "today's"});
        check(json!({"content": [link]}), Ok(json!("[a link to log, file:///log: today's]")));
        let file = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "said"}});
        check(json!({"content": [file]}), Ok(json!("[file:///a]\nsaid")));
        let blob =
            json!({"type": "resource", "resource": {"uri": "file:///b", "blob": "AA==", "mimeType": "x/y"}});
        check(
            json!({"content": [blob]}),
            Ok(json!("[a file, file:///b (x/y) of 1 bytes, which cannot be shown here]")),
        );
    }

    #[test]
    fn a_failed_call_is_an_error() {
        let failed = |content: Value| json!({"content": content, "isError": true});
        check(failed(json!([{"type": "text", "text": "no such order"}])), Err("no such order"));
        check(failed(json!([])), Err("the tool failed, and does not say why"));
    }
}
