//! `annals chat`: the built program, in a pipe and in a pseudo-terminal, on its own and beside the program that serves.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals_test_support::model_api::{API_KEY, Mishap, ModelApi};
use rexpect::session::{PtySession, spawn_command};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::app::{APP_KEY, OPS_KEY, TestApp, lines, loopback_client};
use crate::outside_tools::start_with_shop;
use crate::process::Process;
use crate::turns::assert_has;
use crate::updates::private;

const CHAT: &str = "agent:annals:user:local";
/// Timeout of a wait for output on a screen, in milliseconds.
const PATIENCE: u64 = 30_000;

/// The program on a data directory, with nothing else in its environment but the kind of terminal.
pub(crate) fn annals(data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
    command.env_clear().env("ANNALS_DATA_DIR", data_dir).env("TERM", "xterm-256color").args(arguments);
    command
}

fn hosted(data_dir: &Path, arguments: &[&str], model: &ModelApi) -> Command {
    let mut command = annals(data_dir, arguments);
    command.env("MODEL", "openai:test").env("MODEL_API_KEY", API_KEY).env("MODEL_BASE_URL", model.base_url());
    command
}

/// Runs it with `input` on standard input: its status, what it prints, and what it says beside.
pub(crate) fn piped(mut command: Command, input: &str) -> (i32, String, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may have ended without reading.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn printed(text: &str) -> (i32, String, String) {
    (0, text.to_owned(), String::new())
}

/// The history, by the command that prints it.
fn history(data_dir: &Path) -> Vec<String> {
    let output = annals(data_dir, &["history", CHAT, "--jsonl"]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let messages: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The ids are made up.
    lines(&messages).into_iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

#[test]
fn a_pipe_gets_the_reply_alone_and_a_status() {
    let dir = tempfile::tempdir().unwrap();
    let chat = |arguments: &[&str], input: &str| piped(annals(dir.path(), arguments), input);
    assert_eq!(chat(&["chat"], "hi\n"), printed("hi\n"));
    assert_eq!(chat(&["chat"], "two\nlines\n"), printed("two\nlines\n"));
    assert_eq!(chat(&["chat", "as an **argument**"], "not this"), printed("as an **argument**\n"));
    let done = "Done: we start over. Earlier messages are no longer in view.";
    assert_eq!(chat(&["chat", "/reset"], ""), printed(&format!("{done}\n")));
    let wanted = [
        "user: hi",
        "assistant: hi",
        "user: two\nlines",
        "assistant: two\nlines",
        "user: as an **argument**",
        "assistant: as an **argument**",
        "user boundary: /reset",
        &format!("assistant notice: {done}"),
    ];
    assert_eq!(history(dir.path()), wanted);

    let (code, out, error) = chat(&["chat"], " \n");
    assert!(code == 1 && out.is_empty() && error.contains("there is nothing to say"), "{error}");
    let mut wrong = annals(dir.path(), &["chat", "hi"]);
    wrong.env("MODEL", "parrot");
    let (code, out, error) = piped(wrong, "");
    assert!(code == 1 && out.is_empty() && error.starts_with("annals: MODEL must be"), "{error}");
    assert_eq!(history(dir.path()), wanted, "nothing of it is said");

    // A terminal without colours gets Markdown as it is, too.
    let mut plain = annals(dir.path(), &["chat", "**bold**"]);
    plain.env("NO_COLOR", "1");
    let shown = on_screen(plain).exp_eof().unwrap();
    assert!(shown.contains("**bold**") && !shown.contains("\x1b[1m"), "{shown:?}");

    // The reader of the pipe has left.
    let mut command = annals(dir.path(), &["chat", "to nobody"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!((status.code(), String::from_utf8(stderr).unwrap()), (Some(0), String::new()));
    assert_eq!(history(dir.path()).last().unwrap(), "assistant: to nobody");
}

/// Each person has a chat of their own, which the name of a setting and of an option choose alike.
#[test]
fn a_name_chooses_the_person_at_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let chat = |user: Option<&str>, arguments: &[&str]| {
        let mut command = annals(dir.path(), &[&["chat"], arguments].concat());
        command.envs(user.map(|user| ("ANNALS_USER", user)));
        piped(command, "")
    };
    assert_eq!(chat(None, &["I am local"]), printed("I am local\n"));
    assert_eq!(chat(Some("Ada & Bo"), &["We are two"]), printed("We are two\n"));
    assert_eq!(chat(Some("bo"), &["--user", "Ada & Bo", "Still we"]), printed("Still we\n"));
    let said = |user: &str| {
        let key = format!("agent:annals:user:{user}");
        let output = annals(dir.path(), &["history", &key, "--jsonl"]).output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let messages = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let said = messages.filter(|message| message["role"] == "user");
        said.map(|message| (message["metadata"]["userId"].clone(), message["parts"][0]["text"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(said("local"), [(json!("local"), json!("I am local"))]);
    let pair = [(json!("Ada & Bo"), json!("We are two")), (json!("Ada & Bo"), json!("Still we"))];
    assert_eq!(said("Ada & Bo"), pair);
    for (user, named) in [(Some("a\nb"), "ANNALS_USER"), (None, "--user")] {
        let arguments: &[&str] = if user.is_none() { &["--user", "", "hi"] } else { &["hi"] };
        let (code, out, error) = chat(user, arguments);
        assert!(code == 1 && out.is_empty() && error.contains(named), "{error}");
    }
}

#[tokio::test]
async fn it_talks_through_the_program_that_serves_and_says_when_there_is_no_answer() {
    let app = TestApp::start().await;
    let dir = app.data_dir().to_owned();
    let talk = |text: &'static str| {
        let command = annals(&dir, &["chat", text]);
        spawn_blocking(move || piped(command, ""))
    };
    let chat = async |text| app.as_time_passes(talk(text)).await.unwrap();
    assert_eq!(chat("hello").await, printed("You said: hello\n"));
    app.model().fail(9, 500);
    let (code, out, error) = chat("are you there?").await;
    assert!(code == 1 && out.is_empty() && error.contains("Sorry, I could not answer that"), "{error}");
    app.model().recover();
    assert_eq!(history(&dir).len(), 4);
    assert_eq!(chat("again").await, printed("You said: are you there?\nagain\n"));

    // Between two deliveries of the turn nobody has the chat.
    app.model().fail(100, 500);
    let (asked, waiting) = (app.model().count(), talk("hello"));
    app.model().wait_for(asked + 1).await;
    assert_eq!(app.forget(CHAT, OPS_KEY).await.status, 200);
    let (code, out, error) = app.as_time_passes(waiting).await.unwrap();
    assert!(code == 1 && out.is_empty() && error.contains("The chat was forgotten"), "{code} {out} {error}");
    app.idle_as_time_passes().await;
    app.finish().await;
}

#[tokio::test]
async fn messages_before_a_kill_are_answered_after_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let model = ModelApi::start().await;
    model.hang();
    let mut child = hosted(dir.path(), &["chat", "a question"], &model).spawn().unwrap();
    model.wait_for(1).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(history(dir.path()), ["user: a question"]);
    model.resume();
    let next = hosted(dir.path(), &["chat", "another"], &model);
    let (code, out, _) = beside(move || piped(next, "")).await;
    assert!(code == 0 && out.contains("another"), "{out}");
    let history = history(dir.path());
    let users: Vec<&String> = history.iter().filter(|line| line.starts_with("user")).collect();
    assert_eq!(users, ["user: a question", "user: another"]);
    let replies: String = history.iter().filter(|line| line.starts_with("assistant")).cloned().collect();
    for text in ["a question", "another"] {
        assert_eq!(replies.matches(text).count(), 1, "{replies}");
    }
}

fn on_screen(command: Command) -> PtySession {
    spawn_command(command, Some(PATIENCE)).unwrap()
}

/// Does what waits for a screen or a program, beside the emulators.
pub(crate) async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(work).await.unwrap()
}

/// Presses these keys.
fn press(screen: &mut PtySession, keys: &str) {
    screen.send(keys).unwrap();
    screen.flush().unwrap();
}

/// Waits until something can be typed: pasted text is recognised from then on.
fn prompted(screen: &mut PtySession) {
    screen.exp_string("\x1b[?2004h").unwrap();
    screen.exp_string("> ").unwrap();
}

/// Asks for a refund at the next prompt, and approves it. Returns what is shown between the approval and the reply.
fn pay_back(screen: &mut PtySession) -> String {
    prompted(screen);
    screen.send_line("Pay A1 back.").unwrap();
    screen.exp_string("May I call shop_refund with this?").unwrap();
    screen.exp_string("\"A1\"").unwrap();
    screen.exp_string("y allows it").unwrap();
    screen.send_line("y").unwrap();
    screen.exp_string("You said: Pay A1 back.").unwrap()
}

/// Asks a model that stalls to count at the next prompt, and stops it.
fn stop_the_count(screen: &mut PtySession) {
    prompted(screen);
    screen.send_line("count").unwrap();
    screen.exp_string("one two three four five").unwrap();
    screen.send_control('c').unwrap();
    let between = screen.exp_string("stopped").unwrap();
    assert!(!between.contains("one"), "what was shown is shown again: {between:?}");
}

/// Returns `text` as the test support shows it, which reads bytes as characters.
fn shown(text: &str) -> String {
    text.bytes().map(char::from).collect()
}

/// Leaves at the next prompt; returns what is printed until the end.
fn quit(screen: &mut PtySession) -> String {
    prompted(screen);
    screen.send_line("/quit").unwrap();
    screen.exp_eof().unwrap()
}

#[test]
fn a_terminal_edits_lines_completes_commands_and_continues_the_chat_next_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = annals(dir.path(), &["chat"]);
    command.env("NO_COLOR", "1");
    let mut screen = on_screen(command);
    screen.exp_string("Ctrl-D leaves.").unwrap();
    prompted(&mut screen);
    screen.send_line("hello **there**").unwrap();
    prompted(&mut screen);
    press(&mut screen, "/mem\t");
    screen.exp_string("/memory").unwrap();
    screen.send_line("").unwrap();
    screen.exp_string("I remember nothing about you yet.").unwrap();
    prompted(&mut screen);
    // A line that is thought better of.
    press(&mut screen, "never said");
    screen.exp_string("never said").unwrap();
    screen.send_control('c').unwrap();
    prompted(&mut screen);
    screen.send_control('d').unwrap();
    let rest = screen.exp_eof().unwrap();
    assert!(!rest.contains("\x1b[2m") && !rest.contains("\x1b[1m"), "{rest:?}");
    let said = ["user: hello **there**", "assistant: hello **there**", "user notice: /memory"];
    let told = "assistant notice: I remember nothing about you yet.";
    assert_eq!(history(dir.path()), [&said[..], &[told]].concat());
    let mut screen = on_screen(annals(dir.path(), &["chat"]));
    screen.exp_string("hello **there**").unwrap();
    prompted(&mut screen);
    // What was typed is there too.
    press(&mut screen, "\x1b[A\x1b[A");
    screen.exp_string("hello **there**").unwrap();
    screen.send_line("").unwrap();
    // With colours, Markdown is rendered.
    screen.exp_string("hello \x1b[1mthere\x1b[0m").unwrap();
    quit(&mut screen);
    assert_eq!(history(dir.path()).iter().filter(|line| *line == "user: hello **there**").count(), 2);
}

#[test]
fn pasted_text_is_said_as_it_is_and_a_typed_backslash_continues_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut screen = on_screen(annals(dir.path(), &["chat"]));
    prompted(&mut screen);
    press(&mut screen, "\x1b[200~  cp a \\\n    b\x1b[201~\r");
    prompted(&mut screen);
    press(&mut screen, "one\\\rline \x1b[200~c \\\nd\x1b[201~\r");
    prompted(&mut screen);
    press(&mut screen, " /QUIT\r");
    screen.exp_eof().unwrap();
    let said: Vec<String> = history(dir.path()).into_iter().filter(|line| line.starts_with("user")).collect();
    assert_eq!(said, ["user:   cp a \\\n    b", "user: one\nline c \\\nd"]);
}

/// Requests meanwhile fail, and the next message continues.
#[test]
fn a_terminal_outlives_the_program_that_serves() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path(), &[]);
    let mut screen = on_screen(annals(dir.path(), &["chat"]));
    screen.exp_string("Through the program that serves").unwrap();
    prompted(&mut screen);
    drop(process);
    screen.send_line("/history").unwrap();
    screen.exp_string("the program does not answer (").unwrap();
    prompted(&mut screen);
    screen.send_line("hello").unwrap();
    quit(&mut screen);
    assert_eq!(history(dir.path()), ["user: hello", "assistant: hello"]);
}

#[test]
fn a_terminal_of_a_chinese_locale_speaks_chinese() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = annals(dir.path(), &["chat"]);
    command.env("NO_COLOR", "1").env("LANG", "zh_CN.UTF-8");
    let mut screen = on_screen(command);
    screen.exp_string(&shown("。输入 /help 查看命令，按 Ctrl-D 离开。")).unwrap();
    prompted(&mut screen);
    press(&mut screen, "/mem");
    screen.exp_string(&shown("列出我从以往对话中记住的内容")).unwrap();
    screen.send_control('c').unwrap();
    prompted(&mut screen);
    screen.send_line("/help").unwrap();
    screen.exp_string(&shown("/history [条数]：显示最近的消息")).unwrap();
    screen.exp_string(&shown("按 Ctrl-C 停止回答。")).unwrap();
    quit(&mut screen);
}

