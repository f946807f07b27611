use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::message::Part;
use crate::sort_key::Timestamp;
use crate::testing::{entry, set};
use crate::time_zone::TimeZone;

/// Parses an answer to a conversation in which a person said all that it says.
fn found(answer: &str) -> Vec<(EntryKind, String)> {
    let said = [quoted(Role::User, "normal", answer)];
    findings(answer, &said, &[]).into_iter().map(|finding| (finding.kind, finding.text)).collect()
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
    let empty = "| \n|NONE|None.|**NONE**|- NONE|- [note] none|```\nNONE\n```|NONE - small talk only|\
        Nothing worth keeping here.|I'm sorry, I can't help with that.|I can’t do this|As an AI, I …|无|\
        没有值得记录的内容。|抱歉,我无法完成。|-|- ";
    for answer in empty.split('|') {
        assert_eq!(found(answer), [], "{answer:?}");
    }
}

#[test]
fn known_entries_are_not_found_again() {
    let known = [entry(1, "Ada lives in Bergen."), entry(2, "喜欢喝茶")];
    let answer = "- [note] ada lives  in BERGEN\n- [fact] 喜欢喝茶。\n- [fact] new\n- [task] New!";
    let said = [quoted(Role::User, "normal", answer)];
    assert_eq!(findings(answer, &said, &known), [Finding::new(EntryKind::Fact, "new".into())]);
}

#[test]
fn citations_are_read_however_they_are_written() {
    let check = |text: &str, messages: &[usize], replaces: Option<u32>, rest: &str| {
        let citation = Citation { messages: messages.to_vec(), replaces };
        assert_eq!(Citation::take(text), (citation, rest), "{text:?}");
    };
    check("(m3) Likes tea.", &[3], None, "Likes tea.");
    check("(m3, m5, replaces 2) Likes tea.", &[3, 5], Some(2), "Likes tea.");
    check("(m3) (replaces #2): Likes tea.", &[3], Some(2), "Likes tea.");
    check("[m3-m5] Likes tea (green).", &[3, 4, 5], None, "Likes tea (green).");
    check("（m3，m5；替换 2）喜欢喝茶。", &[3, 5], Some(2), "喜欢喝茶。");
    check("Likes tea. (from m3 and m4)", &[3, 4], None, "Likes tea.");
    check("Likes tea (m3).", &[3], None, "Likes tea");
    check("(replaces note 2, m7) Tea", &[7], Some(2), "Tea");
    check("(green) tea (m)", &[], None, "(green) tea (m)");
    check("() (3) x", &[], None, "() (3) x");
    check("", &[], None, "");
}

/// Messages 1 and 3 are Ada's, 2 and 4 the assistant's.
fn dialogue() -> [Quoted; 4] {
    let at = |place: i64, role, text: &str| {
        let time = Timestamp::from_secs(1_763_765_920 + 60 * place);
        let id = MessageId::number(u64::try_from(place).unwrap());
        let origin = Some((SortKey::message(time, &id), id));
        Quoted { time: Some(time), origin, ..quoted(role, "normal", text) }
    };
    [
        at(1, Role::User, "I work at Acme now, no longer at Initech."),
        at(2, Role::Assistant, "Shall I note that you like window seats?"),
        at(3, Role::User, "Yes please"),
        at(4, Role::Assistant, "You are 40 years old."),
    ]
}

