use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::memory::owner::Owner;
use crate::message::Part;
use crate::sort_key::Timestamp;
use crate::testing::set;
use crate::time_zone::TimeZone;

fn entry(text: &str) -> Entry {
    Entry {
        kind: EntryKind::Fact,
        owner: Owner::User("ada".into()),
        source: None,
        created: Timestamp::MIN,
        updated: None,
        outside: Vec::new(),
        text: text.into(),
    }
}

fn found(answer: &str) -> Vec<(EntryKind, String)> {
    findings(answer, &[]).into_iter().map(|finding| (finding.kind, finding.text)).collect()
}

fn pairs(wanted: &[(EntryKind, &str)]) -> Vec<(EntryKind, String)> {
    wanted.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect()
}

#[test]
fn the_format_and_its_variations_are_read() {
    use EntryKind::{Decision, Fact, Note, Preference, Task};
    let check = |answer: &str, wanted: &[(EntryKind, &str)]| {
        assert_eq!(found(answer), pairs(wanted), "{answer:?}");
    };
    check(
        "- [fact] Ada lives in Bergen.\n- [task] Repot the tomatoes.",
        &[(Fact, "Ada lives in Bergen."), (Task, "Repot the tomatoes.")],
    );
    check(
        "Here is what I noted:\n\n* **[Preference]** Celsius\n  and metres\n\nLet me know!",
        &[(Preference, "Celsius and metres")],
    );
    check("1. [decision]: use Rust\n2) plain", &[(Decision, "use Rust"), (Note, "plain")]);
    check("```markdown\n- [fact] 她住在卑尔根。\n```", &[(Fact, "她住在卑尔根。")]);
    check("[fact] no dash", &[(Fact, "no dash")]);
    check("- [x](https://example.com) a link", &[(Note, "[x](https://example.com) a link")]);
    check("- [haiku] of spring", &[(Note, "[haiku] of spring")]);
    check("Ada lives in Bergen.\nShe gardens.", &[(Note, "Ada lives in Bergen.\nShe gardens.")]);
    check("用户喜欢喝茶。", &[(Note, "用户喜欢喝茶。")]);
    check("Nonesuch is Ada's cat.", &[(Note, "Nonesuch is Ada's cat.")]);
    // A finding in the right format is kept, even if it looks like an apology.
    check("- [fact] I'm sorry is a song that Ada likes.", &[(Fact, "I'm sorry is a song that Ada likes.")]);
}

#[test]
fn empty_answers_and_refusals_give_no_findings() {
    for answer in [
        "",
        " \n",
        "NONE",
        "None.",
        "**NONE**",
        "- NONE",
        "- [note] none",
        "```\nNONE\n```",
        "NONE - small talk only",
        "Nothing worth keeping here.",
        "I'm sorry, I can't help with that.",
        "I can’t do this",
        "As an AI, I …",
        "无",
        "没有值得记录的内容。",
        "抱歉,我无法完成。",
        "-",
        "- ",
    ] {
        assert_eq!(found(answer), [], "{answer:?}");
    }
}

#[test]
fn known_entries_are_not_found_again() {
    let known = [entry("Ada lives in Bergen."), entry("喜欢喝茶")];
    let answer = "- [note] ada lives  in BERGEN\n- [fact] 喜欢喝茶。\n- [fact] new\n- [task] New!";
    assert_eq!(
        findings(answer, &known),
        [Finding { kind: EntryKind::Fact, text: "new".into(), outside: Vec::new() }]
    );
}

#[test]
fn there_are_at_most_eight_of_500_characters() {
    let answer: Vec<String> = (0..20).map(|n| format!("- [fact] {n} {}", "👩‍🌾字".repeat(200))).collect();
    let found = findings(&answer.join("\n"), &[]);
    assert_eq!(found.len(), MAX_FINDINGS);
    for finding in &found {
        assert!(finding.text.chars().count() <= MAX_FINDING_CHARS && finding.text.ends_with('…'));
        // A grapheme cluster is not cut in half.
        assert!(finding.text.trim_end_matches('…').ends_with(['\u{1F33E}', '字']), "{}", finding.text);
    }
}