/// The terminal has wrapped the line again by then, so that the editor's own idea of its rows would leave a part of it above.
#[cfg(target_os = "linux")]
#[test]
fn a_line_of_wide_characters_is_shown_once_when_the_terminal_becomes_narrow_and_wide_again() {
    const LINE: &str = "今天的天气怎么样";
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "tty; exec \"$0\" chat", env!("CARGO_BIN_EXE_annals")]);
    command.env_clear().env("ANNALS_DATA_DIR", dir.path()).env("TERM", "xterm-256color");
    let mut screen = on_screen(command);
    let terminal = screen.read_line().unwrap();
    let resize = |columns: &str| {
        let size = ["-F", terminal.trim(), "rows", "24", "cols", columns];
        assert!(Command::new("stty").args(size).status().unwrap().success());
    };
    prompted(&mut screen);
    resize("80");
    press(&mut screen, LINE);
    screen.exp_string(&shown("样")).unwrap();
    for (columns, cleared) in [("13", "\x1b[1A\r\x1b[K\r\n\x1b[K\x1b[1A"), ("80", "\r\x1b[K\r\n\x1b[K")] {
        resize(columns);
        screen.exp_string(cleared).unwrap();
        screen.exp_string(&shown(LINE)).unwrap();
    }
    press(&mut screen, "\x7f吗\r");
    quit(&mut screen);
    assert_eq!(history(dir.path())[0], "user: 今天的天气怎么吗");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_stops_an_answer_keeps_what_was_said_and_the_talk_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let model = ModelApi::start().await;
    model.hang();
    let mut screen = on_screen(hosted(dir.path(), &["chat"], &model));
    prompted(&mut screen);
    screen.send_line("write a novel").unwrap();
    model.wait_for(1).await;
    screen.exp_string("waiting").unwrap();
    screen.send_control('c').unwrap();
    let before = screen.exp_string("stopped").unwrap();
    assert!(!before.contains("^C"), "an echo moves what is taken back: {before:?}");
    prompted(&mut screen);
    model.resume();
    screen.send_line("a haiku then").unwrap();
    screen.exp_string("You said: a haiku then").unwrap();
    model.answer_with("one two three four five six seven eight");
    model.mishap(1, Mishap::Stalls);
    stop_the_count(&mut screen);
    quit(&mut screen);
    let wanted = [
        "user: write a novel",
        "assistant: Stopped before there was an answer.",
        "user notice: /stop",
        "assistant notice: Stopped.",
        "user: a haiku then",
        "assistant: You said: a haiku then",
        "user: count",
        "assistant: one two three four five ",
    ];
    assert_eq!(history(dir.path())[..8], wanted);
}

