//! The tests that `tests/advisories.md` names must exist.

use std::path::Path;

#[test]
fn every_class_of_advisories_is_held_by_tests_that_exist_or_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("tests/advisories.md")).unwrap();
    let mut rows = page.lines().skip_while(|line| *line != "| --- | --- | --- |").skip(1).peekable();
    assert!(rows.peek().is_some(), "the table is empty");
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, fault, _, held, _] = cells[..] else { panic!("not a row of three cells: {row}") };
        // With nothing after it, the cell would end at the colon.
        if ["impossible: ", "by the operator: "].iter().any(|reason| held.starts_with(reason)) {
            continue;
        }
        for test in held.split("<br>") {
            let named = test.trim_matches('`').split_once("::");
            let (file, name) = named.unwrap_or_else(|| panic!("{fault}: no test and no reason: {test}"));
            let code =
                std::fs::read_to_string(root.join(file)).unwrap_or_else(|_| panic!("there is no {file}"));
            let is_test = code.contains(&format!("fn {name}()")) || code.contains(&format!("test('{name}'"));
            assert!(is_test, "{file} has no test {name}");
        }
    }
}
