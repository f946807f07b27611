//! `SECURITY.md` names tests that exist.

use std::path::Path;

const PAGE: &str = include_str!("../../SECURITY.md");

/// The names of tests in a line: `file.rs::name` in backquotes.
fn named(line: &str) -> Vec<(&str, &str)> {
    line.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect()
}

#[test]
fn every_class_of_advisories_is_held_by_a_test_that_exists_or_does_not_apply() {
    let (_, table) = PAGE.split_once("| class | advisories | here |").unwrap();
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 20, "{}", rows.len());
    for row in rows {
        assert_eq!(row.matches(" | ").count(), 2, "three cells: {row}");
        assert!(!named(row).is_empty() || row.contains("does not apply, because"), "{row}");
    }
    assert!(!PAGE.contains("TEST("), "a placeholder is left");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (file, name) in PAGE.lines().flat_map(named) {
        let code = std::fs::read_to_string(root.join(file)).unwrap_or_else(|_| panic!("there is no {file}"));
        let is_test = code.contains(&format!("fn {name}()")) || code.contains(&format!("test('{name}'"));
        assert!(is_test, "{file} has no test {name}");
    }
}