#[tokio::test]
async fn a_call_that_needs_approval_is_asked_about_and_the_reply_continues() {
    let (shop, app) = start_with_shop(&json!({"tools": {"refund": {"approval": true}}})).await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    let mut screen = on_screen(annals(app.data_dir(), &["chat"]));
    let talk = spawn_blocking(move || {
        screen.exp_string("Through the program that serves").unwrap();
        assert!(pay_back(&mut screen).contains("· shop_refund {"));
        quit(&mut screen);
    });
    app.as_time_passes(async { talk.await.unwrap() }).await;
    assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_typed_while_an_answer_is_made_are_not_echoed_into_it_and_said_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let model = ModelApi::start().await;
    model.hang();
    let mut command = hosted(dir.path(), &["chat"], &model);
    command.env("NO_COLOR", "1");
    let mut screen = on_screen(command);
    prompted(&mut screen);
    screen.send_line("one").unwrap();
    // Pastes are marked from here on.
    screen.exp_string("\x1b[?2004h").unwrap();
    // Without colours too.
    screen.exp_string("waiting").unwrap();
    model.wait_for(1).await;
    press(&mut screen, "\x1b[200~two\rlines\x1b[201~\rthree\rfo");
    model.resume();
    let before = screen.exp_string("You said: one").unwrap();
    assert!(!before.contains("two") && !before.contains("\x1b[2m"), "{before:?}");
    screen.exp_string("You said: two").unwrap();
    screen.exp_string("You said: three").unwrap();
    prompted(&mut screen);
    screen.exp_string("fo").unwrap();
    press(&mut screen, "ur\r");
    screen.exp_string("You said: four").unwrap();
    let rest = quit(&mut screen);
    assert!(!rest.contains("You said"), "{rest:?}");
    let wanted = ["one", "two\nlines", "three", "four"]
        .map(|text| [format!("user: {text}"), format!("assistant: You said: {text}")]);
    assert_eq!(history(dir.path()), wanted.concat());
}

