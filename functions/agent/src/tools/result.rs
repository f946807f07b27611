//! Results of calls: [`Output`], shortened by [`cut_to`].

use annals_core::tokens;
use serde_json::Value;

/// The result of a call for the model, or the reason why there is none.
pub(crate) type Output = Result<Value, String>;

/// Returns `output`, or if that takes more than `limit` tokens, its beginning and its end as text with a note between.
pub(crate) fn cut_to(output: &Value, limit: u32) -> Value {
    let text = match output {
        Value::String(text) => text.clone(),
        output => output.to_string(),
    };
    let takes = tokens::of_text(&text);
    if takes <= limit {
        return output.clone();
    }
    let length = text.chars().count();
    let mut kept = length * limit as usize / takes.max(1) as usize;
    loop {
        let note =
            format!("\n[… the result is too long: {} characters are left out here …]\n", length - kept);
        let (head, tail) = (kept - kept / 4, kept / 4);
        let head: String = text.chars().take(head).collect();
        let tail: String = text.chars().skip(length - tail).collect();
        let cut = format!("{head}{note}{tail}");
        // The note counts, and so does that one end may be denser than the whole.
        if kept == 0 || tokens::of_text(&cut) <= limit {
            return cut.into();
        }
        kept = kept * 4 / 5;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_short_result_is_unchanged() {
        for output in [json!({"a": [1, 2]}), json!("text"), json!(null), json!("x".repeat(400))] {
            assert_eq!(cut_to(&output, 200), output);
        }
    }

    #[test]
    fn a_long_result_keeps_both_ends_and_says_how_much_is_missing() {
        let long = format!("BEGIN {} {} END", "lorem ipsum ".repeat(3000), "河".repeat(500));
        for (output, limit) in [(json!(long), 500), (json!({"text": long}), 100), (json!(long), 30)] {
            let cut = cut_to(&output, limit);
            let text = cut.as_str().unwrap();
            assert!(tokens::of_text(text) <= limit, "{limit}: {text}");
            assert!(text.contains("characters are left out here"), "{text}");
        }
        let cut = cut_to(&json!(long), 500);
        assert!(cut.as_str().unwrap().starts_with("BEGIN ") && cut.as_str().unwrap().ends_with(" END"));
        // Even with room for nothing, it ends.
        assert!(cut_to(&json!(long), 0).as_str().unwrap().starts_with("\n[…"));
    }
}
