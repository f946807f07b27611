use proptest::prelude::*;

use super::*;

fn order(query: &str, documents: &[&str]) -> Vec<usize> {
    let documents: Vec<Text<'_>> = documents.iter().map(|text| Text { text, ..Text::default() }).collect();
    rank(query, &documents)
}

fn index(texts: &[&str]) -> Index {
    Index::of(texts.iter().map(|text| Text { text, ..Text::default() }))
}

fn found(texts: &[&str], query: &str, near: usize) -> Vec<usize> {
    search(&[&index(texts)], query, near, texts.len(), |_, _| true).iter().map(|ranked| ranked.text).collect()
}

#[test]
fn a_document_with_more_of_the_query_comes_first() {
    let documents = [
        "Trains were late today.",
        "Ada's flight to Lisbon leaves on Friday, from gate 12.",
        "Lisbon has good trams.",
        "Nothing of note.",
    ];
    assert_eq!(order("when does the flight to LISBON leave?", &documents), [1, 2]);
    assert_eq!(order("gates", &documents), [1]);
    assert_eq!(order("gate 13", &documents), [1]);
    assert_eq!(order("the of to", &documents), [3, 1], "stop words count if there is nothing else");
}

#[test]
fn chinese_is_found_without_spaces() {
    let documents = [
        "我们明天去上海开会。",
        "她对花生过敏,不要放花生酱。",
        "订单号是 A-1024,周五发货",
        "生日在五月,喜欢花。",
        "Ada prefers tea.",
    ];
    assert_eq!(order("花生过敏", &documents), [1, 3]);
    assert_eq!(order("上海的会议", &documents)[0], 0);
    assert_eq!(order("发货", &documents), [2]);
    assert_eq!(order("1024", &documents), [2]);
    assert_eq!(order("\u{FF11}\u{FF10}\u{FF12}\u{FF14}", &documents), [2], "full-width digits are digits");
    assert_eq!(order("tea 茶", &documents), [4]);
    assert_eq!(order("东京タワー", &["ソウルの塔", "東京タワーに行く"]), [1]);
    assert_eq!(order("타워", &["서울타워에서 만나요", "서울역"]), [0]);
}

#[test]
fn documents_without_a_shared_term_are_not_ranked() {
    assert_eq!(order("", &["a"]), [0; 0]);
    assert_eq!(order("。!?", &["。!?", "天"]), [0; 0], "signs are no terms");
    assert_eq!(order("a", &[]), [0; 0]);
    assert_eq!(order("a", &["", "b", " "]), [0; 0]);
}

#[test]
fn equals_keep_their_order_and_a_repeated_word_adds_nothing() {
    let documents = ["x y", "x z", "x y"];
    assert_eq!(order("x", &documents), [0, 1, 2]);
    assert_eq!(order("y y y x", &documents), order("y x", &documents));
}

#[test]
fn a_term_in_all_documents_still_counts() {
    assert_eq!(order("tea", &["tea"]), [0]);
    assert_eq!(order("茶", &["喝茶", "茶叶"]).len(), 2);
}

#[test]
fn what_is_said_around_a_text_raises_it() {
    let texts = ["the boat", "sinks", "x", "x", "x", "x", "the boat", "has oars", "said of oars"];
    assert_eq!(found(&texts, "boat oars", 1)[0], 7);
    assert_eq!(found(&texts, "boat oars", 0)[0], 0, "texts that have nothing to do with their neighbours");
    assert_eq!(found(&texts, "boat", 1), [0, 6], "a neighbour alone is not found");
    assert_eq!(found(&texts, "boat oars", 2)[..2], [7, 0], "what is shown beside a better one comes later");
    assert_eq!(found(&texts, "boat oars", 2).len(), 4, "and is found all the same");
}