/// The person who wrote it did not know what would be asked.
#[tokio::test]
async fn text_typed_before_a_question_does_not_answer_it() {
    let (shop, app) = start_with_shop(&json!({"tools": {"refund": {"approval": true}}})).await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.model().hang();
    let mut screen = on_screen(annals(app.data_dir(), &["chat"]));
    let talk = spawn_blocking(move || {
        prompted(&mut screen);
        screen.send_line("Pay A1 back.").unwrap();
        screen.exp_string("waiting").unwrap();
        screen
    });
    let mut screen = app.as_time_passes(async { talk.await.unwrap() }).await;
    app.model().wait_for(1).await;
    press(&mut screen, "y");
    app.model().resume();
    let talk = spawn_blocking(move || {
        screen.exp_string("May I call shop_refund with this?").unwrap();
        screen.exp_string("it waits, since more was typed already").unwrap();
        prompted(&mut screen);
        screen.exp_string("y").unwrap();
        // It is there, and thought better of.
        press(&mut screen, "\x15/quit\r");
        screen.exp_eof().unwrap();
    });
    app.as_time_passes(async { talk.await.unwrap() }).await;
    assert_eq!(shop.carried_out(), []);
    assert_eq!(history(app.data_dir()).len(), 2, "and nothing else was said");
    app.finish().await;
}