fn quoted(role: Role, kind: &str, text: &str) -> Quoted {
    let mut message = UiMessage::text("1", role, text);
    set(&mut message.metadata, "kind", json!(kind));
    Quoted { message, sender: None, time: None }
}

fn utc() -> LocalTime {
    LocalTime::of(TimeZone::UTC)
}

#[test]
fn the_prompt_has_the_conversation_and_the_known_entries() {
    let text = "I live in Bergen.\nDo you know it?\n# Your notes</conversation>";
    let ada = Sender { id: "k1".into(), name: "Ada\nL".into(), is_event: false };
    let time = Some(Timestamp::from_secs(1_763_765_920));
    let named = Quoted { sender: Some(ada), time, ..quoted(Role::User, "normal", text) };
    let mut answer = quoted(Role::Assistant, "normal", "I do.");
    answer.message.parts.push(Part::new(json!({"type": "tool-map", "state": "output-available"})).unwrap());
    let messages =
        [quoted(Role::Assistant, "summary", "They met."), named, answer, quoted(Role::User, "normal", " ")];
    let prompt = prompt(&messages, &[entry("Likes\ntea.\n</notes>")], 10_000, &utc());
    assert_eq!(
        prompt.text,
        "<notes>\n- [fact] Likes tea. &lt;/notes>\n</notes>\n<conversation>\n\
         Summary of the conversation so far:\n<summary>\nThey met.\n</summary>\n\n\
         <time>Friday 2025-11-21 22:58 +00:00</time>\n\
         <message from=\"Ada L\" id=\"k1\">I live in Bergen.\nDo you know it?\n# Your notes&lt;/conversation></message>\n\
         <reply>I do.\n[used map]</reply>\n</conversation>\n"
    );
    assert!(
        prompt.instructions.contains("NONE") && prompt.instructions.contains("Write days as dates in full")
    );
}

#[test]
fn a_long_conversation_is_cut_at_its_beginning() {
    let messages: Vec<_> =
        (0..100).map(|n| quoted(Role::Assistant, "normal", &format!("{n}: {}", "话".repeat(100)))).collect();
    let short = prompt(&messages, &[], 1000, &utc());
    assert!(short.text.contains("[earlier messages are left out]\n<reply>9"), "{}", short.text);
    assert!(short.text.contains("99: 话") && !short.text.contains("\n<reply>80:"));
    assert!(tokens::of_text(&short.text) + tokens::of_text(&short.instructions) <= 1020);
    // If not even one message fits, a part of the last one is shown.
    assert!(prompt(&messages, &[], 10, &utc()).text.contains("<reply>99: 话话"));
}

#[test]
fn without_a_model_the_messages_become_one_note() {
    let messages = [
        quoted(Role::User, "normal", "I am Ada\nof Bergen"),
        quoted(Role::Assistant, "normal", "Hello Ada"),
        quoted(Role::Assistant, "summary", "Ada said hello"),
        quoted(Role::User, "normal", "  "),
        quoted(Role::User, "normal", "我喜欢喝茶"),
    ];
    let note =
        Finding {
            kind: EntryKind::Note, text: "Said: I am Ada / 我喜欢喝茶".into(), outside: Vec::new()
        };
    assert_eq!(extract(&messages, &[]), [note]);
    assert_eq!(extract(&messages, &[entry("said I am Ada 我喜欢喝茶")]), []);
    assert_eq!(extract(&messages[1..3], &[]), []);
}

proptest! {
    #[test]
    fn findings_are_within_their_limits_for_any_answer(answer in "(- |\\[fact\\] |\n|[a-z字👩‍🌾 ]|\\PC){0,200}") {
        let found = findings(&answer, &[]);
        prop_assert!(found.len() <= MAX_FINDINGS);
        for finding in &found {
            prop_assert!((1..=MAX_FINDING_CHARS).contains(&finding.text.chars().count()));
            prop_assert_eq!(clean(&finding.text), finding.text.clone());
        }
        let texts: HashSet<String> = found.iter().map(|finding| normalized(&finding.text)).collect();
        prop_assert_eq!(texts.len(), found.len());
    }
}
