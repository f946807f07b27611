//! A function that cannot start because of a setting prints one line that names the variable. The same code
//! does so in every function.

use std::process::Command;

use serde_json::Value;

#[test]
fn a_setting_that_keeps_a_function_from_starting_is_one_line_that_names_it() {
    let table = [
        ("ANNALS_TABLE", "t"),
        ("ANNALS_BUCKET", "b"),
        ("ANNALS_QUEUE_URL", "q"),
        ("TELEGRAM_WEBHOOK_SECRET", "hunter2"),
    ];
    let no_address =
        [&table[..], &[("TELEGRAM_BOT_TOKEN", "1:hunter2"), ("TELEGRAM_API_BASE", "hunter2")]].concat();
    let cases = [
        (&[][..], "ANNALS_TABLE", "is not set"),
        (&table[..3], "TELEGRAM_BOT_TOKEN", "is not set"),
        (&table[..], "TELEGRAM_BOT_TOKEN", "is not set, but TELEGRAM_WEBHOOK_SECRET is: set all, or none"),
        (&no_address[..], "TELEGRAM_API_BASE", "is not an http or https address"),
    ];
    for (variables, variable, problem) in cases {
        let mut function = Command::new(env!("CARGO_BIN_EXE_telegram"));
        function.env_clear().envs(variables.iter().copied()).env("AWS_REGION", "eu-central-1");
        let output = function.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{variable}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{variable}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        let line: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(
            (&line["level"], &line["variable"], &line["problem"]),
            (&"ERROR".into(), &variable.into(), &problem.into())
        );
        assert_eq!(line["message"], format!("the function cannot start: {variable} {problem}"));
        assert!(!said.contains("hunter2"), "{said}");
    }
}