/// The reason for a slow answer is one line, and no log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusing_model_is_reported_in_one_line_at_the_prompt_and_on_stderr() {
    const WHY: &str =
        "the model's endpoint refused the request with 400: check MODEL, MODEL_BASE_URL and MODEL_API_KEY";
    let (dir, other, model) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), ModelApi::start().await);
    // As often as a run asks.
    model.fail(3, 400);
    let mut screen = on_screen(hosted(dir.path(), &["chat"], &model));
    prompted(&mut screen);
    screen.send_line("hello").unwrap();
    let before = screen.exp_string(WHY).unwrap();
    let behind = screen.exp_string("; once more").unwrap();
    let then = screen.exp_string("You said: hello").unwrap();
    let shown = [before, behind, then, quit(&mut screen)].concat();
    assert!(!shown.contains("ERROR") && !shown.contains("delivery"), "{shown:?}");
    model.fail(3, 400);
    let (code, out, error) = piped(hosted(other.path(), &["chat", "hello"], &model), "");
    assert_eq!((code, out.as_str()), (0, "You said: hello\n"));
    assert!(error.starts_with(&format!("annals: {WHY}")) && error.ends_with("; once more\n"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    // In the chat of the Person to whom the one at the terminal is linked.
    let linked = tempfile::tempdir().unwrap();
    model.fail(3, 400);
    let mut command = hosted(linked.path(), &["chat", "hello"], &model);
    command.env("DM_SCOPE", "user").env("LINKS", "ada,local");
    let (code, out, error) = piped(command, "");
    assert_eq!((code, out.as_str()), (0, "You said: hello\n"));
    assert!(error.contains(&format!("annals: {WHY}")), "{error}");
}

/// One answer for all that is printed.
#[tokio::test]
async fn no_color_removes_colours_from_logs_and_findings() {
    for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = annals(dir.path(), &[]);
        command.env("ANNALS_PORT", "0").env("RUST_LOG", "info").env(plain.0, plain.1);
        let mut screen = on_screen(command);
        screen.exp_string("Annals answers at ").unwrap();
        let base = screen.read_line().unwrap();
        screen.exp_string("Stop with").unwrap();
        let update = Value::from(private(42, 1, "hello"));
        let told = loopback_client()
            .post(format!("{}/telegram", base.trim()))
            .header("X-Telegram-Bot-Api-Secret-Token", "dev-telegram-secret")
            .json(&update)
            .timeout(Duration::from_millis(PATIENCE))
            .send();
        assert!(told.await.unwrap().status().is_success());
        let mut command = annals(dir.path(), &["doctor"]);
        command.env("ANNALS_PORT", base.trim().rsplit(':').next().unwrap()).env(plain.0, plain.1);
        let logged = screen.exp_string("Stored").unwrap();
        let found = on_screen(command).exp_eof().unwrap();
        screen.send_control('c').unwrap();
        let logged = logged + &screen.exp_eof().unwrap();
        assert!(found.contains("ok     table annals"), "{found}");
        assert!(!format!("{logged}{found}").contains('\x1b'), "{plain:?}: {logged:?} {found:?}");
    }
}

