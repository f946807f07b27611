//! `docs/settings.md`: an introduction, and tables that are generated from the settings in the code.
//! `UPDATE_DOCS=1` writes them.

use std::fmt::Write;
use std::path::Path;

use annals_core::settings::{Setting, Unset};
use annals_io::environment::process_env;
use annals_local::settings::sections;

fn tables() -> String {
    let mut page = String::new();
    for (title, lists) in sections() {
        write!(page, "\n## {title}\n\n| variable | default | values |\n| --- | --- | --- |\n").unwrap();
        for Setting { name, unset, values } in lists.into_iter().flatten() {
            let unset = match unset {
                Unset::Default(default) => format!("`{default}`"),
                Unset::Described(words) => (*words).to_owned(),
            };
            writeln!(page, "| `{name}` | {unset} | {values} |").unwrap();
        }
    }
    page
}

#[test]
fn the_page_of_settings_is_generated_from_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (introduction, _) = page.split_once("\n## ").unwrap();
    let generated = format!("{introduction}{}", tables());
    if process_env("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    } else {
        assert!(page == generated, "docs/settings.md is not as the code is: run `just settings`");
    }
}
