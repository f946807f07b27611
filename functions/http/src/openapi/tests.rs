use std::collections::BTreeSet;

use super::*;

fn served() -> Value {
    serde_json::from_str(DOCUMENT).unwrap()
}

#[test]
fn the_document_is_up_to_date() {
    assert!(served() == describe(), "openapi.json is out of date: just openapi");
    assert_eq!(served()["openapi"], "3.1.0");
}

#[test]
fn the_table_of_problems_has_each_operation_with_a_key() {
    let document = served();
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap());
    let keyed = operations.filter(|(_, operation)| operation.get("security").is_some());
    let keyed: BTreeSet<&str> =
        keyed.map(|(_, operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(keyed, rows(PROBLEMS).map(|(id, _)| id).collect());
}

/// A whole ChatKey is longer than a caller's own id.
#[test]
fn a_parameter_for_a_chat_takes_the_longest_chat_key() {
    let document = served();
    let named = document["paths"].as_object().unwrap().iter().flat_map(|(path, operations)| {
        let all = operations.as_object().unwrap().values();
        let all = all.filter_map(|operation| operation["parameters"].as_array()).flatten();
        let is_chat = |name: &str| match name {
            "chatId" | "chatKey" => true,
            "id" => path.starts_with("/api/chat/"),
            _ => false,
        };
        all.filter(move |parameter| is_chat(parameter["name"].as_str().unwrap())).collect::<Vec<_>>()
    });
    let longest: Vec<&Value> = named.map(|parameter| &parameter["schema"]["maxLength"]).collect();
    assert!(longest.len() > 10, "{longest:?}");
    assert!(longest.iter().all(|longest| **longest == json!(2048)), "{longest:?}");
}