#[test]
fn senders_and_dates_raise_what_has_a_word_of_the_query() {
    let at = |ts| Timestamp::from_millis(ts);
    let text = |text, sender, ts| Text { text, sender: Some(sender), at: at(ts) };
    // 2023-05-07 and 2023-06-10
    let (may, june) = (1_683_450_000_000, 1_686_390_000_000);
    let filler = Text::default();
    let texts = [
        text("I paint", "Ada", may),
        filler,
        filler,
        filler,
        text("I paint", "Bob", june),
        filler,
        filler,
        filler,
        text("I sleep", "Bob", june),
    ];
    let index = Index::of(texts);
    let found = |query| {
        search(&[&index], query, 2, 9, |_, _| true).iter().map(|ranked| ranked.text).collect::<Vec<_>>()
    };
    assert_eq!(found("did Bob paint?"), [4, 0]);
    assert_eq!(found("who paints in May"), [0, 4]);
    assert_eq!(found("painting on 10 June 2023"), [4, 0]);
    assert_eq!(found("Bob"), [4, 8], "nobody says the word, so the name finds");
    assert_eq!(found("in May"), [0]);
}

#[test]
fn several_indexes_are_one_list() {
    let (a, b) = (["tea and cake", "milk"], ["tea", "coffee"]);
    let both = search(&[&index(&a), &index(&b)], "tea", 0, 9, |_, _| true);
    let one = search(&[&index(&["tea and cake", "milk", "tea", "coffee"])], "tea", 0, 9, |_, _| true);
    let scores = |ranked: &[Ranked]| ranked.iter().map(|ranked| ranked.score).collect::<Vec<_>>();
    assert_eq!(both.iter().map(|ranked| (ranked.index, ranked.text)).collect::<Vec<_>>(), [(1, 0), (0, 0)]);
    assert_eq!(scores(&both), scores(&one));
    let hidden = search(&[&index(&a), &index(&b)], "tea", 0, 9, |index, _| index == 0);
    assert_eq!(hidden.len(), 1);
}

/// Stored indexes have these digests and this form: a change here needs a new version of `history/search/stored.rs`.
#[test]
fn an_index_has_one_form_in_bytes() {
    let at = Timestamp::from_millis(1_683_450_000_000);
    let texts = [
        Text { text: "The boats, the 船", sender: Some("Ada"), at },
        Text { text: "boat", sender: None, at: None },
    ];
    let index = Index::of(texts);
    let bytes = index.to_bytes();
    let form = "02040107e09fa55c02000101018599ab38010002c2f8c9e701010001b7b2ce0b010001cdeacecb01010001eacee6920301000189c8aab001010001";
    assert_eq!(hex(&bytes), form);
    assert_eq!(Index::from_bytes(&bytes), Some(index));
    for end in 0..bytes.len() {
        assert_eq!(Index::from_bytes(&bytes[..end]), None, "{end}");
    }
    assert_eq!(Index::from_bytes(&[bytes, vec![0]].concat()), None);
    assert_eq!(Index::from_bytes(&Index::default().to_bytes()), Some(Index::default()));
    assert_eq!(Index::from_bytes(&[1, 5, 1, 9, 1, 1, 1]), None, "a text that is not there");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

proptest! {
    #[test]
    fn exactly_those_that_share_a_term_are_ranked(
        query in "[bz花生 ,]{0,6}",
        documents in proptest::collection::vec("[bzc花生过 。]{0,8}", 0..6),
    ) {
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        let asked = terms(&query);
        let shares = |document: &&str| terms(document).iter().any(|term| asked.contains(term));
        let mut ranked = order(&query, &documents);
        ranked.sort_unstable();
        let expected: Vec<usize> =
            documents.iter().enumerate().filter(|(_, d)| shares(d)).map(|(index, _)| index).collect();
        prop_assert_eq!(&ranked, &expected);
        let mut found = found(&documents, &query, 2);
        found.sort_unstable();
        prop_assert_eq!(found, expected);
        let index = index(&documents);
        prop_assert_eq!(Index::from_bytes(&index.to_bytes()), Some(index));
    }
}
