//! Progress of long work: a bar on a terminal while it lasts, only the result in a pipe.

use std::path::Path;
use std::process::Stdio;

use rexpect::session::spawn_command;
use serde_json::json;

use crate::terminal::annals;

const COUNT: usize = 300;
const SAID: &str = ": 300 stored, 0 there already";

fn long_talk(dir: &Path) -> String {
    let line = |n| json!({"id": format!("m{n}"), "role": "user", "parts": [{"type": "text", "text": format!("Line {n}")}]});
    let lines: Vec<String> = (0..COUNT).map(|n| line(n).to_string()).collect();
    let path = dir.join("long.jsonl");
    std::fs::write(&path, lines.join("\n")).unwrap();
    path.into_os_string().into_string().unwrap()
}

#[test]
fn an_import_shows_a_bar_on_a_terminal_and_takes_it_away() {
    let dir = tempfile::tempdir().unwrap();
    let command = annals(dir.path(), &["import", "--chat", "http:chat:app:long", &long_talk(dir.path())]);
    let mut screen = spawn_command(command, Some(30_000)).unwrap();
    screen.exp_regex(r"import \[[=>]* *\] \d+ of 300 messages, \d+ a second, \S+ left").unwrap();
    let rest = screen.exp_eof().unwrap();
    assert!(rest.contains(SAID), "{rest:?}");
    let last = rest.rsplit("\u{1b}[2K").next().unwrap();
    assert!(!last.contains(" left"), "its line is cleared: {rest:?}");
}

#[test]
fn in_a_pipe_a_short_import_prints_its_result_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut command = annals(&data, &["import", "--chat", "http:chat:app:long", &long_talk(dir.path())]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.starts_with("http:chat:app:long ") && out.trim_end().ends_with(SAID), "{out}");
}