/// Nothing is sent to a model, neither from the prompt nor from a pipe.
#[test]
fn a_command_that_does_not_exist_is_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, error) = piped(annals(dir.path(), &["chat", "/hlep me"]), "");
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(error, "annals: There is no command /hlep: did you mean /help? Nothing was sent.\n");
    let mut screen = on_screen(annals(dir.path(), &["chat"]));
    prompted(&mut screen);
    screen.send_line("/memroy").unwrap();
    screen.exp_string("There is no command /memroy: did you mean /memory? Nothing was sent.").unwrap();
    prompted(&mut screen);
    screen.send_line("/etc/hosts is a file").unwrap();
    quit(&mut screen);
    assert_eq!(history(dir.path()), ["user: /etc/hosts is a file", "assistant: /etc/hosts is a file"]);
}

/// The program of `app`, from another machine, by a key.
fn elsewhere(app: &TestApp, arguments: &[&str], key: &str) -> Command {
    let mut command = annals(Path::new("/nowhere"), arguments);
    command.env("ANNALS_URL", app.base()).env("ANNALS_KEY", key);
    command
}

#[tokio::test]
async fn a_stack_is_talked_to_as_by_a_browser() {
    const ROOM: &str = "web:room:ops:terminal-ada";
    let (shop, app) = start_with_shop(&json!({"tools": {"refund": {"approval": true}}})).await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    let mut screen = on_screen(elsewhere(&app, &["chat", "--user", "ada"], OPS_KEY));
    let talk = spawn_blocking(move || {
        screen.exp_string(", room terminal-ada, as ada.").unwrap();
        let between = pay_back(&mut screen);
        assert!(!between.contains("once more"), "{between:?}");
        prompted(&mut screen);
        screen.send_line("/usage").unwrap();
        screen.exp_string("tokens").unwrap();
        screen
    });
    let mut screen = app.as_time_passes(async { talk.await.unwrap() }).await;
    assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);

    app.model().answer_with("one two three four five six seven eight");
    app.model().mishap(1, Mishap::Stalls);
    let talk = spawn_blocking(move || {
        stop_the_count(&mut screen);
        quit(&mut screen);
    });
    app.as_time_passes(async { talk.await.unwrap() }).await;
    let stored = lines(&app.history(ROOM).await);
    let reply = "assistant: one two three four five ";
    for line in ["user: Pay A1 back.", ": You said: Pay A1 back.", "user: count", reply] {
        assert_eq!(stored.iter().filter(|stored| stored.ends_with(line)).count(), 1, "{line}: {stored:#?}");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_pipe_gets_the_reply_of_a_stack_alone_and_a_status() {
    let app = TestApp::builder().model().refusals_are_fine().start().await;
    let chat = async |arguments: &[&str], key: &str| {
        let command = elsewhere(&app, &[&["chat"], arguments].concat(), key);
        app.as_time_passes(beside(move || piped(command, ""))).await
    };
    assert_eq!(chat(&["hello"], APP_KEY).await, printed("You said: hello\n"));
    assert_eq!(lines(&app.history("web:room:app:terminal-local").await).len(), 2);
    assert_eq!(chat(&["again", "--room", "kitchen"], OPS_KEY).await, printed("You said: again\n"));
    assert_eq!(lines(&app.history("web:room:ops:kitchen").await).len(), 2);
    app.model().fail(9, 401);
    let (code, out, error) = chat(&["are you there?"], OPS_KEY).await;
    assert!(code == 1 && out.is_empty() && error.contains("401: check MODEL_API_KEY"), "{error}");
    let (code, out, error) = chat(&["hello"], "hunter2").await;
    assert_eq!((code, out.as_str()), (1, ""));
    assert_has(&error, &["does not accept the key (401): ANNALS_KEY"]);
    let (code, _, error) = piped(annals(app.data_dir(), &["chat", "--room", "kitchen", "hi"]), "");
    assert!(code == 1 && error.contains("--room is for a program or stack elsewhere"), "{error}");
    app.finish().await;
}

/// A pipe cannot take back the beginning of an answer, so the terminal reads the reply that is stored.
#[tokio::test]
async fn a_pipe_gets_the_stored_reply_after_an_answer_that_broke_off() {
    let app = TestApp::start().await;
    for command in [annals(app.data_dir(), &["chat", "count"]), elsewhere(&app, &["chat", "count"], OPS_KEY)]
    {
        let is_again = AtomicBool::new(false);
        app.model().answer_by(move |_| {
            let is_again = is_again.swap(true, Ordering::SeqCst);
            Some(if is_again { "uno due tre" } else { "one two three four five six" }.to_owned())
        });
        app.model().mishap(1, Mishap::Breaks);
        assert_eq!(app.as_time_passes(beside(move || piped(command, ""))).await, printed("uno due tre\n"));
    }
    app.finish().await;
}
