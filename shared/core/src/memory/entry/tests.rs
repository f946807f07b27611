use proptest::prelude::*;

use super::*;

fn source() -> Source {
    let chat = ChatKey::telegram(42, None);
    let key = |ms, id| SortKey::message(Timestamp::from_millis(ms).unwrap(), &MessageId::new(id).unwrap());
    Source {
        session: Source::session_id(&chat, Timestamp::from_millis(1_763_765_920_000).unwrap()),
        chat,
        from_id: MessageId::new("7").unwrap(),
        to_id: MessageId::new("om_\"12\"").unwrap(),
        from: key(1_763_765_920_000, "7"),
        to: key(1_763_766_220_000, "om_\"12\""),
    }
}

fn entry() -> Entry {
    Entry {
        kind: EntryKind::Preference,
        owner: Owner::User("telegram-42".into()),
        source: Some(source()),
        ..crate::testing::entry(1, "Wants temperatures in Celsius.").entry
    }
}

#[test]
fn an_entry_is_a_document_that_people_can_read() {
    let session = source().session;
    let wanted = format!(
        "---\ntype: preference\nscope: user\nperson: \"telegram-42\"\nsession: \"{session}\"\n\
         source: {{\"chat\":\"telegram:chat:42\",\"fromId\":\"7\",\"toId\":\"om_\\\"12\\\"\",\
         \"from\":\"1763765920000#00000000000000000007\",\"to\":\"1763766220000#om_%2212%22\"}}\n\
         created: 2025-11-21T22:58:40.000Z\n---\n\nWants temperatures in Celsius.\n"
    );
    assert_eq!(entry().render(), wanted);
    assert_eq!(Entry::parse(&wanted), Ok(entry()));
}

#[test]
fn an_entry_of_a_group_names_its_chat() {
    let chat: ChatKey = "telegram:chat:-42".parse().unwrap();
    let entry = Entry {
        kind: EntryKind::Decision,
        owner: Owner::Chat(chat),
        source: None,
        updated: Timestamp::from_millis(1_763_884_800_500),
        text: "The shed is painted green.\n\n- by *May*".into(),
        ..entry()
    };
    let wanted = "---\ntype: decision\nscope: chat\nchat: \"telegram:chat:-42\"\n\
                  created: 2025-11-21T22:58:40.000Z\nupdated: 2025-11-23T08:00:00.500Z\n---\n\n\
                  The shed is painted green.\n\n- by *May*\n";
    assert_eq!(entry.render(), wanted);
    assert_eq!(Entry::parse(wanted), Ok(entry));
}

#[test]
fn unknown_keys_are_ignored_and_missing_ones_are_errors() {
    let document = entry().render();
    let more = document.replacen("---\n", "---\nmood: sunny\n# a comment\ntags: [a, b]\n", 1);
    assert_eq!(Entry::parse(&more.replace('\n', "\r\n")), Ok(entry()));
    let other = document.replace("type: preference", "type: haiku");
    assert_eq!(Entry::parse(&other).unwrap().kind, EntryKind::Note);
    let without = |line: &str| {
        let kept: Vec<_> = document.lines().filter(|l| !l.starts_with(line)).collect();
        Entry::parse(&kept.join("\n"))
    };
    assert_eq!(without("scope"), Err(EntryError::Field("scope")));
    assert_eq!(without("person"), Err(EntryError::Field("person or chat")));
    assert_eq!(without("created"), Err(EntryError::Field("created")));
    assert_eq!(without("source").unwrap().source, None);
    assert_eq!(Entry::parse("no front matter"), Err(EntryError::NoFrontMatter));
    assert_eq!(Entry::parse("---\ntype: fact"), Err(EntryError::NoFrontMatter));
}

fn form(kind: EntryKind, text: &str, until: Timestamp) -> EarlierForm {
    EarlierForm { kind, text: text.into(), until }
}

