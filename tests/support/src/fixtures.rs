//! Payloads and vectors in `tests/fixtures/`, which fail a test if they are missing.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The path of `name` below `tests/fixtures/`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name)
}

/// Reads the `.json` files directly in `tests/fixtures/<folder>`, by name without the extension, in order.
///
/// # Panics
/// If the folder is missing or has no such file, so that no loop over payloads passes for want of payloads.
pub fn payloads(folder: &str) -> Vec<(String, Value)> {
    let folder = path(folder);
    let entries = std::fs::read_dir(&folder);
    let entries = entries.unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    assert!(!files.is_empty(), "{} has no .json file", folder.display());
    files.sort();
    files.iter().map(|file| (file.file_stem().unwrap().to_string_lossy().into_owned(), read(file))).collect()
}

/// Reads a platform's payloads: those made for this project, then those recorded elsewhere (`<platform>/recorded`).
pub fn all_payloads(platform: &str) -> Vec<(String, Value)> {
    [payloads(platform), payloads(&format!("{platform}/recorded"))].concat()
}

/// Checks that `found` is the text of `src/tests/snapshots/<name>.snap` in the package that is tested.
pub fn check_snapshot(name: &str, found: &str) {
    let folder = std::env::current_dir().unwrap().join("src/tests/snapshots");
    // Without the crate's name in the file's.
    insta::with_settings!({
        snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true
    }, {
        insta::assert_snapshot!(name, found);
    });
}

/// Reads the test vectors of `tests/fixtures/vectors/<name>.json`: a list, or an object with the list under `cases`.
///
/// # Panics
/// If the file is missing or the list is empty.
pub fn vectors(name: &str) -> Vec<Value> {
    let mut file = read(&path(&format!("vectors/{name}.json")));
    let list = if file.is_object() { file["cases"].take() } else { file };
    let Value::Array(vectors) = list else { panic!("{name}.json holds no list") };
    assert!(!vectors.is_empty(), "{name}.json has no vector");
    vectors
}

#[test]
#[should_panic(expected = "has no .json file")]
fn a_folder_without_payloads_is_an_error() {
    payloads("");
}

fn read(file: &Path) -> Value {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{} is not JSON: {error}", file.display()))
}