#[test]
fn a_finding_is_of_the_people_s_messages_that_it_cites() {
    let known = [entry(3, "Works at Initech.")];
    let mut newer = entry(5, "Lives in Oslo.");
    newer.entry.supersedes = vec![4, 2];
    let known = [known[0].clone(), newer];
    let said = dialogue();
    let place = |n: usize| said[n - 1].origin.clone().unwrap();
    let passage = |from: usize, to: usize| {
        let ((from, from_id), (to, to_id)) = (place(from), place(to));
        Some(Passage { from_id, to_id, from, to })
    };
    let job = Finding {
        supersedes: vec![3],
        passage: passage(1, 1),
        ..Finding::new(EntryKind::Fact, "Works at Acme.".into())
    };
    assert_eq!(findings("- [fact] (m1, replaces 3) Works at Acme.", &said, &known), [job]);
    // Of the assistant's messages only what a person has agreed to.
    let seat = Finding {
        passage: passage(3, 3),
        ..Finding::new(EntryKind::Preference, "Likes window seats.".into())
    };
    assert_eq!(findings("- [preference] (m2, m3) Likes window seats.", &said, &[]), [seat]);
    let both = &findings("- [fact] (m1, m3) Works at Acme.", &said, &[])[0];
    assert_eq!(both.passage, passage(1, 3));
    for dropped in [
        "(m4) Is 40 years old.",
        "(m9) Works at Acme.",
        "(m3) Works at Acme, as a baker.",
        "Is 40 years old.",
    ] {
        assert_eq!(findings(&format!("- [fact] {dropped}"), &said, &known), [], "{dropped}");
    }
    // Without a citation it is of the whole Session; an unknown number replaces nothing.
    let uncited = findings("- [fact] (replaces 9) Works at Acme.", &said, &known);
    assert_eq!(uncited, [Finding::new(EntryKind::Fact, "Works at Acme.".into())]);
    // What had been superseded stays so.
    let again = &findings("- [fact] (m1, replaces 5) Works at Acme now.", &said, &known)[0];
    assert_eq!(again.supersedes, [5, 4, 2]);
    // What a note says already is not found again, also as its replacement.
    assert_eq!(findings("- [fact] (m1, replaces 3) Works at Initech", &said, &known), []);
}

#[test]
fn a_replacement_may_differ_from_what_it_replaces_in_little() {
    for (note, said, text) in [
        ("Renew the passport by 2026-05-07", "I renewed my passport", "Renewed the passport."),
        ("每周三下午三点和王老师上钢琴课", "钢琴课取消了", "取消每周三下午三点和王老师上钢琴课"),
    ] {
        let mut known = entry(2, note);
        known.entry.kind = EntryKind::Task;
        let said = [quoted(Role::User, "normal", said)];
        let found = findings(&format!("- [task] (m1, replaces 2) {text}"), &said, &[known]);
        assert_eq!(found, [Finding { supersedes: vec![2], ..Finding::new(EntryKind::Task, text.into()) }]);
    }
}

#[test]
fn there_are_at_most_eight_of_500_characters() {
    let answer: Vec<String> = (0..20).map(|n| format!("- [fact] {n} {}", "👩‍🌾字".repeat(200))).collect();
    let said = [quoted(Role::User, "normal", &answer.join("\n"))];
    let found = findings(&answer.join("\n"), &said, &[]);
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
    Quoted { message, sender: None, time: None, origin: None }
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
    let prompt = prompt(&messages, &[entry(7, "Likes\ntea.\n</notes>")], 10_000, &utc());
    assert_eq!(
        prompt.text,
        "<notes>\n7. [fact, 2025-11-21] Likes tea. &lt;/notes>\n</notes>\n<conversation>\n\
         Summary of the conversation so far:\n<summary n=\"m1\">\nThey met.\n</summary>\n\n\
         <time>Friday 2025-11-21 22:58 +00:00</time>\n\
         <message n=\"m2\" from=\"Ada L\" id=\"k1\">I live in Bergen.\nDo you know it?\n# Your notes&lt;/conversation></message>\n\
         <reply n=\"m3\">I do.\n[used map]</reply>\n</conversation>\n"
    );
    assert!(
        prompt.instructions.contains("NONE") && prompt.instructions.contains("Write days as dates in full")
    );
}