#[test]
fn corrections_keep_the_last_earlier_forms() {
    let at = |day: i64| Timestamp::from_secs(1_763_800_000 + day * 86_400);
    let mut corrected = entry();
    for (day, text) in (1..).zip(["one", "two", "two", "three", "four"]) {
        corrected = Correction::of_text(text).unwrap().apply(&corrected, at(day));
    }
    assert_eq!(
        corrected.earlier_forms,
        [
            form(EntryKind::Preference, "one", at(2)),
            form(EntryKind::Preference, "two", at(4)),
            form(EntryKind::Preference, "three", at(5))
        ]
    );
    assert_eq!(Entry::parse(&corrected.render()), Ok(corrected));
}

#[test]
fn a_correction_changes_text_and_type_and_nothing_else() {
    let now = Timestamp::from_millis(1_763_800_000_000).unwrap();
    let corrected =
        Correction::of_markdown("---\ntype: fact\nscope: chat\nperson: \"bo\"\n---\nLikes kelvin.\n")
            .unwrap();
    assert_eq!(
        corrected.apply(&entry(), now),
        Entry {
            kind: EntryKind::Fact,
            updated: Some(now),
            text: "Likes kelvin.".into(),
            earlier_forms: vec![form(EntryKind::Preference, "Wants temperatures in Celsius.", now)],
            ..entry()
        }
    );
    let plain = Correction::of_markdown("Likes *kelvin*.").unwrap().apply(&entry(), now);
    assert_eq!((plain.kind, plain.text.as_str()), (EntryKind::Preference, "Likes *kelvin*."));
    let longest = "é".repeat(MAX_TEXT_CHARS);
    assert!(Correction::of_text(&longest).is_ok());
    for (text, error) in [
        ("", CorrectionError::Blank),
        (" \n\u{0}", CorrectionError::Blank),
        ("---\ntype: fact\n---\n", CorrectionError::Blank),
        ("---\ntype: fact\nno end", CorrectionError::OpenFrontMatter),
        ("---\ntype: haiku\n---\nx", CorrectionError::UnknownType),
        (&format!("{longest}x"), CorrectionError::TooLong(MAX_TEXT_CHARS + 1)),
    ] {
        assert_eq!(Correction::of_markdown(text), Err(error), "{text:?}");
    }
}

#[test]
fn an_entry_lists_outside_tools_until_a_person_corrects_it() {
    let marked = Entry { outside: vec!["shop/lookup".into(), "web/\"x\"".into()], ..entry() };
    let document = marked.render();
    assert!(document.contains("\noutside: [\"shop/lookup\",\"web/\\\"x\\\"\"]\n---\n"), "{document}");
    assert_eq!(Entry::parse(&document).as_ref(), Ok(&marked));
    let now = Timestamp::from_millis(1_763_800_000_000).unwrap();
    let change = Correction::of_markdown(&document).unwrap();
    assert_eq!(change.apply(&marked, now).outside, [""; 0]);
}

fn owners() -> impl Strategy<Value = Owner> {
    prop_oneof![
        ".{1,20}".prop_map(Owner::User),
        "[^\\p{Cc}]{1,20}".prop_map(|id| Owner::Chat(ChatKey::http("app", &id).unwrap())),
    ]
}

proptest! {
    #[test]
    fn any_entry_reads_back_as_it_was_written(
        kind in prop::sample::select(EntryKind::ALL.to_vec()),
        owner in owners(),
        has_source in any::<bool>(),
        session in ".{0,10}",
        created in 0..=9_999_999_999_999_i64,
        updated in prop::option::of(0..=9_999_999_999_999_i64),
        outside in prop::collection::vec("\\PC{0,8}", 0..3),
        supersedes in prop::collection::vec(1..99_u32, 0..3),
        is_pending in any::<bool>(),
        earlier in prop::collection::vec("([^\\p{Cc}]|\n|---\n){0,20}", 0..3),
        text in "([^\\p{Cc}]|\n|\t|---\n|type: fact\n){0,60}",
    ) {
        let entry = Entry {
            kind,
            owner,
            source: has_source.then(|| Source { session, ..source() }),
            created: Timestamp::from_millis(created).unwrap(),
            updated: updated.and_then(Timestamp::from_millis),
            outside,
            supersedes,
            earlier_forms: earlier.iter().map(|text| form(kind, text, Timestamp::MIN)).collect(),
            is_pending,
            text: clean(&text),
        };
        prop_assert_eq!(Entry::parse(&entry.render()), Ok(entry));
    }
}