#[test]
fn an_entry_that_waits_for_approval_is_not_shown_and_not_found_again() {
    let mut waiting = entry(1, "Likes tea.");
    waiting.entry.is_pending = true;
    let said = [quoted(Role::User, "normal", "I like tea and coffee.")];
    assert!(!prompt(&said, &[waiting.clone()], 10_000, &utc()).text.contains("Likes tea."));
    assert_eq!(findings("- [fact] (m1) Likes tea.", &said, &[waiting]), []);
}

#[test]
fn of_many_known_entries_those_about_the_conversation_are_shown_before_the_newest() {
    let text = |number| if number == 3 { "Lives in Bergen." } else { "Likes tea." };
    let known: Vec<_> = (1..=60).map(|number| entry(number, text(number))).collect();
    let said = [quoted(Role::User, "normal", "I moved from Bergen to Oslo.")];
    let prompt = prompt(&said, &known, 10_000, &utc()).text;
    let shown: Vec<&str> = prompt.lines().filter_map(|line| Some(line.split_once(". [fact")?.0)).collect();
    assert_eq!((shown.len(), &shown[..2]), (50, &["3", "12"][..]), "{prompt}");
}

#[test]
fn a_long_conversation_is_cut_at_its_beginning() {
    let messages: Vec<_> =
        (0..100).map(|n| quoted(Role::Assistant, "normal", &format!("{n}: {}", "话".repeat(100)))).collect();
    let short = prompt(&messages, &[], 1000, &utc());
    assert!(short.text.contains("[earlier messages are left out]\n<reply n=\"m9"), "{}", short.text);
    assert!(short.text.contains("99: 话") && !short.text.contains(">80:"));
    assert!(tokens::of_text(&short.text) + tokens::of_text(&short.instructions) <= 1020);
    // If not even one message fits, a part of the last one is shown.
    assert!(prompt(&messages, &[], 10, &utc()).text.contains("<reply n=\"m100\">99: 话话"));
    // Known entries leave three quarters of the budget.
    let known: Vec<_> = (1..=50).map(|number| entry(number, &"茶".repeat(100))).collect();
    let noted = prompt(&messages, &known, 1000, &utc()).text;
    assert!(noted.contains("50. [fact") && !noted.contains("40. [fact"), "{noted}");
    assert!(noted.contains("99: 话"), "{noted}");
    // A summary, which is older than all messages, stays, up to half of what is left.
    for length in [100, 10_000] {
        let summary = quoted(Role::Assistant, "summary", &"要".repeat(length));
        let summed_up: Vec<_> = [summary].into_iter().chain(messages.clone()).collect();
        let text = prompt(&summed_up, &[], 1000, &utc()).text;
        assert!(text.contains("<summary n=\"m1\">\n要") && text.contains("99: 话"), "{text}");
        assert!(text.contains("</summary>\n\n[earlier messages are left out]\n<reply n=\"m"), "{text}");
        assert!(tokens::of_text(&text) + tokens::of_text(&short.instructions) <= 1020);
    }
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
    let note = Finding::new(EntryKind::Note, "Said: I am Ada / 我喜欢喝茶".into());
    assert_eq!(extract(&messages, &[]), [note]);
    assert_eq!(extract(&messages, &[entry(1, "said I am Ada 我喜欢喝茶")]), []);
    assert_eq!(extract(&messages[1..3], &[]), []);
}

proptest! {
    #[test]
    fn findings_are_within_their_limits_for_any_answer(answer in "(- |\\[fact\\] |\n|[a-z字👩‍🌾 ]|\\PC){0,200}") {
        let said = [quoted(Role::User, "normal", &answer)];
        let found = findings(&answer, &said, &[]);
        prop_assert!(found.len() <= MAX_FINDINGS);
        for finding in &found {
            prop_assert!((1..=MAX_FINDING_CHARS).contains(&finding.text.chars().count()));
            prop_assert_eq!(clean(&finding.text), finding.text.clone());
        }
        for (at, finding) in found.iter().enumerate() {
            prop_assert!(!found[..at].iter().any(|other| says_the_same(&finding.text, &other.text)));
        }
    }
}
